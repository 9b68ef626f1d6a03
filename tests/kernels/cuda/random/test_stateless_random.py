"""Draws from a seed, or from a key and a counter, against the host's reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.kernels.cuda.harness import run_call
from tests.kernels.cuda.linked import resources
from tests.kernels.cuda.texts import need_numba_cuda
from tests.kernels.launching import tensor
from tfjit.framework.types.dtypes import as_dtype
from tfjit.kernels.cuda.template.registry import find_builder
from tfjit.kernels.registry import NativeCall, NodeSpec, Unsupported, find_reference

SHAPE = np.array([7, 3], np.int32)
BOUNDS = (np.array(-(2**40)), np.array(2**62))


def built(op: str, inputs: list[np.ndarray], late: tuple[int, ...], **attrs: Any) -> tuple[
    NodeSpec, NativeCall, list[np.ndarray]
]:  # fmt: skip
    """Return a node, its call and the reference's values. late: inputs that are no constants."""
    specs = tuple(map(tensor, inputs))
    known = {k: value for k, value in enumerate(inputs) if k not in late}
    reference, builder = find_reference(op), find_builder(op)
    assert reference is not None
    assert builder is not None
    wanted = reference(NodeSpec("n", op, attrs, specs, (), known), inputs)
    expected = [np.asarray(a) for a in wanted]
    spec = NodeSpec("n", op, attrs, specs, tuple(map(tensor, expected)), known)
    return spec, builder(spec), expected


def check(op: str, inputs: list[np.ndarray], late: tuple[int, ...], **attrs: Any) -> None:
    spec, call, expected = built(op, inputs, late, **attrs)
    assert len(call.launches) <= 1
    assert call.stream_blocks == 0
    found, _ = run_call(call, inputs, spec.outputs)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.dtype == theirs.dtype
        if "Normal" in op:
            bound = 4 * np.finfo(ours.dtype).eps
            np.testing.assert_allclose(ours, theirs, rtol=bound, atol=1e-7)
        else:
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("seed", [(3, 4), (0, 0), (-1, 2**31 - 1)])
def test_of_seeds(seed: tuple[int, int], dtype: str) -> None:
    pair = np.array(seed, dtype)
    check("StatelessRandomGetKeyCounter", [pair], (0,))
    check(
        "StatelessRandomUniform",
        [np.array([0, 3], np.int32), pair],
        (1,),
        dtype=as_dtype("float32"),
    )
    for op, kind in (
        *(("RandomUniform", "f4"), ("RandomUniform", "f8"), ("RandomNormal", "f4")),
        *(("RandomNormal", "f8"), ("TruncatedNormal", "f4"), ("RandomUniformFullInt", "u4")),
        *(("RandomUniformFullInt", "i4"), ("RandomUniformFullInt", "u8")),
    ):
        check(f"Stateless{op}", [SHAPE, pair], (1,), dtype=as_dtype(np.dtype(kind)))
    check("StatelessRandomUniformInt", [SHAPE, pair, *BOUNDS], (1,))
    small = [np.array(-5, np.int32), np.array(1000, np.int32)]
    check("StatelessRandomUniformInt", [SHAPE, pair, *small], (1,))


@pytest.mark.parametrize("counter", [(0, 0), (2**64 - 2, 1), (2**64 - 1, 2**64 - 1, 7)])
def test_of_keys(counter: tuple[int, ...]) -> None:
    key, philox = np.array([2**63 + 12345], np.uint64), np.array(1, np.int32)
    stream = [SHAPE, key, np.array(counter, np.uint64), philox]
    for op, kind in (("RandomUniform", "f4"), ("RandomNormal", "f8"), ("TruncatedNormal", "f4")):
        check(f"Stateless{op}V2", stream, (1, 2), dtype=as_dtype(np.dtype(kind)))
    check("StatelessRandomUniformFullIntV2", stream, (1, 2), dtype=as_dtype("uint64"))
    check("StatelessRandomUniformIntV2", [*stream, *BOUNDS], (1, 2), dtype=as_dtype("int64"))


def test_what_has_no_form() -> None:
    pair = np.array([3, 4], np.int64)
    with pytest.raises(Unsupported, match="bounds of StatelessRandomUniformInt are not known"):
        built("StatelessRandomUniformInt", [SHAPE, pair, *BOUNDS], (1, 2, 3))
    stream = [SHAPE, np.array([1], np.uint64), np.array([1, 2], np.uint64), np.array(1, np.int32)]
    with pytest.raises(Unsupported, match="not known to be Philox"):
        built("StatelessRandomNormalV2", stream, (1, 2, 3), dtype=as_dtype("float32"))


def test_cubins() -> None:
    need_numba_cuda()
    pair = np.array([3, 4], np.int32)
    calls = [
        built("StatelessRandomUniform", [SHAPE, pair], (1,), dtype=as_dtype("float32"))[1],
        built("StatelessRandomGetKeyCounter", [pair], (0,))[1],
    ]
    found = resources([call.launches[0].source for call in calls])
    assert all(r.registers <= 64 and r.local_bytes == 0 for r in found)
