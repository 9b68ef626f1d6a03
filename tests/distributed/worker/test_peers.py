"""Workers by task: in this process, over a channel, or unknown."""

from __future__ import annotations

import pytest

from tests.distributed.worker.in_process_cluster import Cluster
from tfjit.distributed.channels.remote_worker import RemoteWorker
from tfjit.distributed.worker.peers import Channels, Peers
from tfjit.framework import errors


def test_workers() -> None:
    channels = Channels()
    with Cluster(1) as cluster:
        peers = Peers({**cluster.addresses, "/job:x/task:0": "localhost:1"}, channels)
        assert peers.worker(cluster.workers[0].task) is cluster.workers[0]
        remote = peers.worker("/job:x/task:0")
        assert isinstance(remote, RemoteWorker) and peers.worker("/job:x/task:0") is remote
    with pytest.raises(errors.InternalError, match="No worker known as /job:y/task:0"):
        peers.worker("/job:y/task:0")
    channels.close()
