"""Between-graph replication on a cluster of processes: one parameter server, two workers."""

from __future__ import annotations

import select
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfjit
from tests.distributed.training_processes import (
    PATIENCE,
    Cluster,
    lines,
    reference,
    running_cluster,
    step_of_next_session,
)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with running_cluster() as made:
        yield made


def test_a_worker_waits_for_the_chief_and_another_joins_late(cluster: Cluster) -> None:
    """The last one starts its server, too, when training is under way."""
    cluster.start_ps()
    arguments: dict[str, Any] = {"sync": False, "last_step": 1_000_000}
    # without filters, a session waits until all tasks of its cluster are there
    filters = [["/job:ps", f"/job:worker/task:{task}"] for task in range(2)]
    early = cluster.start_worker(1, **arguments, filters=filters[1], max_wait_secs=PATIENCE)
    assert select.select([early.stdout], [], [], 1.0)[0] == []
    chief = cluster.start_worker(0, **arguments, filters=filters[0])
    first, second = lines(chief, 20), lines(early, 5)
    began = max(first[0], second[0])[0]  # of the one that made the first step
    assert first[-1][0] < 0.5 * began
    early.kill()
    early.wait(PATIENCE)
    at = lines(chief, 200)[-1][1]  # it goes on alone
    late = cluster.start_worker(1, **arguments, filters=filters[1], max_wait_secs=PATIENCE)
    joined, goes_on = lines(late, 5), lines(chief, 5)
    assert joined[0][1] >= at and joined[0][0] < 0.5 * began
    assert goes_on[-1][1] > at


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


def test_synchronous_training_survives_the_loss_of_each_worker(
    cluster: Cluster, tmp_path: Path
) -> None:
    """The others wait for the lost one; a chief restores the last checkpoint."""
    cluster.start_ps()
    last = 120  # far behind the steps after which workers are killed
    arguments = {
        "sync": True,
        "last_step": last,
        "save_checkpoint_steps": 5,
        "save_summaries_steps": None,
        "log_step_count_steps": None,
        "checkpoint_dir": str(tmp_path),
    }
    late: dict[str, Any] = {"max_wait_secs": PATIENCE}
    chief, other = (
        cluster.start_worker(0, **arguments),
        cluster.start_worker(1, **arguments, **late),
    )
    before = lines(chief, 8)
    lines(other, 8)
    other.kill()
    other.wait(PATIENCE)
    other = cluster.start_worker(1, **arguments, **late)
    joined = step_of_next_session(other)
    assert joined >= before[-1][1]
    lines(chief, 8)
    seen = lines(other, 8)
    chief.kill()
    chief.wait(PATIENCE)
    chief = cluster.start_worker(0, **arguments)
    restored = step_of_next_session(chief)
    assert restored >= 5
    ends = [lines(chief), lines(other)]
    assert ends[0][0][1] >= restored and ends[1][-1][1] > seen[-1][1]
    for task, (loss, step) in enumerate(end[-1] for end in ends):
        assert step >= last - 1
        assert loss == pytest.approx(reference(100)[-1][task], abs=1e-6)  # which has converged


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
    resumed = step_of_next_session(other)
    assert resumed >= 50
    after, late = lines(chief, 30), lines(other, 30)
    assert after[-1][1] > restored and late[-1][1] > resumed
    # the model is the trained one, which may have been so before the first line, too
    assert after[0][0] < max(0.1 * before[0][0], 1e-6)


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
