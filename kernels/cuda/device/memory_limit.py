"""Count a device's memory in use, and refuse more than its limit."""

from __future__ import annotations

from typing import Final

from tfjit.framework import errors

ALIGNMENT: Final = 256


class MemoryLimit:
    """Count allocations by address.

    limit: in bytes; it may be set at any time. used: the bytes of all allocations, each a multiple
    of `ALIGNMENT`. Not thread-safe.
    """

    def __init__(self, device: str, limit: int) -> None:
        """Count for a device. device: its name in messages."""
        self.limit = limit
        self.used = self.peak = 0
        self._device = device
        self._sizes: dict[int, int] = {}

    def rounded(self, nbytes: int) -> int:
        """Return the size that an allocation takes, at least `ALIGNMENT`."""
        return max(1, -(-nbytes // ALIGNMENT)) * ALIGNMENT

    def check(self, nbytes: int) -> None:
        """Raise ResourceExhaustedError where an allocation exceeds the limit."""
        if self.used + self.rounded(nbytes) > self.limit:
            raise self.exhausted(nbytes)

    @property
    def available(self) -> int:
        """The bytes that the limit leaves."""
        return max(self.limit - self.used, 0)

    def exhausted(self, nbytes: int, detail: str = "") -> errors.ResourceExhaustedError:
        """Return the error of an allocation that fails."""
        return errors.ResourceExhaustedError(
            None,
            None,
            f"OOM when allocating {nbytes} bytes on {self._device}: {_mib(self.used)} of "
            f"{_mib(self.limit)} are in use by this process"
            f"{f' ({detail})' if detail else ''}. Use smaller batches, or raise "
            "gpu_options.per_process_gpu_memory_fraction where it is set.",
        )

    def add(self, address: int, nbytes: int) -> None:
        """Count an allocation."""
        self._sizes[address] = size = self.rounded(nbytes)
        self.used += size
        self.peak = max(self.peak, self.used)

    def remove(self, address: int) -> None:
        """Forget an allocation. Raises InternalError for an address that is none."""
        size = self._sizes.pop(address, None)
        if size is None:
            raise errors.InternalError(
                None, None, f"{self._device}: {address:#x} is freed, and is no allocation"
            )
        self.used -= size


def _mib(nbytes: int) -> str:
    return f"{nbytes / (1 << 20):.1f} MiB"
