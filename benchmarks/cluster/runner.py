"""The processes of a candidate: a cluster of one library, and a client."""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from benchmarks.cluster.task import CLIENT

ROOT: Final = Path(__file__).resolve().parents[2]
TENSORFLOW: Final = "tensorflow"
OURS: Final = "tfjit"
DIRECT: Final = "tfjit, TCP"
OVER_GRPC: Final = "tfjit, gRPC"
CANDIDATES: Final = (TENSORFLOW, OURS, DIRECT, OVER_GRPC)
_DISABLED: Final = {DIRECT: "local_channel", OVER_GRPC: "local_channel,direct_channel"}
_LIMIT_S: Final = 120.0


class Failed(Exception):
    """A process of a candidate has failed, or does not answer."""


class _Process:
    """One task or client, which obeys orders."""

    def __init__(self, candidate: str, cluster: Mapping[str, Any], job: str, index: int) -> None:
        self.name = f"{candidate}: {job} {index}"
        environment = dict(os.environ, TF_CPP_MIN_LOG_LEVEL="3")
        if candidate in _DISABLED:
            environment["TFJIT_DISABLE"] = _DISABLED[candidate]
        library = TENSORFLOW if candidate == TENSORFLOW else OURS
        self._errors = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115  closed by `close`
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "benchmarks.cluster.task", library),
                *(json.dumps(cluster), job, str(index)),
            ],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )

    def order(self, **order: Any) -> None:
        """Send an order."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
        except OSError:
            raise Failed(f"{self.name} has ended: {self._last_words()}") from None

    def answer(self) -> Any:
        """Return the answer to the last order, or to the start. Raises Failed."""
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], _LIMIT_S)[0]:
            raise Failed(f"{self.name} has not answered for {_LIMIT_S:g} s")
        line = self._process.stdout.readline()
        if not line:
            raise Failed(f"{self.name} has ended: {self._last_words()}")
        found = json.loads(line)
        if "error" in found:
            raise Failed(f"{self.name}: {found['error']}")
        return found["answer"]

    def _last_words(self) -> str:
        self._errors.seek(0)
        return self._errors.read()[-2000:]

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._errors):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


class Candidate:
    """A cluster of one parameter server and two workers, and a client, each a process."""

    def __init__(self, name: str) -> None:
        self.name = name
        ports = _free_ports(3)
        cluster = {
            "ps": [f"localhost:{ports[0]}"],
            "worker": [f"localhost:{port}" for port in ports[1:]],
        }
        places = [("ps", 0), ("worker", 0), ("worker", 1), (CLIENT, 0)]
        self._processes = [_Process(name, cluster, *place) for place in places]
        self.client = self._processes[3]
        self.workers = self._processes[1:3]

    def wait(self) -> None:
        """Wait until all processes are ready. Raises Failed."""
        for process in self._processes:
            process.answer()

    def prepare(self, what: str, size: int = 0) -> list[float]:
        """Prepare a measurement of the client's, return results to compare."""
        self.client.order(do="prepare", what=what, bytes=size)
        return list(self.client.answer())

    def prepare_replicas(self) -> list[float]:
        """Prepare the training of the workers, return losses of the first."""
        self.workers[0].order(do="prepare", what="replica")
        losses = list(self.workers[0].answer())
        self.workers[1].order(do="prepare", what="replica", first=False)
        self.workers[1].answer()
        return losses

    def times_s(self, what: str, count: int) -> list[float]:
        """Return the seconds of steps of the client."""
        self.client.order(do="time", what=what, count=count)
        return list(self.client.answer())

    def rate(self, what: str, seconds: float, workers: int = 0) -> float:
        """Return the steps a second of the client, or of so many workers together."""
        processes = self.workers[:workers] or [self.client]
        for process in processes:
            process.order(do="rate", what=what, seconds=seconds)
        return float(sum(steps / s for steps, s in [process.answer() for process in processes]))

    def close(self) -> None:
        """End all processes."""
        for process in self._processes:
            process.close()


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for made in sockets:
        made.bind(("127.0.0.1", 0))
    ports = [int(made.getsockname()[1]) for made in sockets]
    for made in sockets:
        made.close()
    return ports


def settle() -> None:
    """Wait a moment, in which threads behind the last steps come to an end."""
    time.sleep(0.05)


__all__ = ["CANDIDATES", "OURS", "OVER_GRPC", "TENSORFLOW", "Candidate", "Failed", "settle"]
