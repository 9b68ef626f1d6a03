"""Blocks are used again when nothing is over them, and their number is limited."""

from __future__ import annotations

import numpy as np
import pytest

from tests.distributed.shared_memory.conftest import Ends
from tfjit.distributed.shared_memory import block_pool
from tfjit.distributed.shared_memory.block_map import owner_address
from tfjit.distributed.shared_memory.block_pool import BlockPool

SIZE = 1 << 18


def test_a_block_is_used_again_once_nothing_has_it(ends: Ends) -> None:
    first = ends.pool.array(SIZE)
    place = owner_address(first)
    loan = ends.exporter.lend(first)
    second = ends.pool.array(SIZE)
    assert owner_address(second) != place
    del first
    assert owner_address(ends.pool.array(SIZE)) != place  # it is lent
    ends.exporter.release(loan.name.number)
    del loan
    assert owner_address(ends.pool.array(SIZE)) == place
    assert len(ends.pool._blocks) == 3


def test_a_block_serves_sizes_from_half_of_its_own(ends: Ends) -> None:
    place = owner_address(ends.pool.array(SIZE))
    assert owner_address(ends.pool.array(SIZE // 2 + 1)) == place
    assert owner_address(ends.pool.array(SIZE // 4)) != place
    assert owner_address(ends.pool.array(SIZE + 1)) != place


def test_idle_blocks_are_limited(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_pool, "_IDLE_BYTES", 3 * SIZE)
    arrays = [ends.pool.array(SIZE) for _ in range(5)]
    assert len(ends.pool._blocks) == 5
    arrays.clear()
    assert len(ends.pool._blocks) == len(ends.pool._idle) == 3


def test_nothing_is_kept_without_a_reader(ends: Ends) -> None:
    array = ends.pool.array(SIZE)
    del array
    assert ends.pool._idle
    ends.exporter.lend(np.zeros(SIZE, np.uint8))
    array = ends.pool.array(SIZE)
    ends.exporter.close()
    assert not ends.pool.is_sent(SIZE)
    del array
    assert not ends.pool._blocks


def test_the_number_of_blocks_is_limited(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_pool, "_most_blocks", lambda: 2)
    kept = ends.pool.array(SIZE)
    ends.pool.array(SIZE)
    ends.pool.array(4 * SIZE)  # in place of the idle one
    assert len(ends.pool._blocks) == 2
    another = ends.pool.array(4 * SIZE)
    with pytest.raises(OSError, match="too many blocks"):
        ends.pool.array(SIZE)
    del kept, another
    assert ends.pool.array(SIZE).nbytes == SIZE


def test_sizes_that_are_sent_are_known_until_they_are_not(ends: Ends) -> None:
    assert not ends.pool.is_sent(SIZE)
    ends.exporter.lend(np.zeros(SIZE, np.uint8))
    assert ends.pool.is_sent(SIZE) and not ends.pool.is_sent(SIZE + 1)
    for n in range(20):
        array = ends.pool.array(SIZE)
        if n % 3 == 0:
            ends.exporter.lend(array)
        del array
    assert ends.pool.is_sent(SIZE)
    for _ in range(10):
        ends.pool.array(SIZE)
    assert not ends.pool.is_sent(SIZE)


def test_a_few_sizes_are_known(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_pool, "_MOST_SIZES", 2)
    for size in (5, 6, 7):
        ends.exporter.lend(np.zeros(size, np.uint8))
    assert ends.pool.is_sent(7) and not ends.pool.is_sent(5)


def test_the_limit_leaves_files_to_others() -> None:
    assert 1 <= block_pool._most_blocks() <= 1 << 12


def test_a_pool_alone() -> None:
    pool = BlockPool()
    assert pool.find(pool.array(SIZE)) is not None
    assert not pool._blocks


def test_arrays_may_die_and_readers_go_at_any_time(ends: Ends) -> None:
    """As where a collection runs while this thread has the lock."""
    other = Ends(ends.pool)
    array = ends.pool.array(SIZE)
    with ends.pool._lock:
        del array
        other.exporter.close()
        ends.exporter.close()
        assert len(ends.pool._blocks) == 1
    ends.pool.array(SIZE)
    assert not ends.pool._blocks
