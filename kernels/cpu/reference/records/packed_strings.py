"""Read numbers from many strings at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

_PADDING: Final = bytes(8)


@dataclass(frozen=True)
class PackedStrings:
    """Hold strings in one block of memory, one behind the other.

    data: the bytes, uint8, with eight of padding at the end. starts, sizes: int64, of each string.
    """

    data: np.ndarray
    starts: np.ndarray
    sizes: np.ndarray

    @classmethod
    def of(cls, items: Sequence[bytes]) -> PackedStrings:
        """Pack a list of strings."""
        sizes = np.fromiter(map(len, items), np.int64, len(items))
        data = np.frombuffer(b"".join(items) + _PADDING, np.uint8)
        return cls(data, np.cumsum(sizes) - sizes, sizes)

    def take(self, chosen: np.ndarray) -> PackedStrings:
        """Return some of the strings, by their numbers. The bytes are shared."""
        return PackedStrings(self.data, self.starts[chosen], self.sizes[chosen])

    def bytes_at(self, offsets: np.ndarray | int) -> np.ndarray:
        """Return a byte of each string, uint64."""
        return self.data[self.starts + offsets].astype(np.uint64)

    def words(self, offsets: np.ndarray | int, dtype: str = "<u8") -> np.ndarray:
        """Return the number that begins at an offset into each string, uint64.

        It may reach up to eight bytes behind the string. dtype: of the number in memory.
        """
        size = np.dtype(dtype).itemsize
        count = max(self.data.size - size + 1, 0)
        numbers = np.ndarray((count,), dtype, self.data, strides=(1,))
        return numbers[self.starts + offsets].astype(np.uint64)
