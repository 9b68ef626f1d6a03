"""Tasks of a cluster in processes of their own, which can be killed and started again."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal

from tests.ports import free_ports

Kind = Literal["tfjit", "tensorflow"]

_TFJIT: Final = "import sys; from tfjit.cli import main; sys.exit(main(sys.argv[1:]))"
_TENSORFLOW: Final = """
import sys
import tensorflow as tf
_, _, cluster, _, job, _, task, *config = sys.argv[1:]
jobs = {name: tasks.split(",") for name, tasks in (one.split("=") for one in cluster.split(";"))}
options = tf.compat.v1.ConfigProto()
if config:
    from google.protobuf import text_format
    text_format.Parse(config[1], options)
server = tf.compat.v1.train.Server(jobs, job_name=job, task_index=int(task), config=options)
print("/job:" + job, "serves", server.target, flush=True)
server.join()
"""


class TaskProcess:
    """A task of the job "worker" in a process of its own."""

    def __init__(self, kind: Kind, ports: Sequence[int], task: int, config: str = "") -> None:
        """Prepare the task of a cluster with these ports; `start` starts it.

        config: the server's ConfigProto, as text.
        """
        self.target = f"grpc://localhost:{ports[task]}"
        self._kind = kind
        cluster = "worker=" + ",".join(f"localhost:{port}" for port in ports)
        self._arguments = ["server", "--cluster", cluster, "--job", "worker", "--task", str(task)]
        if config:
            self._arguments += ["--config", config]
        self._process: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int:
        """The id of the process, which has to be running."""
        assert self._process is not None
        return self._process.pid

    def start(self, variables: Mapping[str, str] | None = None) -> None:
        """Start the process; `wait_until_ready` waits for it."""
        program = _TFJIT if self._kind == "tfjit" else _TENSORFLOW
        self._process = subprocess.Popen(
            [sys.executable, "-c", program, *self._arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **(variables or {})},
        )

    def wait_until_ready(self) -> None:
        """Wait until the task serves."""
        assert self._process is not None and self._process.stdout is not None
        line = self._process.stdout.readline()
        assert " serves grpc://" in line, (line, self._process.poll())

    def is_running(self) -> bool:
        """Return whether the process runs."""
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """End the process at once."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


@contextlib.contextmanager
def tasks(
    *kinds: Kind, variables: Mapping[str, str] | None = None, config: str = ""
) -> Iterator[list[TaskProcess]]:
    """Yield the running tasks of one cluster; they are killed in the end.

    config: the servers' ConfigProto, as text.
    """
    ports = free_ports(len(kinds))
    made = [TaskProcess(kind, ports, task, config) for task, kind in enumerate(kinds)]
    try:
        for one in made:
            one.start(variables)
        for one in made:
            one.wait_until_ready()
        yield made
    finally:
        for one in made:
            one.kill()
