"""Client, master and worker of tfjit and of TensorFlow, in every combination."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tests.distributed.digits import COMPUTATION, VARIABLES, imported, tasks_of, train, undisturbed
from tests.distributed.task_processes import Kind, TaskProcess
from tests.ports import free_ports

tf1 = tf.compat.v1
LIBRARIES: Final[dict[Kind, Any]] = {"tfjit": tfjit, "tensorflow": tf1}
STEPS: Final = 30


@pytest.fixture(scope="module")
def target() -> Iterator[Callable[[Kind, Kind], str]]:
    """A function that returns the target of the cluster of a master and a worker.

    Task 0 is the master, which computes; task 1 has the variables. Tasks of tfjit are processes,
    those of TensorFlow are in this process.
    """
    clusters: dict[tuple[Kind, Kind], list[TaskProcess]] = {}
    with contextlib.ExitStack() as last:
        for kinds in itertools.product(LIBRARIES, LIBRARIES):
            ports = free_ports(2)
            clusters[kinds] = [TaskProcess(kind, ports, i) for i, kind in enumerate(kinds)]
            addresses = {"worker": [f"localhost:{port}" for port in ports]}
            for i, kind in enumerate(kinds):
                if kind == "tfjit":
                    clusters[kinds][i].start()
                    last.callback(clusters[kinds][i].kill)
                else:
                    tf1.train.Server(addresses, job_name="worker", task_index=i)

        def made(master: Kind, worker: Kind) -> str:
            for kind, task in zip((master, worker), clusters[master, worker], strict=True):
                if kind == "tfjit":
                    task.wait_until_ready()
            return clusters[master, worker][0].target

        yield functools.cache(made)


@functools.cache
def losses_of_one_session(kind: Kind) -> list[float]:
    return undisturbed(LIBRARIES[kind], STEPS)


@pytest.mark.parametrize("worker", LIBRARIES)
@pytest.mark.parametrize("master", LIBRARIES)
@pytest.mark.parametrize("client", LIBRARIES)
def test_losses_are_those_of_one_session(
    target: Callable[[Kind, Kind], str], client: Kind, master: Kind, worker: Kind
) -> None:
    library = LIBRARIES[client]
    graph, _ = imported(library)
    config = library.ConfigProto(operation_timeout_in_ms=60_000)
    with library.Session(target(master, worker), graph=graph, config=config) as session:
        session.run("init")
        where = tasks_of(session, library)
        assert (where["conv1/w"], where["loss"]) == (VARIABLES, COMPUTATION)
        losses = train(session, range(STEPS))
    assert losses[-1] < losses[0] - 0.25
    for kind in LIBRARIES:
        np.testing.assert_allclose(losses, losses_of_one_session(kind), rtol=0, atol=1e-6)
