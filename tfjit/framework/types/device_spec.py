"""Device names: "/job:worker/replica:0/task:0/device:GPU:0" parsed, merged, matched and written in
full.

A field that is None is not given (a wildcard `*` counts as not given).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any, Final

LOCALHOST: Final = "/job:localhost/replica:0/task:0"

# Types that may stand without "device:" before them, as in "/gpu:1".
_BARE_TYPES: Final = frozenset({"CPU", "GPU", "TPU", "XLA_CPU", "XLA_GPU", "TPU_SYSTEM", "CUSTOM"})


@dataclass(frozen=True, slots=True)
class DeviceSpec:
    """A partly given device name.

    device_type is upper case; replica, task and device_index are numbers.
    """

    job: str | None = None
    replica: int | None = None
    task: int | None = None
    device_type: str | None = None
    device_index: int | None = None

    def __post_init__(self) -> None:
        if self.device_type is not None and not self.device_type.isupper():
            object.__setattr__(self, "device_type", self.device_type.upper())
        for name in ("replica", "task", "device_index"):
            value = getattr(self, name)
            if value is not None and type(value) is not int:
                object.__setattr__(self, name, int(value))

    @classmethod
    def from_string(cls, spec: str) -> DeviceSpec:
        """Parse a device string. Raises ValueError naming an unreadable part."""
        return parse(spec)

    def parse_from_string(self, spec: str) -> DeviceSpec:
        """Return the same as `from_string`; this object does not change."""
        return parse(spec)

    def to_string(self) -> str:
        """Return the string in TensorFlow's order; a type without index gets `*`."""
        parts = []
        if self.job is not None:
            parts.append(f"/job:{self.job}")
        if self.replica is not None:
            parts.append(f"/replica:{self.replica}")
        if self.task is not None:
            parts.append(f"/task:{self.task}")
        if self.device_type is not None:
            index = "*" if self.device_index is None else self.device_index
            parts.append(f"/device:{self.device_type}:{index}")
        return "".join(parts)

    def make_merged_spec(self, dev: DeviceSpec) -> DeviceSpec:
        """Return this spec with every field that `dev` gives replaced by it."""
        if self == dev:
            return self
        return DeviceSpec(
            self.job if dev.job is None else dev.job,
            self.replica if dev.replica is None else dev.replica,
            self.task if dev.task is None else dev.task,
            self.device_type if dev.device_type is None else dev.device_type,
            # A type that replaces another drops the other's index only where the new spec has one,
            # as TensorFlow does.
            self.device_index if dev.device_index is None else dev.device_index,
        )

    def replace(self, **fields: Any) -> DeviceSpec:
        """Return a copy with fields replaced."""
        return replace(self, **fields)

    @property
    def is_full(self) -> bool:
        """Return whether every field is given."""
        return None not in (self.job, self.replica, self.task, self.device_type, self.device_index)

    def matches(self, full: DeviceSpec) -> bool:
        """Return whether a device named `full` satisfies every field given here."""
        return (
            (self.job is None or self.job == full.job)
            and (self.replica is None or self.replica == full.replica)
            and (self.task is None or self.task == full.task)
            and (self.device_type is None or self.device_type == full.device_type)
            and (self.device_index is None or self.device_index == full.device_index)
        )

    def same_task(self, other: DeviceSpec) -> bool:
        """Return whether job, replica and task are equal."""
        return (self.job, self.replica, self.task) == (other.job, other.replica, other.task)

    def __str__(self) -> str:
        return self.to_string()


@functools.lru_cache(maxsize=4096)
def parse(spec: str) -> DeviceSpec:
    """Parse "/job:w/task:0/device:GPU:0", "/gpu:1", "cpu:0" and the like; "" gives an empty spec.

    Raises ValueError.
    """
    job: str | None = None
    replica: int | None = None
    task: int | None = None
    device_type: str | None = None
    device_index: int | None = None
    for part in spec.split("/"):
        fields = part.split(":")
        key = fields[0]
        if len(fields) == 2 and key == "job":
            job = None if fields[1] == "*" else fields[1]
        elif len(fields) == 2 and key in ("replica", "task"):
            number = None if fields[1] == "*" else _number(fields[1], spec)
            if key == "replica":
                replica = number
            else:
                task = number
        elif (len(fields) <= 2 and key.upper() in _BARE_TYPES) or (
            len(fields) == 3 and key == "device"
        ):
            if device_type is not None:
                raise ValueError(
                    f"Multiple device types are not allowed while parsing the device spec: {spec}."
                )
            device_type = (fields[1] if key == "device" else key).upper()
            if device_type == "*":
                device_type = None
            index = fields[-1] if len(fields) > 1 else "*"
            device_index = None if index == "*" else _number(index, spec)
        elif key != "":
            raise ValueError(
                f"Unknown attribute '{key}' is encountered while parsing the device spec: '{spec}'."
            )
    return DeviceSpec(job, replica, task, device_type, device_index)


def _number(text: str, spec: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"'{text}' is no number in the device spec: '{spec}'.") from None


def canonical_name(device: Any) -> str:
    """Return TensorFlow's spelling of a device; "" for None.

    device: a string, DeviceSpec or None. "/gpu:1" -> "/device:GPU:1".
    """
    if device is None:
        return ""
    if isinstance(device, DeviceSpec):
        return device.to_string()
    if isinstance(device, bytes):
        device = device.decode()
    if not isinstance(device, str):
        to_string = getattr(device, "to_string", None)
        if to_string is None:
            raise TypeError(f"A device is a string, a DeviceSpec or None, got {device!r}")
        device = to_string()
    return _normalise(device)


@functools.lru_cache(maxsize=4096)
def _normalise(device: str) -> str:
    # "*" survives in the spelling that TensorFlow keeps, so only fields that are given are
    # rewritten.
    spec = parse(device)
    text = spec.to_string()
    if "*" not in device:
        return text
    parts = []
    for key in ("job", "replica", "task"):
        value = getattr(spec, key)
        if value is not None:
            parts.append(f"/{key}:{value}")
        elif f"{key}:*" in device:
            parts.append(f"/{key}:*")
    if spec.device_type is not None:
        parts.append(
            f"/device:{spec.device_type}:{'*' if spec.device_index is None else spec.device_index}"
        )
    elif "device:*" in device:
        parts.append(f"/device:*:{'*' if spec.device_index is None else spec.device_index}")
    return "".join(parts)


def merge_names(inner: str, outer: str) -> str:
    """Return `inner` with its open fields taken from `outer`.

    Both are device strings.
    """
    if not outer:
        return _normalise(inner)
    if not inner:
        return _normalise(outer)
    return parse(outer).make_merged_spec(parse(inner)).to_string()


def full_name(device: str, default: str = LOCALHOST + "/device:CPU:0") -> str:
    """Return a device string completed from `default`: "/cpu:1" ->
    "/job:localhost/replica:0/task:0/device:CPU:1".
    """
    spec = parse(device)
    base = parse(default)
    if (
        spec.device_type is not None
        and spec.device_type != base.device_type
        and spec.device_index is None
    ):
        base = base.replace(device_index=0)
    return base.make_merged_spec(spec).to_string()


def local_name(device_type: str, index: int, task: str = LOCALHOST) -> str:
    """Return the full name of a device of a task.

    local_name("CPU", 1) -> "/job:localhost/replica:0/task:0/device:CPU:1".
    """
    return f"{task}/device:{device_type}:{index}"


def task_name(device: str) -> str:
    """Return the "/job:../replica:../task:.." part of a device string."""
    spec = parse(device)
    return DeviceSpec(spec.job, spec.replica, spec.task).to_string()
