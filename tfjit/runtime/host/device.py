"""Devices of a session: names, backends, and the manager that holds them."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tfjit.framework import errors
from tfjit.framework.types import device_spec
from tfjit.kernels.ir.backend import HOST, Backend, backend_for, device_types

if TYPE_CHECKING:
    from tfjit.kernels.ir.accelerator import Accelerator

TASK_PREFIX = "/job:localhost/replica:0/task:0"


@dataclass(frozen=True, slots=True)
class Device:
    """One device.

    name: full ("/job:localhost/replica:0/task:0/device:CPU:0"). incarnation: changes at every start
    of the process.
    """

    name: str
    backend: Backend
    incarnation: int = field(default_factory=lambda: random.SystemRandom().getrandbits(63) | 1)

    @property
    def device_type(self) -> str:
        """The type in the device's name."""
        return self.backend.device_type

    @property
    def number(self) -> int:
        """The number in the device's name."""
        return int(self.name.rpartition(":")[2])

    def __str__(self) -> str:
        return self.name


class DeviceManager:
    """The devices of a session, the default (client) device first.

    config: a tfjit ConfigProto or None.
    """

    def __init__(self, config: Any = None, prefix: str = TASK_PREFIX) -> None:
        self.backends = {kind: backend_for(kind) for kind in device_types()}
        self.devices = tuple(
            Device(device_spec.local_name(kind, index, prefix), backend)
            for kind, backend in self.backends.items()
            for index in range(backend.device_count(config))
        )
        if not any(device.device_type == HOST for device in self.devices):
            raise errors.NotFoundError(None, None, "No CPU devices are available in this process")
        self._by_name = {device.name: device for device in self.devices}

    def accelerator(self, name: str) -> Accelerator | None:
        """Return the accelerator of a device of that full name, or None."""
        device = self._by_name.get(name)
        if device is None or not device.backend.accelerates:
            return None
        return device.backend.accelerator(device.number)

    def accelerators(self) -> list[Accelerator]:
        """Return the accelerators of all devices that are one."""
        return [d.backend.accelerator(d.number) for d in self.devices if d.backend.accelerates]

    def name_of(self, accelerator: Accelerator) -> str:
        """Return the full name of an accelerator's device.

        Raises InvalidArgumentError for one of another session.
        """
        for device in self.devices:
            if self.accelerator(device.name) is accelerator:
                return device.name
        raise errors.InvalidArgumentError(
            None,
            None,
            f"a tensor on {accelerator.name} {accelerator.number} is fed to a session that does "
            "not use this device",
        )

    def attributes(self) -> list[Any]:
        """Return the DeviceAttributes of all devices."""
        from tfjit.protos import DeviceAttributes

        return [
            DeviceAttributes(
                name=d.name,
                device_type=d.device_type,
                memory_limit=d.backend.memory_limit(d.number),
                incarnation=d.incarnation,
                physical_device_desc=d.backend.describe(d.number),
            )
            for d in self.devices
        ]

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
