"""Arrays over the blocks of another process."""

from __future__ import annotations

import itertools
import logging
import os
import threading
import weakref
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from tfjit.distributed.shared_memory.block_map import BlockMap, BlockName
from tfjit.runtime.host.fork_safety import release_lock

log = logging.getLogger("tfjit.distributed")

_OWN_BYTES: Final = 1 << 30
"""The most memory of others that is a process's own arrays."""
_MAPPING: Final = threading.RLock()  # a collection may close a connection in any thread
"""Held during a fork: no array comes meanwhile."""


class _PoolMaps:
    """The mapped blocks of a pool, by number.

    All connections with its process share them.
    """

    _known: ClassVar[weakref.WeakValueDictionary[tuple[int, str], _PoolMaps]] = (
        weakref.WeakValueDictionary()
    )

    def __init__(self) -> None:
        self.maps: dict[int, BlockMap] = {}

    @classmethod
    def of(cls, pid: int, pool: str) -> _PoolMaps:
        """Return the maps of a pool, with the lock held."""
        found = cls._known.get((pid, pool))
        if found is None:
            found = cls._known[pid, pool] = cls()
        return found


@dataclass(frozen=True, slots=True)
class _Borrowed:
    """The block of an array.

    size: its bytes as an own array, or 0.
    """

    number: int
    map: BlockMap
    size: int


class Importer:
    """Read the blocks of another process. Thread-safe.

    pid, pool: of the process. release: called with the number of a block when an array of it is
    gone. retire: called before that for a block that this process keeps for good. Both never wait.
    """

    _all: ClassVar[weakref.WeakSet[Importer]] = weakref.WeakSet()
    _tickets: ClassVar[itertools.count[int]] = itertools.count()

    def __init__(
        self,
        pid: int,
        pool: str,
        release: Callable[[int], None],
        retire: Callable[[int], None],
    ) -> None:
        self._pid = pid
        self._release, self._retire = release, retire
        self._borrowed: dict[int, _Borrowed] = {}  # by ticket
        with _MAPPING:
            self._pool: _PoolMaps | None = _PoolMaps.of(pid, pool)
            self._all.add(self)

    def get(
        self, name: BlockName, size: int, offset: int = 0, is_exclusive: bool = False
    ) -> np.ndarray:
        """Return bytes of a block as an array.

        It may be written where the loan is exclusive, unless this process has too many such arrays
        already. Raises OSError where the block cannot be mapped, ValueError for bytes beyond it,
        and when the importer is closed.
        """
        if not 0 <= offset <= offset + size <= name.capacity:
            raise ValueError(f"{size} bytes at {offset} in a block of {name.capacity}")
        with _MAPPING:
            if self._pool is None:
                raise ValueError("the connection is closed")
            maps = self._pool.maps
            found = maps.get(name.number)
            if found is None or found.capacity != name.capacity:
                found = maps[name.number] = BlockMap.open(self._pid, name)
            is_own = is_exclusive and self._own_bytes() + name.capacity <= _OWN_BYTES
            ticket = next(self._tickets)
            self._borrowed[ticket] = _Borrowed(name.number, found, name.capacity if is_own else 0)
            array = found.array(offset, size, self._ended, ticket)
        array.flags.writeable = is_own
        return array

    @classmethod
    def _own_bytes(cls) -> int:
        return sum(b.size for importer in cls._all for b in list(importer._borrowed.values()))

    def _ended(self, ticket: int) -> None:
        """End the loan of an array that is gone."""
        borrowed = self._borrowed.pop(ticket, None)
        if borrowed is not None:
            self._release(borrowed.number)

    def forget(self, number: int) -> None:
        """Unmap a block that exists no more, once its arrays are gone."""
        with _MAPPING:
            gone = None if self._pool is None else self._pool.maps.pop(number, None)
        del gone  # without the lock

    def close(self) -> None:
        """Read no more.

        The last importer of a pool unmaps its blocks, each once its arrays are gone.
        """
        with _MAPPING:
            pool, self._pool = self._pool, None
        del pool

    def _keep(self) -> None:
        """Make the arrays of this process private memory, before a fork.

        Parent and child would see each other's writes, and either those of the owner once the
        other has ended the loan.
        """
        borrowed, self._borrowed = self._borrowed, {}
        counts = Counter(b.number for b in borrowed.values())
        for number, of in {b.number: b.map for b in borrowed.values()}.items():
            try:
                of.make_private()
            except OSError as error:
                log.warning("an array is shared with a forked child: %s", error)
            if self._pool is not None and self._pool.maps.get(number) is of:
                del self._pool.maps[number]
            self._retire(number)
            for _ in range(counts[number]):
                self._release(number)


def _before_fork() -> None:
    _MAPPING.acquire()
    for importer in list(Importer._all):
        importer._keep()


def _after_fork_in_child() -> None:
    # the connections are the parent's
    Importer._all.clear()
    _PoolMaps._known.clear()
    release_lock(_MAPPING)


os.register_at_fork(
    before=_before_fork, after_in_parent=_MAPPING.release, after_in_child=_after_fork_in_child
)

__all__ = ["Importer"]
