"""Read bytes of files at given positions, from several threads at once."""

from __future__ import annotations

import io
import os
import threading
from types import TracebackType
from typing import IO, Any, Final

import numpy as np

from tfjit.framework.env import FileSystem

_POSITIONED: Final = hasattr(os, "preadv")


class PositionedReads:
    """Reader of byte ranges of a file system's files.

    Inside a `with` block a file of the operating system stays open, and all threads read it by its
    descriptor. Else, and for other files, each read opens the file.
    """

    def __init__(self, files: FileSystem) -> None:
        self._files = files
        self._lock = threading.Lock()
        self._open: dict[str, IO[bytes]] | None = None

    def __enter__(self) -> PositionedReads:
        self._open = {}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        kept, self._open = self._open or {}, None
        for file in kept.values():
            file.close()

    def read_into(self, path: str, offset: int, target: np.ndarray) -> int:
        """Fill `target` with the bytes from `offset`; return their number.

        target: uint8. The number is smaller where the file ends before. Raises the errors of the
        file system.
        """
        if self._open is not None and _POSITIONED:
            descriptor = self._descriptor(path, self._open)
            if descriptor is not None:
                return _read_at(descriptor, offset, target)
        opened: Any = self._files.open(path, "rb")
        with opened as file:
            file.seek(offset)
            return int(file.readinto(target)) if target.size else 0

    def _descriptor(self, path: str, kept: dict[str, IO[bytes]]) -> int | None:
        with self._lock:
            file = kept.get(path)
            if file is None:
                file = kept[path] = self._files.open(path, "rb")
        try:
            return file.fileno()
        except (AttributeError, io.UnsupportedOperation):  # not a file of the operating system
            return None


def _read_at(descriptor: int, offset: int, target: np.ndarray) -> int:
    view = target.data
    done = 0
    while done < target.size:  # the operating system reads 2 GB at most at a time
        count = os.preadv(descriptor, [view[done:]], offset + done)
        if not count:
            break
        done += count
    return done
