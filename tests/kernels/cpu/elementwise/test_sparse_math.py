"""Arithmetic of sparse with dense tensors against its reference, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.against_reference import RNG, check, values
from tests.kernels.launching import KernelError, run_native, tensor
from tfjit.framework.errors import InvalidArgumentError
from tfjit.kernels.registry import NodeSpec, Unsupported, find_native, find_reference

OP = "SparseDenseCwiseMul"


def places(sizes: tuple[int, ...], count: int) -> np.ndarray:
    """Places in any order, some of them more than once."""
    return np.stack([RNG.integers(0, size, count) for size in sizes], 1)


def node(inputs: list[np.ndarray], op: str = OP) -> NodeSpec:
    specs = tuple(map(tensor, inputs))
    return NodeSpec("node", op, {}, specs, (specs[1],), {2: inputs[2]})


@pytest.mark.parametrize(
    ("op", "dtype"), [("Add", "int32"), ("Mul", "float32"), ("Mul", "int32"), ("Div", "float32")]
)
def test_matrices(op: str, dtype: str) -> None:
    sizes = 5, 3
    for dense in ((), (3,), (1,), (5, 1), (1, 3), (5, 3)):
        for count, nchunks in ((23, 3), (0, 1)):
            check(
                f"SparseDenseCwise{op}",
                places(sizes, count),
                values(count, dtype=dtype),
                np.array(sizes),
                values(*dense, dtype=dtype) + np.array(1, dtype),
                nchunks=nchunks,
            )


def test_tensors_of_rank_three() -> None:
    sizes = 4, 2, 3
    for dense in ((2, 1), (4, 1, 3)):
        check(OP, places(sizes, 9), values(9), np.array(sizes), values(*dense))


def test_places_outside_of_the_tensor() -> None:
    for bad in ([[0, 3]], [[5, 0]], [[0, 0], [-1, 0]]):
        inputs = [np.array(bad), np.ones(len(bad), np.float32), np.array([5, 3]), np.float32(2)]
        spec = node([np.asarray(value) for value in inputs])
        reference, builder = find_reference(OP), find_native(OP)
        assert reference is not None
        assert builder is not None
        with pytest.raises(InvalidArgumentError) as wanted:
            reference(spec, inputs)
        with pytest.raises(KernelError) as raised:
            run_native(builder(spec), [np.asarray(v) for v in inputs], spec.outputs)
        assert raised.value.args == ("InvalidArgumentError", wanted.value.message)


def test_refused() -> None:
    builder = find_native(OP)
    assert builder is not None
    inputs = [places((5, 3), 4), values(4), np.array([5, 3]), values(3)]
    assert builder(node(inputs)).launches
    known = node(inputs)
    integers = [inputs[0], inputs[1].astype(np.int32), inputs[2], inputs[3].astype(np.int32)]
    for refused in (
        node([*inputs[:3], values(2)]),
        node([*inputs[:3], values(2, 5, 3)]),
        NodeSpec("node", OP, {}, known.inputs, known.outputs),
        node([inputs[0], *(x.astype(np.float16) for x in inputs[1:2]), *inputs[2:]]),
        node(integers, "SparseDenseCwiseDiv"),
    ):
        with pytest.raises(Unsupported):
            builder(refused)
