"""Choose the GPUs of a session by its ConfigProto, as TensorFlow does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tfjit.framework import errors

if TYPE_CHECKING:
    from tfjit.protos import ConfigProto

_MIB: Final = 1 << 20
_RESERVED: Final = 300 * _MIB
_RESERVED_SHARE: Final = 0.05


@dataclass(frozen=True, slots=True)
class VisibleDevice:
    """A GPU device of a session.

    physical: its number among those of the driver. memory_limit: the bytes that its tensors may
    take.
    """

    physical: int
    memory_limit: int


def visible_devices(config: ConfigProto | None, memory_bytes: Sequence[int]) -> list[VisibleDevice]:
    """Return the GPU devices of a session, in order of their numbers.

    config: a ConfigProto or None. memory_bytes: of each GPU of the driver. Raises
    InvalidArgumentError for a list of devices or a memory share that does not fit the machine.
    """
    options = config.gpu_options if config is not None else None
    physical = _parsed(options.visible_device_list if options is not None else "", memory_bytes)
    if config is not None and "GPU" in config.device_count:
        physical = physical[: max(int(config.device_count["GPU"]), 0)]
    virtual = list(options.experimental.virtual_devices) if options is not None else []
    if not virtual:
        share = options.per_process_gpu_memory_fraction if options is not None else 0.0
        return [VisibleDevice(n, _limit(memory_bytes[n], share)) for n in physical]
    if len(virtual) > len(physical):
        raise errors.InvalidArgumentError(
            None,
            None,
            f"Not enough GPUs to create virtual devices. num_gpus: {len(physical)} "
            f"#virtual_devices: {len(virtual)}",
        )
    if options is not None and options.per_process_gpu_memory_fraction:
        raise errors.InvalidArgumentError(
            None,
            None,
            "It's invalid to set per_process_gpu_memory_fraction when virtual_devices is set.",
        )
    found = []
    for n, wanted in zip(physical, virtual, strict=False):
        limits = [int(limit * _MIB) for limit in wanted.memory_limit_mb]
        found += [VisibleDevice(n, limit) for limit in limits or [_limit(memory_bytes[n], 0.0)]]
    return found


def _parsed(text: str, memory_bytes: Sequence[int]) -> list[int]:
    """Return the numbers of a visible_device_list; "" selects all."""
    if not text:
        return list(range(len(memory_bytes)))
    found: list[int] = []
    for entry in text.split(","):
        if not entry.strip().isdigit():
            raise errors.InvalidArgumentError(
                None,
                None,
                f"Could not parse entry in 'visible_device_list': '{entry}'. visible_device_list = "
                f"{text}",
            )
        number = int(entry)
        if number >= len(memory_bytes):
            raise errors.InvalidArgumentError(
                None,
                None,
                f"'visible_device_list' listed an invalid GPU id '{number}' but visible device "
                f"count is {len(memory_bytes)}",
            )
        found.append(number)
    if len(set(found)) < len(found):
        raise errors.InvalidArgumentError(
            None, None, f"visible_device_list contained a duplicate entry: {text}"
        )
    return found


def _limit(memory_bytes: int, share: float) -> int:
    """Return the bytes for tensors: a share, or all but a reserve."""
    if share < 0 or share > 1:
        raise errors.InvalidArgumentError(
            None,
            None,
            f"per_process_gpu_memory_fraction is {share:g}: a share of a GPU's memory is from 0 to "
            "1 (unified memory is not supported)",
        )
    if share:
        return int(memory_bytes * share)
    return max(memory_bytes - max(_RESERVED, int(memory_bytes * _RESERVED_SHARE)), 0)


__all__ = ["VisibleDevice", "visible_devices"]
