"""Devices of a session: names, factories by type, and their manager."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tfjit.framework import errors

TASK_PREFIX = "/job:localhost/replica:0/task:0"
CPU_MEMORY_LIMIT_BYTES = 256 * 1024 * 1024  # as TensorFlow reports for a CPU device


@dataclass(frozen=True, slots=True)
class Device:
    """One device. name: full ("/job:localhost/replica:0/task:0/device:CPU:0"). incarnation: changes
    at every start of the process.
    """

    name: str
    device_type: str
    memory_limit_bytes: int = CPU_MEMORY_LIMIT_BYTES
    incarnation: int = field(default_factory=lambda: random.SystemRandom().getrandbits(63) | 1)
    physical_device_desc: str = ""

    def __str__(self) -> str:
        return self.name


# (config, task prefix) -> the devices of one type; config is a tfjit ConfigProto or None
DeviceFactory = Callable[[Any, str], Sequence[Device]]

_LOCK = threading.Lock()
_FACTORIES: dict[str, tuple[int, DeviceFactory]] = {}


def register_device_factory(device_type: str, factory: DeviceFactory, priority: int = 50) -> None:
    """Make a device type available to new sessions.

    Higher priority is preferred by placement (TensorFlow: GPU 210, CPU 60).
    """
    with _LOCK:
        old = _FACTORIES.get(device_type)
        if old is not None and old[0] >= priority and old[1] is not factory:
            raise errors.AlreadyExistsError(
                None,
                None,
                f"a device factory for {device_type} is registered with priority {old[0]}",
            )
        _FACTORIES[device_type] = (priority, factory)


def device_type_priorities() -> Mapping[str, int]:
    """Placement priority of each registered device type."""
    return {device_type: priority for device_type, (priority, _) in _FACTORIES.copy().items()}


class DeviceManager:
    """The devices of a session, the default (client) device first."""

    def __init__(self, config: Any = None, prefix: str = TASK_PREFIX) -> None:
        devices: list[Device] = []
        for _, (_, factory) in sorted(_FACTORIES.copy().items(), key=lambda item: item[0] != "CPU"):
            devices.extend(factory(config, prefix))
        if not any(device.device_type == "CPU" for device in devices):
            raise errors.NotFoundError(None, None, "No CPU devices are available in this process")
        self.devices: tuple[Device, ...] = tuple(devices)
        self._by_name = {device.name: device for device in devices}

    @property
    def default(self) -> Device:
        """The client device: CPU:0."""
        return self.devices[0]

    def lookup(self, name: str) -> Device:
        """Return the device of a full name.

        Raises InvalidArgumentError for an unknown one.
        """
        try:
            return self._by_name[name]
        except KeyError:
            known = ", ".join(sorted(self._by_name))
            raise errors.InvalidArgumentError(
                None, None, f"{name} unknown device. Known devices: {known}"
            ) from None


def _cpu_devices(config: Any, prefix: str) -> Sequence[Device]:
    count = 1
    if config is not None and "CPU" in config.device_count:
        count = config.device_count["CPU"]
    return [Device(f"{prefix}/device:CPU:{i}", "CPU") for i in range(count)]


register_device_factory("CPU", _cpu_devices, priority=60)
