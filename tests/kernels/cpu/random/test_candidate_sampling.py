"""Compiled candidate samplers against their references, which the tests beside these compare with
TensorFlow, bit for bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfjit.kernels.cpu  # noqa: F401  (registers every kernel)
from tests.kernels.launching import KernelError, run_native, tensor
from tfjit.framework.errors import InvalidArgumentError
from tfjit.kernels.registry import (
    NodeSpec,
    Unsupported,
    find_initial_state,
    find_native,
    find_reference,
)

SAMPLERS = ("UniformCandidateSampler", "LogUniformCandidateSampler")


def node(op: str, classes: np.ndarray, unique: bool, size: int, count: int) -> NodeSpec:
    attrs: dict[str, Any] = {
        "seed": 5,
        "seed2": 6,
        "num_true": 2,
        "unique": unique,
        "range_max": size,
        "num_sampled": count,
    }
    outputs = (
        tensor(np.zeros(count, np.int64)),
        tensor(np.zeros(classes.shape, np.float32)),
        tensor(np.zeros(count, np.float32)),
    )
    return NodeSpec("node", op, attrs, (tensor(classes),), outputs)


@pytest.mark.parametrize(
    ("op", "unique"), [(SAMPLERS[0], False), (SAMPLERS[1], False), (SAMPLERS[1], True)]
)
@pytest.mark.parametrize(("size", "count"), [(50, 12), (1000, 300), (18, 18), (1 << 40, 7)])
def test_samples(op: str, unique: bool, size: int, count: int) -> None:
    classes = np.random.default_rng(2).integers(0, size, (5, 2))
    spec = node(op, classes, unique, size, count)
    make, reference, builder = find_initial_state(op), find_reference(op), find_native(op)
    assert make is not None
    assert reference is not None
    assert builder is not None
    state = make(spec)
    state[0] = np.uint64(2**64 - 1000)  # the counter's low half overflows
    mine = state.copy()
    for _ in range(3):
        known = NodeSpec(spec.name, op, spec.attrs, spec.inputs, spec.outputs, {}, state)
        wanted = reference(known, [classes])
        found = run_native(builder(spec), [classes], spec.outputs, state=mine)
        for have, want in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(have, want)
        np.testing.assert_array_equal(mine, state)


def test_a_true_class_out_of_range() -> None:
    for bad in (-1, 9):
        classes = np.array([[0, 1], [bad, 2]])
        spec = node(SAMPLERS[0], classes, False, 9, 4)
        state = np.zeros(3, np.uint64)
        reference, builder = find_reference(spec.op), find_native(spec.op)
        assert reference is not None
        assert builder is not None
        known = NodeSpec(spec.name, spec.op, spec.attrs, spec.inputs, (), {}, state)
        with pytest.raises(InvalidArgumentError) as wanted:
            reference(known, [classes])
        with pytest.raises(KernelError) as raised:
            run_native(builder(spec), [classes], spec.outputs, state=state)
        assert raised.value.args == ("InvalidArgumentError", wanted.value.message)


def test_refused() -> None:
    classes = np.zeros((3, 2), np.int64)
    builder = find_native(SAMPLERS[0])
    assert builder is not None
    for spec in (
        node(SAMPLERS[0], classes, True, 3, 4),
        node(SAMPLERS[0], np.zeros((3, 1), np.int64), True, 9, 4),
        node(SAMPLERS[0], np.zeros(3, np.int64), True, 9, 4),
    ):
        with pytest.raises(Unsupported):
            builder(spec)
