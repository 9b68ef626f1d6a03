"""Draws from a node's own stream, against the host's reference on the same position."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.cuda.harness import run_call
from tests.kernels.cuda.linked import ALL, resources
from tests.kernels.cuda.texts import need_numba_cuda
from tests.kernels.launching import tensor
from tfjit.framework.types.dtypes import as_dtype
from tfjit.kernels.cpu.random.draws import DRAWS
from tfjit.kernels.cuda.template.registry import find_builder
from tfjit.kernels.random_stream import advance
from tfjit.kernels.registry import NativeCall, NodeSpec, Unsupported, find_reference

FAR = np.array([2**64 - 2, 2**64 - 1, 2**63 + 12345], np.uint64)  # the counter wraps around
NEAR = np.array([2**32 - 1, 7, 2**40 + 3], np.uint64)


def built(op: str, inputs: list[np.ndarray], dtype: str) -> tuple[NodeSpec, NativeCall]:
    """Return a node with its call, for known inputs."""
    out = np.empty(tuple(inputs[0]), as_dtype(dtype).as_numpy_dtype)
    known = dict(enumerate(inputs))
    attrs = {"dtype": as_dtype(dtype), "seed": 1, "seed2": 2}
    spec = NodeSpec("n", op, attrs, tuple(map(tensor, inputs)), (tensor(out),), known)
    builder = find_builder(op)
    assert builder is not None
    return spec, builder(spec)


def check(op: str, dtype: str, shape: tuple[int, ...], start: np.ndarray, *bounds: object) -> None:
    inputs = [np.array(shape, np.int32), *(np.array(b, dtype) for b in bounds)]
    spec, call = built(op, inputs, dtype)
    hosts, ours = start.copy(), start.copy()
    reference = find_reference(op)
    assert reference is not None
    stated = NodeSpec(spec.name, op, spec.attrs, spec.inputs, spec.outputs, spec.constants, hosts)
    (expected,) = reference(stated, inputs)
    ((found,), _) = run_call(call, inputs, spec.outputs, ours)
    np.testing.assert_array_equal(ours, start)  # the launches only read it
    advance(ours, call.stream_blocks)
    np.testing.assert_array_equal(ours, hosts)
    assert found.dtype == expected.dtype
    if op in ("RandomStandardNormal", "TruncatedNormal"):
        np.testing.assert_allclose(found, expected, rtol=4 * np.finfo(found.dtype).eps, atol=1e-7)
    else:
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("op", "dtype"), DRAWS)
def test_floats(op: str, dtype: str) -> None:
    for shape, start in (((), NEAR), ((7, 3), FAR), ((0, 4), FAR), ((1021,), NEAR)):
        check(op, dtype, shape, start)


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [
        ("int32", -5, 1000),
        ("int32", -(2**31), 2**31 - 1),
        ("int64", -(2**40), 2**62),
        ("int64", -(2**63), 2**63 - 1),
        ("int64", 3, 4),
    ],
)
def test_integers(dtype: str, low: int, high: int) -> None:
    for shape, start in (((5, 3), FAR), ((0,), NEAR), ((2,), NEAR)):
        check("RandomUniformInt", dtype, shape, start, low, high)


def test_more_outputs_than_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tfjit.kernels.cuda.template.launches.MAX_BLOCKS", 1)
    check("RandomUniform", "float32", (4 * 256 + 9,), NEAR)


def test_what_has_no_form() -> None:
    shape = np.array([3], np.int32)
    with pytest.raises(Unsupported, match="float16 has no compiled form"):
        built("RandomUniform", [shape], "float16")
    with pytest.raises(Unsupported, match="Need minval < maxval"):
        built("RandomUniformInt", [shape, np.int32(3), np.int32(3)], "int32")


def test_cubins() -> None:
    need_numba_cuda()
    shape = np.array([1000], np.int32)
    calls = [
        built("TruncatedNormal", [shape], "float32")[1],
        built("RandomUniformInt", [shape, np.array(0), np.array(9)], "int64")[1],
    ]
    sources = [call.launches[0].source for call in calls]
    found = resources(sources, *ALL)
    assert len(found) == 6
    # libdevice's sine keeps an array for angles beyond those of a draw
    assert all(r.registers <= 64 and r.local_bytes <= 40 for r in found)
