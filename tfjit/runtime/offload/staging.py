"""Pass values between host arrays and a device through page-locked memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from tfjit.runtime.step.memory_planner import align

if TYPE_CHECKING:
    from tfjit.kernels.ir.accelerator import Accelerator
    from tfjit.runtime.lowering.lowering import Value

LARGE: Final = 4 << 20
"""Bytes of a feed from which on it goes in pieces.

The device copies one piece while the host writes the next, which takes longer than the program
could save by copies of its own.
"""
PIECE: Final = 2 << 20
"""Bytes of a piece.

A call of the driver takes a few microseconds.
"""


def is_large(value: Value) -> bool:
    """Return whether a feed goes to the device in pieces."""
    return value.spec.nbytes >= LARGE


class Staging:
    """The page-locked memory of a program.

    It has a place for each feed and each result in host memory, and one for the positions of
    random streams. A program that may still read it has to be waited for before a feed is written.
    """

    def __init__(self, feeds: Sequence[Value], results: Sequence[Value], stream_bytes: int) -> None:
        """Choose the places; nothing is allocated."""
        self._memory: np.ndarray | None = None
        self._feeds: dict[int, int] = {}  # by index of the value
        end = 0
        for value in feeds:
            self._feeds[value.index] = end
            end = align(end + value.spec.nbytes)
        self._results: list[tuple[int, Value]] = []
        for value in results:
            self._results.append((end, value))
            end = align(end + value.spec.nbytes)
        self._streams = end
        self._nbytes = end + max(stream_bytes, 1)

    @property
    def is_allocated(self) -> bool:
        """Return whether there is memory."""
        return self._memory is not None

    def allocate(self, accelerator: Accelerator) -> None:
        """Allocate the memory. Raises ResourceExhaustedError."""
        self._memory = accelerator.pinned(self._nbytes)

    def release(self) -> None:
        """Give the memory back."""
        self._memory = None

    def feed_address(self, value: Value) -> int:
        """Return the address of a feed's place."""
        return self._address(self._feeds[value.index])

    def result_addresses(self) -> list[int]:
        """Return the addresses of the results' places."""
        return [self._address(start) for start, _ in self._results]

    @property
    def stream_address(self) -> int:
        """Return the address of the streams' positions."""
        return self._address(self._streams)

    def write(self, value: Value, array: np.ndarray) -> None:
        """Write a feed to its place."""
        self._view(self._feeds[value.index], value)[...] = array

    def send(self, accelerator: Accelerator, value: Value, array: np.ndarray, target: int) -> None:
        """Write a feed, and queue copies of its pieces to the device."""
        dtype, nbytes = value.dtype.as_numpy_dtype, value.spec.nbytes
        source = self.feed_address(value)
        if array.dtype != dtype or array.shape != value.shape or not array.flags.c_contiguous:
            self.write(value, array)
            accelerator.copy_in(target, source, nbytes)
            return
        place = self._bytes(self._feeds[value.index], nbytes)
        content = array.reshape(-1).view(np.uint8)
        for start in range(0, nbytes, PIECE):
            piece = slice(start, min(start + PIECE, nbytes))
            place[piece] = content[piece]
            accelerator.copy_in(target + start, source + start, piece.stop - start)

    def write_position(self, start: int, position: np.ndarray) -> None:
        """Write a stream's position. start: its place among the positions."""
        self._bytes(self._streams + start, position.nbytes)[:] = position.view(np.uint8)

    def results(self) -> list[np.ndarray]:
        """Return copies of the results."""
        return [self._view(start, value).copy() for start, value in self._results]

    def _bytes(self, start: int, nbytes: int) -> np.ndarray:
        assert self._memory is not None
        return self._memory[start : start + nbytes]

    def _address(self, start: int) -> int:
        assert self._memory is not None
        return int(self._memory.ctypes.data) + start

    def _view(self, start: int, value: Value) -> np.ndarray:
        spec = value.spec
        return self._bytes(start, spec.nbytes).view(spec.dtype.as_numpy_dtype).reshape(spec.shape)


__all__ = ["LARGE", "PIECE", "Staging", "is_large"]
