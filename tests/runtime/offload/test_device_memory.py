"""Tests of the device memory of a program: no two live values share bytes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import tfjit as tf
from tests.simulated_gpu import simulated_gpu
from tfjit.runtime.offload import program_memory
from tfjit.runtime.offload.device_memory import lay_out_program


@pytest.fixture(autouse=True)
def gpu() -> Iterator[None]:
    with simulated_gpu():
        yield


def test_live_values_do_not_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    laid_out = []

    def record(lowered, steps):  # type: ignore[no-untyped-def]
        laid_out.append((lowered, steps, lay_out_program(lowered, steps)))
        return laid_out[-1][2]

    monkeypatch.setattr(program_memory, "lay_out_program", record)
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [6, 7])
        with tf.device("/device:GPU:0"):
            y = x
            for _ in range(4):
                y = tf.concat([tf.transpose(tf.reshape(y, [7, 6])), x], 1)[:, :7]
    with tf.Session(graph=graph) as session:
        session.run(y, {x: np.zeros((6, 7), np.float32)})
    ((lowered, steps, layout),) = laid_out
    last = {v.root.index: k for k, (i, _) in enumerate(steps) for v in (*i.inputs, *i.outputs)}
    last |= {v.root.index: len(steps) for v in lowered.fetches}
    first = {v.root.index: -1 for v in lowered.feeds.values()}
    for k, (instruction, _) in enumerate(steps):
        for value in instruction.outputs:
            first.setdefault(value.root.index, k)
    sizes = {v.index: v.spec.nbytes for v in lowered.values}
    places = [(layout.offsets[n], sizes[n], first[n], last.get(n, len(steps))) for n in first]
    for k, (start, size, begin, end) in enumerate(places):
        assert start + size <= layout.arena_bytes
        for other, length, begins, ends in places[k + 1 :]:
            if begin <= ends and begins <= end:
                assert start + size <= other or other + length <= start
    assert layout.arena_bytes < sum(size for _, size, _, _ in places)


def test_known_inputs_that_no_launch_names_take_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Axes of a reduction are known while planning; a table that a kernel reads is stored."""
    made = []

    def record(lowered, steps):  # type: ignore[no-untyped-def]
        made.append(lay_out_program(lowered, steps))
        return made[-1]

    monkeypatch.setattr(program_memory, "lay_out_program", record)
    table = np.arange(42, dtype=np.float32).reshape(6, 7)
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [6, 7])
        with tf.device("/device:GPU:0"):
            y = tf.reduce_sum(tf.matmul(x, tf.constant(table), transpose_b=True), [1])
    with tf.Session(graph=graph) as session:
        value = np.ones((6, 7), np.float32)
        np.testing.assert_array_equal(session.run(y, {x: value}), (value @ table.T).sum(1))
    (layout,) = made
    (stored,) = [array for _, array in layout.constants.values()]
    np.testing.assert_array_equal(stored, table)
