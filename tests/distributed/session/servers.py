"""Servers of TensorFlow, and the outcome of a call as values or an error to compare."""

from __future__ import annotations

import functools
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import tensorflow as tf

import tfjit
from tests.ports import free_ports
from tests.waiting import wait_until

tf1 = tf.compat.v1
_LOST_S: Final = 20.0
_ATTEMPTS: Final = 5


@functools.cache
def local_server() -> Any:
    """Return a server with one task, which lives as long as the process."""
    return tf1.train.Server.create_local_server()


@functools.cache
def cluster() -> tuple[Any, Any]:
    """Return the servers of a cluster: a parameter server and a worker."""
    ps, worker = free_ports(2)
    spec = tf1.train.ClusterSpec({"ps": [f"localhost:{ps}"], "worker": [f"localhost:{worker}"]})
    return (
        tf1.train.Server(spec, job_name="ps", task_index=0),
        tf1.train.Server(spec, job_name="worker", task_index=0),
    )


# A process that has imported TensorFlow, which takes seconds, and forks a server for each line.
_SERVERS = """
import os, signal, sys
import tensorflow as tf
child = 0
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for _ in sys.stdin:
    child = os.fork()
    if child == 0:
        spec = {"local": ["localhost:" + sys.argv[1]]}
        server = tf.compat.v1.train.Server(spec, job_name="local", task_index=0)
        print(os.getpid(), flush=True)
        server.join()
if child:  # the test has ended
    os.kill(child, signal.SIGKILL)
"""


class ServerProcess:
    """A server in a process of its own, which can be killed and started again."""

    def __init__(self) -> None:
        (self.port,) = free_ports(1)
        self.target = f"grpc://localhost:{self.port}"
        self._server = 0
        self._parent = subprocess.Popen(
            [sys.executable, "-c", _SERVERS, str(self.port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.start()

    def start(self) -> None:
        """Start the server and wait until it serves."""
        assert self._parent.stdin is not None and self._parent.stdout is not None
        self._parent.stdin.write("start\n")
        self._parent.stdin.flush()
        self._server = int(self._parent.stdout.readline())

    def kill(self) -> None:
        """End the server at once."""
        os.kill(self._server, signal.SIGKILL)
        wait_until(lambda: not Path(f"/proc/{self._server}").exists())

    def close(self) -> None:
        """Kill the server and the process that has forked it."""
        if Path(f"/proc/{self._server}").exists():
            self.kill()
        self._parent.kill()
        self._parent.communicate()


_LOGS = re.compile(r"\nRecent warning and error logs:(\n  [IWEF]\d{4} .*(\n\t \[\[.*)?)*")


def outcome(call: Callable[[], Any]) -> Any:
    """Return a call's result, or (class name, message) of its error.

    The message is without the places in the source, which differ between the libraries, without
    the logs of earlier steps that TensorFlow adds, and without the handles of sessions.
    """
    try:
        return call()
    except Exception as error:
        message = str(error).split("\n\nOriginal stack trace", 1)[0]
        message = _LOGS.sub("", message)
        lines = [
            line
            for line in message.split("\n")
            if line
            and not line.startswith(("Graph execution error:", "Detected at", "Node:", "    "))
        ]
        return type(error).__name__, re.sub(r"\b[0-9a-f]{16}\b", "HANDLE", "\n".join(lines))


def assert_same(ours: Any, theirs: Any) -> None:
    """Check that two outcomes are alike: types, dtypes, shapes, values, errors."""
    assert type(ours) is type(theirs), (ours, theirs)
    if isinstance(ours, (list, tuple)):
        assert len(ours) == len(theirs), (ours, theirs)
        for one, other in zip(ours, theirs, strict=True):
            assert_same(one, other)
    elif isinstance(ours, dict):
        assert_same(sorted(ours.items()), sorted(theirs.items()))
    elif isinstance(ours, np.ndarray):
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
        assert ours.flags.writeable == theirs.flags.writeable
        np.testing.assert_array_equal(ours, theirs)
    else:
        assert ours == theirs


def answered(call: Callable[[], Any]) -> Any:
    """Return the outcome of a call of TensorFlow's; call again where it is lost.

    Now and then a step on TensorFlow's servers never ends, in spite of its time limit. The thread
    that waits for it is left behind.
    """
    for _ in range(_ATTEMPTS):
        found: list[Any] = []
        thread = threading.Thread(
            target=lambda found=found: found.append(outcome(call)), daemon=True
        )
        thread.start()
        thread.join(_LOST_S)
        if found:
            return found[0]
    raise AssertionError(f"TensorFlow's servers have not answered {_ATTEMPTS} times")


def both(target: str, graph: Any, call: Callable[[Any], Any], config: Any = None) -> Any:
    """Check that `call` has the same outcome with both libraries' sessions; return it."""

    def ask(kind: Any) -> Any:
        with kind(target, graph=graph, config=config) as session:
            return outcome(lambda: call(session))

    theirs, ours = answered(lambda: ask(tf1.Session)), ask(tfjit.Session)
    assert_same(ours, theirs)
    return ours
