"""Between-graph replication on a cluster of processes: one parameter server, two workers."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfjit
from tests.distributed.session.servers import free_ports
from tests.distributed.training_worker import loss_of, rows_of

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


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster()
    yield made
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


def test_asynchronous_workers(cluster: Cluster) -> None:
    """The second one joins late, and finds the model initialized."""
    cluster.start_ps()
    # a session reaches all tasks of its cluster, so the second server has to be there
    chief = cluster.start_worker(0, sync=False, last_step=40)
    other = cluster.start_worker(1, sync=False, last_step=40, max_wait_secs=PATIENCE)
    first, second = lines(chief), lines(other)
    assert first[-1][0] < 0.5 * first[0][0] and first[-1][0] < 0.5
    steps = [step for _, step in first + second]
    assert max(steps) >= 39 and len(steps) >= 40


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


def test_synchronous_workers(cluster: Cluster) -> None:
    """Their losses are those of one process with the mean of the gradients."""
    cluster.start_ps()
    workers = [cluster.start_worker(task, sync=True, last_step=12) for task in range(2)]
    found = [lines(worker) for worker in workers]
    count = min(len(losses) for losses in found)
    assert count >= 10
    expected = np.array(reference(count)).T
    for task in range(2):
        got = [loss for loss, _ in found[task][:count]]
        np.testing.assert_allclose(got, expected[task], atol=1e-5)


def test_recovery_after_the_parameter_server_was_killed(cluster: Cluster, tmp_path: Path) -> None:
    ps = cluster.start_ps()
    arguments = {
        "sync": False,
        "last_step": 1_000_000,
        "save_checkpoint_steps": 50,
        "save_summaries_steps": None,
        "log_step_count_steps": None,
        "checkpoint_dir": str(tmp_path),
    }
    chief = cluster.start_worker(0, **arguments)
    other = cluster.start_worker(1, **arguments, max_wait_secs=PATIENCE)
    step_of_next_session(chief)
    step_of_next_session(other)
    before, _ = lines(chief, 60), lines(other, 20)
    ps.kill()
    ps.wait(PATIENCE)
    cluster.start_ps()
    restored = step_of_next_session(chief)
    assert restored >= 50  # a checkpoint holds updates that the other worker adds meanwhile
    assert step_of_next_session(other) >= 50
    after, late = lines(chief, 30), lines(other, 30)
    assert after[-1][1] > restored and late[-1][1] > restored
    assert after[0][0] < 0.1 * before[0][0]  # the model is the trained one


def test_a_queue_shared_by_processes(cluster: Cluster) -> None:
    """Sessions of two graphs at one server meet in a queue by its shared name."""
    process = cluster.start(
        *("-m", "tfjit", "server", "--cluster", f"local={cluster.spec['ps'][0]}"),
        *("--job", "local", "--task", "0"),
    )
    assert process.stdout is not None and "serves" in process.stdout.readline()
    target = f"grpc://{cluster.spec['ps'][0]}"
    program = (
        "import sys, tfjit as tf; q = tf.FIFOQueue(9, tf.int32, shapes=(), shared_name='both'); "
        "s = tf.Session(sys.argv[1]); s.run(q.enqueue_many(([1, 2, 3],))); print('put', flush=True)"
    )
    with tfjit.Graph().as_default():
        queue = tfjit.FIFOQueue(9, tfjit.int32, shapes=(), name="mine", shared_name="both")
        taken = queue.dequeue_many(3)
        with tfjit.Session(target) as session:
            producer = cluster.start("-c", program, target)
            assert session.run(taken).tolist() == [1, 2, 3]
            assert producer.wait(PATIENCE) == 0
