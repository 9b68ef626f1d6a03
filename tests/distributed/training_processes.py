"""Processes of a training with one parameter server and two workers, and what they print."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tfjit
from tests.distributed.training_worker import loss_of, rows_of
from tests.ports import free_ports

# Seconds that any single line of a process may take.
PATIENCE = 60


class Cluster:
    """Processes of a cluster, all killed at the end."""

    def __init__(self) -> None:
        ps, *workers = free_ports(3)
        self.spec = {
            "ps": [f"localhost:{ps}"],
            "worker": [f"localhost:{port}" for port in workers],
        }
        self.text = f"ps=localhost:{ps};worker=" + ",".join(self.spec["worker"])
        self.processes: list[subprocess.Popen[str]] = []

    def start(self, *argv: str) -> subprocess.Popen[str]:
        """Start a process of Python."""
        process = subprocess.Popen(
            [sys.executable, *argv], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.processes.append(process)
        return process

    def start_ps(self) -> subprocess.Popen[str]:
        """Start the parameter server and wait until it serves."""
        process = self.start(
            *("-m", "tfjit", "server", "--cluster", self.text, "--job", "ps", "--task", "0")
        )
        assert process.stdout is not None
        assert "serves grpc://" in process.stdout.readline()
        return process

    def start_worker(self, task: int, **arguments: Any) -> subprocess.Popen[str]:
        """Start a worker that trains."""
        told = json.dumps({"task": task, "cluster": self.spec, **arguments})
        return self.start("-m", "tests.distributed.training_worker", told)

    def close(self) -> None:
        """Kill and collect all processes."""
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.communicate()


@contextmanager
def running_cluster() -> Iterator[Cluster]:
    """Yield a cluster without processes; kill all that it starts."""
    made = Cluster()
    try:
        yield made
    finally:
        made.close()


def lines(process: subprocess.Popen[str], count: int | None = None) -> list[tuple[float, int]]:
    """Return the losses and steps that a worker prints, up to its end or `count`."""
    found: list[tuple[float, int]] = []
    assert process.stdout is not None
    for line in process.stdout:
        if line == "done\n":
            return found
        loss, step = json.loads(line)
        if loss == "session":
            continue
        found.append((loss, step))
        if len(found) == count:
            return found
    raise AssertionError(f"the worker ended after {found} with {process.wait(PATIENCE)}")


def step_of_next_session(process: subprocess.Popen[str]) -> int:
    """Skip to the beginning of a session; return its global step."""
    assert process.stdout is not None
    for line in process.stdout:
        if line != "done\n" and json.loads(line)[0] == "session":
            return int(json.loads(line)[1])
    raise AssertionError(f"the worker ended with {process.wait(PATIENCE)}")


def reference(steps: int) -> list[list[float]]:
    """Return the workers' losses in one process that averages the gradients."""
    with tfjit.Graph().as_default():
        losses, variables = [], []
        for task in range(2):
            with tfjit.variable_scope("", reuse=task > 0):
                loss, variables = loss_of(*rows_of(task, 2))
            losses.append(loss)
        mean = (losses[0] + losses[1]) / 2
        train = tfjit.train.GradientDescentOptimizer(0.1).minimize(mean, var_list=variables)
        with tfjit.Session() as session:
            session.run(tfjit.global_variables_initializer())
            found = []
            for _ in range(steps):
                found.append([float(loss) for loss in session.run(losses)])
                session.run(train)
    return found
