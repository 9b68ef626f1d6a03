"""Sessions of workers share the state of their workers, or have a separate one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.distributed.master.fake_workers import FakeCluster
from tests.runtime.covering import covers
from tfjit import protos
from tfjit.distributed.master.worker_sessions import create_worker_sessions


@covers("ConfigProto.Experimental.share_session_state_in_clusterspec_propagation")
@pytest.mark.parametrize(
    ("own_cluster", "shares", "isolated"),
    [(False, False, False), (True, False, True), (True, True, False)],
)
def test_sessions_with_a_cluster_of_their_own(
    own_cluster: bool, shares: bool, isolated: bool
) -> None:
    made = FakeCluster()
    config = protos.ConfigProto()
    config.experimental.share_session_state_in_clusterspec_propagation = shares
    if own_cluster:
        config.cluster_def.job.add(name="w").tasks[0] = "localhost:1"
    devices: Any = SimpleNamespace(all=(), client=SimpleNamespace(incarnation=7))
    tasks = [worker.task for worker in made.workers]
    create_worker_sessions(made.master.cluster, tasks, "a session", config, devices, None)
    for worker in made.workers:
        call = worker.sessions["a session"]
        assert call.isolated == isolated and (call.server_def is not None) == own_cluster
        assert call.master_incarnation == 7
