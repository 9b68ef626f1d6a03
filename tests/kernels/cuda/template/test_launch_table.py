"""Kernels over tables: each row is a launch of its own."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.cuda.harness import simulated
from tfjit.kernels.cuda.device import simulator
from tfjit.kernels.cuda.template.launch_table import table_text, write_row


@pytest.mark.parametrize("members", [1, 2, 3, 7])
def test_each_launch_has_its_own_grid(members: int) -> None:
    text = table_text()
    write_row(text, ["n", "out_at"])
    text.line("out = ptr_i64(out_at)")
    with text.block("for i in range(row_unit, n, row_units):"):
        text.line("st(out, i, ld(out, i) + i * row_units)")
    source = text.source("squares", "squares", __name__)
    assert source.arity == 2
    results, rows, first, threads = [], [], 0, 4
    for number in range(members):
        blocks, size = 1 + number % 3, (3, 40, 1, 17)[number % 4]
        results.append(np.zeros(size, np.int64))
        rows += [first, blocks, size, results[-1].ctypes.data]
        first += blocks
    table = np.array(rows, np.int64)
    words = (table.ctypes.data, members)
    simulator.launch(simulated(source.text), words, (first, 1, 1), (threads, 1, 1))
    for number, found in enumerate(results):
        step = threads * (1 + number % 3)
        np.testing.assert_array_equal(found, np.arange(found.size) * step)
