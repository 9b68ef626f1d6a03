"""Hold the addresses that the commands of a program are made for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

COPIED: Final = -1
"""The address of a device tensor that goes through the arena."""
_VECTOR_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class Binding:
    """Hold the addresses in the commands of a program.

    variables: of the device's copies. feeds, fetches: of device tensors in the place of a buffer in
    the arena; 0 for values in host memory, `COPIED` for tensors that are copied.
    """

    variables: tuple[int, ...]
    feeds: tuple[int, ...]
    fetches: tuple[int, ...]

    def copied(self) -> Binding:
        """Return the binding that serves device tensors of any addresses."""
        feeds, fetches = (
            tuple([COPIED if place else 0 for place in places])
            for places in (self.feeds, self.fetches)
        )
        return Binding(self.variables, feeds, fetches)


def feed_place(address: int) -> int:
    """Return the address where kernels may read a device tensor, or COPIED.

    Arrays of other libraries may start anywhere; kernels and routines load 16 bytes at once.
    """
    return address if address and not address % _VECTOR_BYTES else COPIED


__all__ = ["COPIED", "Binding", "feed_place"]
