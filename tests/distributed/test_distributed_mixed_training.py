"""Asynchronous between-graph replication where ps and workers are of different libraries."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tests.distributed.replicas import Replica
from tests.distributed.task_processes import Kind
from tests.ports import free_ports

tf1 = tf.compat.v1
LIBRARIES: Final[dict[Kind, Any]] = {"tfjit": tfjit, "tensorflow": tf1}
# The parameter server, and the workers, which are masters of their own sessions.
MIXES: Final[tuple[tuple[Kind, tuple[Kind, Kind]], ...]] = (
    ("tensorflow", ("tfjit", "tfjit")),
    ("tfjit", ("tensorflow", "tensorflow")),
    ("tfjit", ("tfjit", "tensorflow")),
)
STEPS: Final = 20


@pytest.fixture(scope="module", params=MIXES, ids=lambda mix: f"{mix[0]}-{'-'.join(mix[1])}")
def replicas(request: pytest.FixtureRequest) -> Iterator[Sequence[Replica]]:
    """The replicas of a cluster of servers in this process."""
    ps, workers = request.param
    addresses = [f"localhost:{port}" for port in free_ports(3)]
    cluster = {"ps": addresses[:1], "worker": addresses[1:]}
    kinds = [("ps", 0, ps), *(("worker", task, kind) for task, kind in enumerate(workers))]
    servers = [LIBRARIES[kind].train.Server(cluster, job, task) for job, task, kind in kinds]
    made = []
    for task, kind in enumerate(workers):
        library = LIBRARIES[kind]
        device = library.train.replica_device_setter(
            worker_device=f"/job:worker/task:{task}", cluster=library.train.ClusterSpec(cluster)
        )
        made.append(Replica(library, servers[1 + task].target, device))
    yield made
    for replica in made:
        replica.session.close()
    for server in servers:
        if isinstance(server, tfjit.train.Server):
            server.stop()


@functools.cache
def losses_of_one_session() -> list[float]:
    """Return the losses of a DirectSession, and of the first batch after them."""
    one = Replica(tfjit, "", None)
    with one.session:
        one.initialize()
        return [*(one.step(number) for number in range(STEPS)), one.evaluate()]


def test_workers_in_turn_train_as_one_session(replicas: Sequence[Replica]) -> None:
    chief, other = replicas
    chief.initialize()
    assert other.session.run(other.ready).size == 0
    losses = [replicas[number % 2].step(number) for number in range(STEPS)]
    np.testing.assert_allclose(
        [*losses, other.evaluate()], losses_of_one_session(), rtol=0, atol=1e-6
    )
    assert [int(one.session.run(one.global_step)) for one in replicas] == [STEPS, STEPS]


def test_workers_at_the_same_time_train_as_well(replicas: Sequence[Replica]) -> None:
    replicas[0].initialize()
    before = replicas[0].evaluate()
    failed: list[BaseException] = []

    def train(task: int) -> None:
        try:
            for number in range(task, STEPS, 2):
                replicas[task].step(number)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=train, args=(task,), daemon=True) for task in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failed and not any(thread.is_alive() for thread in threads)
    after, expected = replicas[1].evaluate(), losses_of_one_session()[-1]
    assert int(replicas[1].session.run(replicas[1].global_step)) == STEPS
    assert after == pytest.approx(expected, abs=0.25 * (before - expected))
