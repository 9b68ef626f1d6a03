"""The wait for all tasks' devices, and the passes' options."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest

from tests.distributed.master.fake_workers import FakeCluster
from tests.waiting import wait_until
from tfjit import protos
from tfjit.distributed.master.cluster_devices import find_devices, pass_options
from tfjit.framework import errors
from tfjit.runtime.host.cancellation import CancellationManager


def test_a_task_that_comes_up_later(caplog: pytest.LogCaptureFixture) -> None:
    cluster = FakeCluster()
    late = cluster.workers[1]
    late.failures["GetStatus"] = errors.UnavailableError(None, None, "not there")

    def come() -> None:
        wait_until(lambda: caplog.records and late.log.count("GetStatus") > 1)
        late.failures.clear()

    threading.Thread(target=come).start()
    with caplog.at_level(logging.INFO, "tfjit.distributed"):
        found = find_devices(cluster.master.cluster, log_period_s=0.05)
    assert len(found.others) == 1 and late.log.count("GetStatus") > 1
    text = f"CreateSession still waiting for response from worker: {late.task}"
    assert {record.getMessage() for record in caplog.records} == {text}
    cluster.close()


def test_a_wait_that_is_given_up_and_a_task_that_answers_with_an_error() -> None:
    cluster = FakeCluster()
    failures = cluster.workers[1].failures
    failures["GetStatus"] = errors.UnavailableError(None, None, "not there")
    for ends in ("client", "master"):
        cancellation = CancellationManager()
        end = cancellation.cancel if ends == "client" else cluster.master.close
        threading.Timer(0.1, end).start()
        kind = errors.CancelledError if ends == "client" else errors.UnavailableError
        with pytest.raises(kind):
            cluster.master.create_session(None, None, cancellation=cancellation)
    failures["GetStatus"] = errors.PermissionDeniedError(None, None, "no")
    with pytest.raises(errors.PermissionDeniedError):
        find_devices(cluster.master.cluster)
    cluster.close()


def test_the_own_devices_are_first_for_nodes_without_a_device() -> None:
    cluster = FakeCluster(3)
    own = cluster.workers[0]

    def two_devices() -> list[Any]:
        return [
            protos.DeviceAttributes(name=f"{own.task}/device:{kind}:0", device_type=kind)
            for kind in ("GPU", "CPU")
        ]

    own.get_status = two_devices  # type: ignore[method-assign]
    devices = find_devices(cluster.master.cluster)
    assert devices.client.name == f"{own.task}/device:CPU:0"
    options = pass_options(None, devices)
    assert options.client_device == devices.client.name
    cpus = [device for device in options.devices if device.device_type == "CPU"]
    assert max(cpus, key=lambda device: device.priority).name == devices.client.name
    assert not options.has_kernel("Add", "XLA_CPU", ())
    own.get_status = lambda: two_devices()[:1]  # type: ignore[method-assign]
    with pytest.raises(errors.InternalError, match="reports no CPU device"):
        find_devices(cluster.master.cluster)
    cluster.close()
