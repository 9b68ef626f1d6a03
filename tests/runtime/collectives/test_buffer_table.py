"""Buffers that are given and taken, in either order."""

from __future__ import annotations

from typing import Any

import numpy as np

from tfjit.framework import errors
from tfjit.runtime.collectives.buffer_table import BufferTable

VALUE = np.arange(3)


def test_either_may_come_first() -> None:
    table, said = BufferTable(), []
    table.give("a", VALUE, lambda error: said.append(("given", error)))
    assert not said and not table.is_empty
    table.take("a", lambda error, value: said.append((error, value)))
    assert said == [(None, VALUE), ("given", None)]
    said.clear()
    table.take("a", lambda error, value: said.append((error, value)))
    table.give("a", VALUE, lambda error: said.append(("given", error)))
    assert said == [(None, VALUE), ("given", None)] and table.is_empty


def test_a_second_end_is_refused() -> None:
    table, said = BufferTable(), []
    for _ in range(2):
        table.give("a", VALUE, said.append)
        table.take("b", lambda error, value: said.append(error))
    assert [type(error).__name__ for error in said] == ["InternalError"] * 2


def test_a_taker_may_give_up() -> None:
    table, said = BufferTable(), []

    def taken(error: Any, value: Any) -> None:
        said.append(error)

    table.take("a", taken)
    table.withdraw("a", taken)
    table.withdraw("a", taken)
    assert [type(error).__name__ for error in said] == ["CancelledError"] and table.is_empty


def test_an_abort_ends_all_and_refuses_more() -> None:
    table, said = BufferTable(), []
    error = errors.AbortedError(None, None, "over")
    table.give("a", VALUE, said.append)
    table.take("b", lambda failure, value: said.append(failure))
    table.abort(error)
    table.abort(errors.AbortedError(None, None, "again"))
    table.give("c", VALUE, said.append)
    table.take("a", lambda failure, value: said.append(failure))
    assert said == [error] * 4
