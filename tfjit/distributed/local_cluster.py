"""Start the tasks of a cluster as processes of this host.

The processes have interpreters of their own, so towers and replicas that one interpreter would hold
up run at the same time.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tfjit.distributed.channels.channels import SCHEME
from tfjit.distributed.local_task import READY
from tfjit.distributed.protocol.task_names import task_name
from tfjit.framework import errors
from tfjit.framework.types.cluster_spec import ClusterSpec

_HOST: Final = "127.0.0.1"
_ATTEMPTS: Final = 3
_END_S: Final = 5.0
_KEPT_LINES: Final = 200
_IN_USE: Final = "is in use or cannot be bound"


class LocalCluster:
    """Processes of this host that are the tasks of a cluster.

    They end with `close`, at the end of a `with` block, or with this process.
    """

    def __init__(self, addresses: dict[str, list[str]], children: Sequence[_Child]) -> None:
        self.cluster_spec = ClusterSpec(addresses)
        self.targets = tuple(SCHEME + address for address in addresses["worker"])
        """Targets of sessions, one for each worker."""
        self.ps_targets = tuple(SCHEME + address for address in addresses.get("ps", ()))
        """Targets of the parameter servers."""
        self.worker_devices = tuple(f"/job:worker/task:{i}" for i in range(len(self.targets)))
        """Names for `tf.device`, one for each worker."""
        self._children = tuple(children)
        self._end = weakref.finalize(self, _end, self._children, os.getpid())

    @property
    def target(self) -> str:
        """The target of sessions with the first worker.

        All towers may share its master.
        """
        return self.targets[0]

    @property
    def processes(self) -> tuple[int, ...]:
        """The process ids of the tasks: parameter servers, then workers."""
        return tuple(child.process.pid for child in self._children)

    def close(self) -> None:
        """End all processes; steps that still run fail.

        A second call does nothing.
        """
        self._end()

    def __enter__(self) -> LocalCluster:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "running" if self._end.alive else "closed"
        return f"<LocalCluster {self.cluster_spec.as_dict()}, {state}>"


def local_cluster(
    workers: int, ps: int = 0, config: Any = None, timeout_s: float = 60.0
) -> LocalCluster:
    """Start worker processes and parameter servers on this host.

    The jobs are "worker" and "ps", at free ports of the loopback interface. config: a ConfigProto
    of the tasks; without one, the workers share the cores. timeout_s: the limit of the start.
    The processes know no ops that this program has registered. Raises ValueError for impossible
    numbers, and UnavailableError, with the output, for a process that does not start.
    """
    for name, count, least in (("workers", workers, 1), ("ps", ps, 0)):
        if type(count) is not int or count < least:
            raise ValueError(f"{name}={count!r}: expected a number from {least} on")
    data = (_shared_cores(workers) if config is None else config).SerializeToString()
    for attempt in range(_ATTEMPTS):
        ports = _free_ports(ps + workers)
        addresses = {
            job: [f"{_HOST}:{port}" for port in found]
            for job, found in (("ps", ports[:ps]), ("worker", ports[ps:]))
            if found
        }
        try:
            return LocalCluster(addresses, _started(addresses, data, timeout_s))
        except errors.UnavailableError as error:
            # another program has taken one of the ports meanwhile
            if _IN_USE not in error.message or attempt == _ATTEMPTS - 1:
                raise
    raise AssertionError


def _started(addresses: dict[str, list[str]], config: bytes, timeout_s: float) -> list[_Child]:
    """Return the processes of all tasks, once they serve."""
    children: list[_Child] = []
    until_s = time.monotonic() + timeout_s
    try:
        for job, found in addresses.items():
            for task in range(len(found)):
                children.append(_Child(addresses, job, task, config))
        for child in children:
            child.wait(until_s, timeout_s)
    except BaseException:
        _end(tuple(children), os.getpid())
        raise
    return children


def _shared_cores(workers: int) -> Any:
    from tfjit.protos import ConfigProto

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return ConfigProto(intra_op_parallelism_threads=max(1, (cores or 1) // workers))


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for made in sockets:
            made.bind((_HOST, 0))
        return [int(made.getsockname()[1]) for made in sockets]


class _Child:
    """The process of a task."""

    def __init__(self, addresses: Any, job: str, task: int, config: bytes) -> None:
        self.name = task_name(job, task)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tfjit.distributed.local_task"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=_environment(),
        )
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._serves = False
        self._reader = threading.Thread(target=self._relay, name="tfjit-task-output", daemon=True)
        self._reader.start()
        place = {"cluster": addresses, "job": job, "task": task, "config": config.hex()}
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):  # it has ended, which `wait` tells
            self.process.stdin.write(json.dumps(place).encode() + b"\n")
            self.process.stdin.flush()

    def _relay(self) -> None:
        """Keep the last errors, and show them once the task serves."""
        assert self.process.stderr is not None
        for data in self.process.stderr:
            line = data.decode(errors="replace")
            self._lines.append(line)
            if self._serves and sys.stderr is not None:
                with contextlib.suppress(OSError, ValueError):  # it was closed
                    sys.stderr.write(line)

    def wait(self, until_s: float, timeout_s: float) -> None:
        """Wait until the task serves. Raises UnavailableError."""
        output = self.process.stdout
        assert output is not None
        left_s = max(0.0, until_s - time.monotonic())
        if not select.select([output], [], [], left_s)[0]:
            why = f"does not serve after {timeout_s:g} s"
        elif output.readline().decode(errors="replace").strip() == READY:
            self._serves = True
            return
        else:
            why = "has not started"
        self.process.kill()
        status = self.process.wait()
        self._reader.join(_END_S)
        raise errors.UnavailableError(
            None,
            None,
            f"The process of {self.name} {why} (status {status}). Its output:\n"
            f"{''.join(self._lines) or '(none)'}",
        )

    def let_go(self) -> None:
        """Ask the process to end."""
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()

    def end(self, until_s: float) -> None:
        """Wait for its end, and enforce it at a time."""
        try:
            self.process.wait(max(0.0, until_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._reader.join(_END_S)
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None and not self._reader.is_alive():
                pipe.close()


def _environment() -> dict[str, str]:
    """Return the environment of a process that finds this tfjit."""
    root = str(Path(__file__).resolve().parents[2])
    known = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{known}" if known else root}


def _end(children: tuple[_Child, ...], process: int) -> None:
    if os.getpid() != process:  # a forked child: the processes are its parent's
        return
    for child in children:
        child.let_go()
    until_s = time.monotonic() + _END_S
    for child in children:
        child.end(until_s)


__all__ = ["LocalCluster", "local_cluster"]
