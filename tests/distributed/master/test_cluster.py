"""Tasks of a cluster, and the filters that admit them."""

from __future__ import annotations

import pytest

from tests.distributed.master.fake_workers import FakeWorker
from tfjit.distributed.channels.remote_worker import RemoteWorker
from tfjit.distributed.master.cluster import Cluster, matches
from tfjit.distributed.protocol.task_names import task_name
from tfjit.framework import errors

TASK = "/job:w/replica:0/task:1"


@pytest.mark.parametrize(
    ("filters", "admitted"),
    [
        ([], True),
        (["/job:w"], True),
        (["/job:ps", "/job:w/task:1"], True),
        (["/job:ps"], False),
        (["/job:w/task:0"], False),
        (["/device:CPU:0"], True),
    ],
)
def test_filters(filters: list[str], admitted: bool) -> None:
    assert matches(filters, TASK) is admitted


def test_tasks_in_order_and_their_workers() -> None:
    names = [task_name("w", index) for index in (10, 2, 1)] + [task_name("ps", 0)]
    local = FakeWorker(TASK)
    cluster = Cluster(TASK, dict.fromkeys(names, "127.0.0.1:1"), local)
    others = [task_name("ps", 0), task_name("w", 2), task_name("w", 10)]
    assert cluster.tasks() == [TASK, *others]
    assert cluster.tasks(["/job:ps"]) == [TASK, others[0]]
    assert cluster.worker(TASK) is local and cluster.is_local(TASK)
    assert isinstance(cluster.worker(others[0]), RemoteWorker)
    assert not cluster.is_local(others[0])
    cluster.close()
    with pytest.raises(errors.InvalidArgumentError, match="has no task"):
        Cluster(TASK, {others[0]: "127.0.0.1:1"})
