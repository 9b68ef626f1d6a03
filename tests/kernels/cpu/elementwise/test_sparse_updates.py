"""Optimizer updates of rows: against their references, which are compared with TensorFlow's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfjit.kernels.cpu  # noqa: F401  (registers every kernel)
from tests.kernels.launching import KernelError, run_native, tensor
from tests.kernels.optimizer_inputs import FLAGS, arguments
from tfjit.framework.errors import InvalidArgumentError
from tfjit.framework.op_defs.op_registry import registry
from tfjit.kernels.cpu.elementwise.optimizer_updates import UPDATES
from tfjit.kernels.cpu.elementwise.sparse_updates import SPARSE
from tfjit.kernels.cpu.reference.state import optimizer_updates as references
from tfjit.kernels.registry import NodeSpec, Unsupported, find_native, find_reference

RNG = np.random.default_rng(4)
CASES = [(name, {}) for name in SPARSE] + [
    (name, {flag: flag != "update_slots"}) for name in SPARSE for flag in FLAGS.get(name, ())
]


def compare(op: str, attrs: dict[str, Any], inputs: list[np.ndarray], slots: int) -> None:
    """The compiled update changes variable and slots as the reference does."""
    kernel, builder = find_reference(op), find_native(op)
    assert kernel is not None and builder is not None
    specs = tuple(tensor(a) for a in inputs)
    names = [argument.name for argument in registry.require(op).inputs]
    known = {k: inputs[k] for k, name in enumerate(names) if name == "lr_power"}
    wanted = [a.copy() for a in inputs]
    kernel(NodeSpec("node", op, attrs, specs, ()), wanted)
    call = builder(NodeSpec("node", op, attrs, specs, (), known))
    for nchunks in (1, 3):
        places = [(k, k) for k in range(slots)]
        found = run_native(call, inputs, specs[:slots], nchunks, places)
        near = 2e-6 if inputs[0].dtype == np.float32 else 1e-12
        for value, want in zip(found, wanted):
            np.testing.assert_allclose(value, want, near, near)


@pytest.mark.parametrize(("name", "attrs"), CASES)
def test_rows_that_repeat(name: str, attrs: dict[str, Any]) -> None:
    op = f"ResourceSparseApply{name}"
    slots = references.UPDATES[name].slots
    index = RNG.integers(0, 6, 12).astype(np.int32)
    for shape in ((6, 9), (6,), (6, 2, 80)):
        inputs = arguments(op, np.dtype(np.float32), shape, index)
        compare(op, attrs, inputs, slots)


@pytest.mark.parametrize("name", ["Adagrad", "Ftrl", "Momentum"])
def test_wide_numbers_and_indices(name: str) -> None:
    index = RNG.integers(0, 6, 12)
    inputs = arguments(f"SparseApply{name}", np.dtype(np.float64), (6, 5), index)
    compare(f"SparseApply{name}", {}, inputs, references.UPDATES[name].slots)


@pytest.mark.parametrize("name", ["ProximalAdagrad", "ProximalGradientDescent", "AdagradDA"])
def test_dense_rules_that_shrink(name: str) -> None:
    """Beside zeros and NaN, without an l1 too."""
    op, slots = f"ResourceApply{name}", references.UPDATES[name].slots
    inputs = arguments(op, np.dtype(np.float32), (5, 7), None)
    inputs[0][0], inputs[0][1, 2] = 0, np.nan
    compare(op, {}, inputs, slots)
    names = [argument.name for argument in registry.require(op).inputs]
    inputs[names.index("l1")] = np.float32(0)
    compare(op, {}, inputs, slots)


def test_another_power_than_the_root() -> None:
    inputs = arguments("SparseApplyFtrl", np.dtype(np.float32), (6, 5), RNG.integers(0, 6, 9))
    inputs[-1] = np.float32(-0.3)
    compare("SparseApplyFtrl", {}, inputs, 3)


def test_no_rows() -> None:
    none = np.zeros(0, np.int32)
    for shape in ((6, 9), (0, 9), (6, 0)):
        inputs = arguments("SparseApplyAdagrad", np.dtype(np.float32), shape, none)
        compare("SparseApplyAdagrad", {}, inputs, 2)


def test_a_faulty_index_ends_the_update() -> None:
    """The rows before it have changed, as in the reference."""
    op = "SparseApplyAdagrad"
    inputs = arguments(op, np.dtype(np.float32), (6, 9), np.array([1, 5, 1, -2, 7], np.int64))
    specs = tuple(tensor(a) for a in inputs)
    kernel, builder = find_reference(op), find_native(op)
    assert kernel is not None and builder is not None
    wanted = [a.copy() for a in inputs]
    with pytest.raises(InvalidArgumentError) as failure:
        kernel(NodeSpec("node", op, {}, specs, ()), wanted)
    call = builder(NodeSpec("node", op, {}, specs, ()))
    with pytest.raises(KernelError) as raised:
        run_native(call, inputs, ())
    assert raised.value.args == ("InvalidArgumentError", failure.value.message)


@pytest.mark.parametrize("op", ["SparseApplyMomentum", "ResourceSparseApplyFtrl"])
def test_padding_is_ignored(op: str) -> None:
    index = np.array([4, 1, 5, 0, 0])
    index[3:] = np.iinfo(index.dtype).min
    inputs = arguments(op, np.dtype(np.float32), (6, 9), index)
    slots = references.UPDATES[op.rpartition("Apply")[2]].slots
    compare(op, {"_padded": True}, inputs, slots)
    kernel, place = find_reference(op), next(k for k, a in enumerate(inputs) if a is index)
    assert kernel is not None
    padded, short = ([a.copy() for a in inputs] for _ in range(2))
    short[place - 1 : place + 1] = short[place - 1][:3], index[:3]
    for attrs, values in (({"_padded": True}, padded), ({}, short)):
        kernel(NodeSpec("node", op, attrs, tuple(map(tensor, values)), ()), values)
    for one, other in zip(padded[:slots], short):
        np.testing.assert_array_equal(one, other)


def test_inputs_that_do_not_fit_are_left_to_the_reference() -> None:
    op = "SparseApplyAdagrad"
    builder = find_native(op)
    assert builder is not None
    index = np.array([1, 2], np.int32)
    good = arguments(op, np.dtype(np.float32), (6, 9), index)
    for place, value in ((2, good[2][None]), (3, good[3][:1]), (4, index[None]), (1, good[1][:3])):
        inputs = [*good[:place], value, *good[place + 1 :]]
        with pytest.raises(Unsupported):
            builder(NodeSpec("node", op, {}, tuple(map(tensor, inputs)), ()))


def test_rules_name_the_inputs_of_their_ops() -> None:
    for name in SPARSE:
        names = UPDATES[name].inputs.split()
        assert len(names) + 1 == len(registry.require(f"ResourceSparseApply{name}").inputs)
