"""A block can be mapped, made private, and shows what it is over."""

from __future__ import annotations

import os

import numpy as np
import pytest

from tfjit.distributed.shared_memory.block_map import BlockMap, BlockName, owner_address


def test_two_maps_are_the_same_memory_until_one_is_private() -> None:
    one = BlockMap.make(8192)
    other = BlockMap.open(os.getpid(), BlockName(one.file, 1, 8192))
    a = one.array(0, 8192, lambda: None)
    b = other.array(4096, 100, lambda: None)
    a[4100] = 3
    assert b[4] == 3
    b[5] = 4
    assert a[4101] == 4
    other.make_private()
    assert b[:6].tolist() == [0, 0, 0, 0, 3, 4]
    b[6] = 5
    assert a[4102] == 0


def test_the_end_of_an_array_is_that_of_its_last_view() -> None:
    died: list[int] = []
    block = BlockMap.make(4096)
    array = block.array(0, 100, died.append, 7)
    assert owner_address(array) == block.address
    view = array.view(np.int32)[3:7].reshape(2, 2)
    assert owner_address(view) == block.address
    del array
    assert not died
    del view
    assert died == [7]
    assert owner_address(np.zeros(3)) == 0


def test_an_array_keeps_its_memory() -> None:
    block = BlockMap.make(4096)
    array = block.array(0, 4096, lambda: None)
    file = block.file
    del block
    array[:] = 9
    assert array.sum() == 9 * 4096
    os.fstat(file)
    del array
    with pytest.raises(OSError, match="descriptor"):
        os.fstat(file)


def test_blocks_that_may_shrink_are_refused() -> None:
    file = os.memfd_create("other")
    os.ftruncate(file, 8192)
    with pytest.raises(ValueError, match="may change"):
        BlockMap.open(os.getpid(), BlockName(file, 1, 8192))
    with pytest.raises(OSError, match="/proc"):
        BlockMap.open(os.getpid(), BlockName(99999, 2, 8192))
    os.close(file)
    small = BlockMap.make(4096)
    with pytest.raises(ValueError, match="smaller"):
        BlockMap.open(os.getpid(), BlockName(small.file, 1, 8192))
