"""Clusters that a program starts on its host: their tasks, their errors, their end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import tfjit as tf
from tfjit.distributed import local_cluster as module
from tfjit.distributed.local_cluster import LocalCluster
from tfjit.framework import errors

ROOT = Path(__file__).resolve().parents[2]
WAIT_S = 60.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with tf.local_cluster(2, ps=1) as made:
        yield made


def alive(process: int) -> bool:
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def all_end(processes: tuple[int, ...]) -> bool:
    until_s = time.monotonic() + WAIT_S
    while any(map(alive, processes)) and time.monotonic() < until_s:
        time.sleep(0.02)
    return not any(map(alive, processes))


def test_towers_and_a_parameter_server(cluster: LocalCluster) -> None:
    with tf.Graph().as_default() as graph:
        with tf.device("/job:ps/task:0"):
            weight = tf.Variable(2.0)
        x = tf.placeholder(tf.float32, [4])
        parts = []
        for index, device in enumerate(cluster.worker_devices):
            with tf.device(device):
                parts.append(x[2 * index : 2 * index + 2] * weight)
        result = tf.concat(parts, 0)
    with tf.Session(cluster.target, graph=graph) as session:
        session.run(weight.initializer)
        found = session.run(result, {x: np.arange(4, dtype=np.float32)})
        assert found.tolist() == [0, 2, 4, 6]
        names = {device.name for device in session.list_devices()}
    assert {f"/job:{job}/replica:0/task:{task}/device:CPU:0" for job, task in TASKS} <= names


TASKS = [("ps", 0), ("worker", 0), ("worker", 1)]


def test_it_says_where_its_tasks_are(cluster: LocalCluster) -> None:
    assert cluster.target == cluster.targets[0] and len(set(cluster.targets)) == 2
    spec = cluster.cluster_spec
    assert sorted(spec.jobs) == ["ps", "worker"]
    assert f"grpc://{spec.task_address('worker', 1)}" == cluster.targets[1]
    assert cluster.ps_targets == (f"grpc://{spec.task_address('ps', 0)}",)
    assert len(cluster.processes) == 3 and all(map(alive, cluster.processes))
    assert "127.0.0.1" in repr(cluster) and "running" in repr(cluster)
    with tf.Session(cluster.targets[1]) as session:  # each worker has a master
        assert session.list_devices()


def test_an_interrupt_of_the_terminal_is_not_the_tasks(cluster: LocalCluster) -> None:
    for process in cluster.processes:
        os.kill(process, signal.SIGINT)
    time.sleep(0.1)
    assert all(map(alive, cluster.processes))


def test_close_ends_the_processes() -> None:
    cluster = tf.local_cluster(1)
    processes = cluster.processes
    assert "ps" not in cluster.cluster_spec.jobs and cluster.ps_targets == ()
    began_s = time.monotonic()
    cluster.close()
    assert not any(map(alive, processes))
    assert time.monotonic() - began_s < WAIT_S
    cluster.close()
    assert "closed" in repr(cluster)


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="finds processes by /proc")
def test_tasks_end_with_a_parent_that_is_killed() -> None:
    script = (
        "import os, sys, time, tfjit\n"
        "cluster = tfjit.local_cluster(1)\n"
        "if not os.fork():\n"  # a child that keeps the parent's pipes open
        "    os.close(1)\n"
        "    time.sleep(60)\n"
        "    os._exit(0)\n"
        "print(*cluster.processes, flush=True)\n"
        "sys.stdin.read()\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert parent.stdout is not None
        processes = tuple(map(int, parent.stdout.readline().split()))
        assert len(processes) == 1 and all(map(alive, processes))
        parent.kill()
        parent.wait()
        assert all_end(processes)
    finally:
        os.killpg(parent.pid, signal.SIGKILL)
        parent.communicate()


def test_a_task_that_does_not_start_is_reported_with_its_output(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYTHONHOME", "/no/such/folder")
    with pytest.raises(errors.UnavailableError, match="(?s)/job:worker.*output:.*encodings"):
        tf.local_cluster(1)


def test_another_programs_port_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The port is taken between its choice and its use; the next ones are free."""
    found, tried = module._free_ports, []
    taken = tf.train.Server.create_local_server()
    port = int(taken.target.rpartition(":")[2])

    def ports(count: int) -> list[int]:
        tried.append(count)
        return [port] if len(tried) == 1 else found(count)

    monkeypatch.setattr(module, "_free_ports", ports)
    try:
        with tf.local_cluster(1) as cluster:
            assert len(tried) == 2 and str(port) not in cluster.target
    finally:
        taken.stop()


def test_a_task_that_takes_too_long() -> None:
    with pytest.raises(errors.UnavailableError, match="does not serve after 0.01 s"):
        tf.local_cluster(1, timeout_s=0.01)


def test_impossible_numbers() -> None:
    with pytest.raises(ValueError, match="workers=0: expected a number from 1 on"):
        tf.local_cluster(0)
    with pytest.raises(ValueError, match="ps=-1: expected a number from 0 on"):
        tf.local_cluster(1, ps=-1)
