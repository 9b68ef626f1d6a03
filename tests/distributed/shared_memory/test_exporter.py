"""Loans: without a copy where an array is in a block, and until the other end is done."""

from __future__ import annotations

import numpy as np
import pytest

from tests.distributed.shared_memory.conftest import Ends

SIZE = 1 << 18


def test_an_array_in_a_block_is_lent_where_it_is(ends: Ends) -> None:
    array = ends.pool.array(SIZE)
    array[:] = 1
    part = ends.exporter.lend(array[1000:])
    found = ends.get(part, 10)
    array[1000] = 5
    assert found[0] == 5
    assert part.offset == 1000 and not part.is_exclusive
    assert not found.flags.writeable


def test_another_array_is_copied(ends: Ends) -> None:
    array = np.full(SIZE, 3, np.uint8)
    loan = ends.exporter.lend(array)
    found = ends.get(loan, SIZE)
    array[:] = 4
    found += 1
    assert loan.is_exclusive and (found == 4).all()


def test_a_loan_is_exclusive_when_nothing_else_has_the_block(ends: Ends) -> None:
    other = Ends(ends.pool)
    array = ends.pool.array(SIZE)
    first, second = ends.exporter.lend(array), other.exporter.lend(array)
    del array
    assert not first.is_exclusive and not second.is_exclusive
    ends.exporter.release(first.name.number)
    assert second.is_exclusive


def test_the_other_end_keeps_what_it_has_behind_the_end(ends: Ends) -> None:
    """The connection is closed; the block is no other array's."""
    loan = ends.exporter.lend(np.full(SIZE, 3, np.uint8))
    found = ends.get(loan, SIZE)
    Ends(ends.pool)
    ends.exporter.close()
    ends.importer.close()
    ends.pool.array(SIZE)[:] = 9
    assert (found == 3).all() and found.flags.writeable
    with pytest.raises(ValueError, match="closed"):
        ends.exporter.lend(np.zeros(SIZE, np.uint8))


def test_what_a_reader_keeps_is_not_another_ones_own(ends: Ends) -> None:
    """The first reader has the array for good, and would see writes of the second."""
    other = Ends(ends.pool)
    array = ends.pool.array(SIZE)
    number = ends.exporter.lend(array).name.number
    ends.exporter.retire(number)
    ends.exporter.release(number)
    loan = other.exporter.lend(array)
    del array
    assert not loan.is_exclusive
    other.exporter.release(number)
    assert not ends.pool._blocks


def test_notices_about_unknown_blocks_do_nothing(ends: Ends) -> None:
    ends.exporter.release(12345)
    ends.exporter.retire(12345)
