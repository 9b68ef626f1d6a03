"""Compiled random ops without state, against their reference kernels (which the tests of ops
compare with TensorFlow).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfjit.kernels.cpu  # noqa: F401  (registers every kernel)
from tests.kernels.launching import run_native, tensor
from tfjit.framework.types.dtypes import as_dtype
from tfjit.kernels.registry import NodeSpec, Unsupported, find_native, find_reference

SEEDS = [(3, 4), (0, 0), (-1, 2**31 - 1)]


def check(
    op: str, late: tuple[int, ...], *inputs: np.ndarray, nchunks: int = 3, **attrs: Any
) -> None:
    specs = tuple(tensor(a) for a in inputs)
    known = {k: value for k, value in enumerate(inputs) if k not in late}
    reference, builder = find_reference(op), find_native(op)
    assert reference is not None
    assert builder is not None
    wanted = [
        np.asarray(a) for a in reference(NodeSpec("node", op, attrs, specs, (), known), inputs)
    ]
    spec = NodeSpec("node", op, attrs, specs, tuple(tensor(a) for a in wanted), known)
    for found, want in zip(
        run_native(builder(spec), inputs, spec.outputs, nchunks), wanted, strict=True
    ):
        assert found.dtype == want.dtype
        if want.dtype.kind == "f":
            np.testing.assert_allclose(found, want, rtol=3e-6, atol=1e-6)
        else:
            np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_of_seeds(seed: tuple[int, int], dtype: str) -> None:
    pair = np.array(seed, dtype)
    check("StatelessRandomGetKeyCounter", (0,), pair)
    for shape in ((1,), (3,), (7, 5), (1000,)):
        for op, kinds in (
            ("Uniform", ("f4", "f8")),
            ("Normal", ("f4", "f8")),
            ("TruncatedNormal", ("f4",)),
        ):
            name = f"Stateless{'' if op == 'TruncatedNormal' else 'Random'}{op}"
            for kind in kinds:
                check(name, (1,), np.array(shape, np.int32), pair, dtype=as_dtype(np.dtype(kind)))
    for kind in ("i4", "u4", "i8", "u8"):
        check(
            "StatelessRandomUniformFullInt",
            (1,),
            np.array([37], np.int32),
            pair,
            dtype=as_dtype(np.dtype(kind)),
        )
    for bounds in (
        (np.int32(-5), np.int32(1000)),
        (np.int64(-(2**40)), np.int64(2**62)),
        (np.int32(-(2**31)), np.int32(2**31 - 1)),
    ):
        check(
            "StatelessRandomUniformInt",
            (1,),
            np.array([37], np.int32),
            pair,
            *map(np.asarray, bounds),
        )


@pytest.mark.parametrize("counter", [(0, 0), (2**64 - 2, 1), (2**64 - 1, 2**64 - 1, 7)])
def test_of_keys(counter: tuple[int, ...]) -> None:
    stream = (np.array([2**63 + 12345], np.uint64), np.array(counter, np.uint64), np.int32(1))
    for op, kind in (
        ("RandomUniform", "f4"),
        ("RandomUniform", "f8"),
        ("RandomNormal", "f4"),
        ("TruncatedNormal", "f4"),
    ):
        check(
            f"Stateless{op}V2",
            (1, 2),
            np.array([5, 9], np.int32),
            *map(np.asarray, stream),
            dtype=as_dtype(np.dtype(kind)),
        )
    check(
        "StatelessRandomUniformFullIntV2",
        (1, 2),
        np.array([5, 9], np.int32),
        *map(np.asarray, stream),
        dtype=as_dtype("uint64"),
    )
    bounds = (np.int32(-5), np.int32(1000))
    check(
        "StatelessRandomUniformIntV2",
        (1, 2),
        np.array([5, 9], np.int32),
        *map(np.asarray, (*stream, *bounds)),
        dtype=as_dtype("int32"),
    )


def test_what_has_no_compiled_form() -> None:
    builder = find_native("StatelessRandomNormalV2")
    assert builder is not None
    inputs = (
        np.array([3], np.int32),
        np.array([1], np.uint64),
        np.array([1, 2], np.uint64),
        np.array(1, np.int32),
    )
    specs = tuple(tensor(a) for a in inputs)
    out = (tensor(np.zeros(3, np.float32)),)
    for known in ({}, {3: np.array(2, np.int32)}):
        with pytest.raises(Unsupported, match="algorithm"):
            builder(NodeSpec("node", "StatelessRandomNormalV2", {}, specs, out, known))
