"""Show the devices of a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Message


class DeviceAttributes:
    """One device as `list_devices` shows it."""

    def __init__(
        self, name: str, device_type: str, memory_limit_bytes: int, incarnation: int
    ) -> None:
        self.name = name
        self.device_type = device_type
        self.memory_limit_bytes = memory_limit_bytes
        self.incarnation = incarnation

    @classmethod
    def of_message(cls, message: Message) -> DeviceAttributes:
        """Return the device of a DeviceAttributes message."""
        incarnation = message.incarnation
        if incarnation >> 63:  # TensorFlow shows the 64 bits as a signed number
            incarnation -= 1 << 64
        return cls(message.name, message.device_type, message.memory_limit, incarnation)

    def __repr__(self) -> str:
        return (
            f"_DeviceAttributes({self.name}, {self.device_type}, {self.memory_limit_bytes}, "
            f"{self.incarnation})"
        )
