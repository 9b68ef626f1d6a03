"""Reductions over any axes, with producers and epilogue, against their reference kernels and NumPy
in float64.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tfjit.kernels.cpu  # noqa: F401  (registers every kernel)
from tests.kernels.groups import NUMPY, ReduceBuilder, floats
from tests.kernels.launching import run_native, tensor
from tfjit.framework.types import dtypes as d
from tfjit.kernels.cpu.reduction.reduction import reduce_call
from tfjit.kernels.registry import NodeSpec, TensorSpec, Unsupported, find_native

SHAPES = [
    (),
    (7,),
    (3, 4, 5),
    (2, 3, 5, 7),
    (1000, 33),
    (33, 1000),
    (1, 1, 3),
    (5, 1, 4),
    (0, 3),
    (3, 0),
    (2000, 1),
    (3, 70, 20),
]
FEW_SHAPES = [(), (3, 40, 5), (0, 3)]


def reduce_native(
    op: str, x: np.ndarray, axes: tuple[int, ...], keep: bool = False, nchunks: int = 0
) -> np.ndarray:
    """Output of a standalone reduction."""
    given = np.array(axes, np.int32)
    shape = tuple(1 if k in axes else n for k, n in enumerate(x.shape) if keep or k not in axes)
    spec = NodeSpec(
        "node",
        op,
        {"keep_dims": keep},
        (tensor(x), tensor(given)),
        (TensorSpec(tensor(x).dtype, shape),),
        {1: given},
    )
    builder = find_native(op)
    assert builder is not None
    return run_native(builder(spec), [x, given], spec.outputs, nchunks)[0]


def every_axes(rank: int) -> list[tuple[int, ...]]:
    return [axes for k in range(rank + 1) for axes in itertools.combinations(range(rank), k)]


@pytest.mark.parametrize(
    ("op", "shape"),
    [("Sum", s) for s in SHAPES] + [(op, s) for op in ("Mean", "Max") for s in FEW_SHAPES],
    ids=str,
)
def test_every_choice_of_axes(op: str, shape: tuple[int, ...]) -> None:
    x = floats(*shape)
    for axes in every_axes(len(shape)):
        if x.size == 0 and op == "Max":
            wanted = (
                np.full(np.sum(x, axis=axes).shape, -np.inf)
                if 0 in (shape[k] for k in axes)
                else np.max(x, axis=axes)
            )
        else:
            with np.errstate(all="ignore"):
                count = 0 if x.size == 0 else x.size // max(np.sum(x, axis=axes).size, 1)
                total = (
                    np.sum(x.astype(np.float64), axis=axes) if op != "Max" else np.max(x, axis=axes)
                )
                wanted = np.asarray(total) / count if op == "Mean" else total
        for nchunks in (0, 3):
            result = reduce_native(op, x, axes, nchunks=nchunks)
            np.testing.assert_allclose(result, wanted, rtol=2e-6, atol=2e-5)


# Loops follow from the axes, and what an element does from op and dtype: each op meets both axes,
# each dtype every op.
@pytest.mark.parametrize(("op", "number"), [(op, number) for number, op in enumerate(NUMPY)])
def test_integers_and_bools(op: str, number: int) -> None:
    rng = np.random.default_rng(2)
    both_axes = [(1,), (0, 2)][:: 1 if number % 2 else -1]
    if op in ("All", "Any"):
        x: np.ndarray = rng.random((6, 7, 8)) < (0.9 if op == "All" else 0.1)
        for axes in both_axes:
            np.testing.assert_array_equal(
                reduce_native(op, x, axes, keep=True), NUMPY[op](x, axis=axes, keepdims=True)
            )
        return
    for dtype, axes in zip((np.int32, np.uint8), both_axes, strict=True):
        x = (
            rng.integers(0, 5, (6, 7, 8)).astype(dtype)
            if dtype is np.uint8
            else rng.integers(-5, 5, (6, 7, 8)).astype(dtype)
        )
        wanted = (
            NUMPY[op](x, axis=axes, dtype=dtype)
            if op in ("Sum", "Prod")
            else np.trunc(NUMPY[op](x, axis=axes))
        )
        np.testing.assert_array_equal(reduce_native(op, x, axes), wanted.astype(dtype))


@pytest.mark.parametrize(
    ("dtype", "axes"),
    [
        *((np.int8, axes) for axes in ((0,), (1,), (0, 1))),
        *(
            (np.uint8, (0,)),
            (np.int16, (1,)),
            (np.uint16, (0, 1)),
            (np.int32, (0,)),
            (np.int32, (0, 1)),
            (np.int64, (1,)),
        ),
    ],
)
def test_means_of_integers_do_not_wrap(dtype: type, axes: tuple[int, ...]) -> None:
    info = np.iinfo(dtype)
    x = np.random.default_rng(0).integers(info.max // 4, info.max // 2, (300, 40)).astype(dtype)
    if dtype is np.int64:
        x //= 1 << 20
    sums, count = x.astype(np.int64).sum(axes), np.prod([x.shape[k] for k in axes])
    np.testing.assert_array_equal(reduce_native("Mean", x, axes), (sums // count).astype(dtype))
    if np.issubdtype(dtype, np.signedinteger):
        np.testing.assert_array_equal(
            reduce_native("Mean", -x, axes), -(sums // count).astype(dtype)
        )


@pytest.mark.parametrize("dtype", [d.float64, d.float16, d.bfloat16, d.complex64])
def test_other_types(dtype: d.DType) -> None:
    x = np.random.default_rng(1).standard_normal((40, 50)).astype(dtype.as_numpy_dtype)
    wide = np.complex128 if dtype is d.complex64 else np.float64
    for axes in [(0,), (1,)]:
        result = reduce_native("Sum", x, axes).astype(wide)
        rtol, atol = (1e-2, 0.1) if dtype.size == 2 else (1e-5, 1e-4)
        np.testing.assert_allclose(result, x.astype(wide).sum(axis=axes), rtol=rtol, atol=atol)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("rows", [0, 1, 5])
def test_complex_means(dtype: type, rows: int) -> None:
    """That of no element is zero."""
    rng = np.random.default_rng(1)
    x = (rng.standard_normal((rows, 3)) + 1j * rng.standard_normal((rows, 3))).astype(dtype)
    wanted = x.mean(axis=0) if rows else np.zeros(3, dtype)
    np.testing.assert_allclose(reduce_native("Mean", x, (0,)), wanted, rtol=1e-5)


def test_nan_is_kept_by_max_and_min() -> None:
    x = floats(50, 60)
    x[3, 4] = np.nan
    for op, axes in itertools.product(("Max", "Min"), [(0,), (1,), (0, 1)]):
        np.testing.assert_array_equal(reduce_native(op, x, axes), NUMPY[op](x, axis=axes))


@pytest.mark.parametrize(
    ("shape", "axes"),
    [((1 << 20,), (0,)), ((1 << 18, 3), (0,)), ((3, 1 << 18), (1,)), ((64, 4096, 4), (0, 1))],
)
def test_long_sums_are_exact_enough(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).random(shape).astype(np.float32)
    wanted = x.astype(np.float64).sum(axis=axes)
    np.testing.assert_allclose(reduce_native("Sum", x, axes), wanted, rtol=2e-7)


def test_norms() -> None:
    x = floats(30, 40)
    np.testing.assert_allclose(
        reduce_native("EuclideanNorm", x, (1,)),
        np.sqrt((x.astype(np.float64) ** 2).sum(1)),
        rtol=1e-6,
    )
    spec = NodeSpec("node", "L2Loss", {}, (tensor(x),), (TensorSpec(d.float32, ()),))
    builder = find_native("L2Loss")
    assert builder is not None
    (loss,) = run_native(builder(spec), [x], spec.outputs)
    np.testing.assert_allclose(loss, (x.astype(np.float64) ** 2).sum() / 2, rtol=1e-6)


@pytest.mark.parametrize("layout", [b"NHWC", b"NCHW"])
def test_bias_add_grad(layout: bytes) -> None:
    x = floats(4, 6, 7, 5)
    axes = (0, 1, 2) if layout == b"NHWC" else (0, 2, 3)
    wanted = x.astype(np.float64).sum(axis=axes)
    spec = NodeSpec(
        "node",
        "BiasAddGrad",
        {"data_format": layout},
        (tensor(x),),
        (TensorSpec(d.float32, wanted.shape),),
    )
    builder = find_native("BiasAddGrad")
    assert builder is not None
    np.testing.assert_allclose(
        run_native(builder(spec), [x], spec.outputs)[0], wanted, rtol=1e-6, atol=1e-5
    )


# The sum is a second result of columns and of rows; the loops over other axes are of these two.
@pytest.mark.parametrize(
    ("axes", "sum_too"),
    [((0,), True), ((1,), False), ((0, 2), False), ((1, 2), True), ((0, 1, 2), False)],
)
def test_producers_and_epilogue(axes: tuple[int, ...], sum_too: bool) -> None:
    g = ReduceBuilder(floats(4, 30, 50), floats(30, 1, seed=1), np.float32([0.25]).reshape(()))
    product = g.op("Mul", g.op("Square", g.input(0)), g.input(1))
    total = g.reduce("Sum", product, axes)
    out = g.op("Sqrt", g.op("Abs", g.op("Mul", total, g.input(2))))
    g.run("reduce", reduce_call, out, rtol=5e-6, nchunks=2)
    if sum_too:
        g.run("reduce", reduce_call, out, total, rtol=5e-6, atol=1e-4)


def test_producer_that_is_needed_elsewhere_is_written_too() -> None:
    g = ReduceBuilder(floats(64, 40), floats(64, 40, seed=1))
    masked = g.op("ReluGrad", g.input(0), g.input(1))
    g.run("reduce", reduce_call, masked, g.reduce("Sum", masked, (0,)), atol=1e-5)


def test_operand_of_the_results_shape_in_the_epilogue() -> None:
    g = ReduceBuilder(floats(64, 40), floats(40, seed=1))
    g.run(
        "reduce",
        reduce_call,
        g.op("AddV2", g.reduce("Mean", g.input(0), (0,)), g.input(1)),
        atol=1e-5,
    )


def test_what_does_not_fit_is_refused() -> None:
    g = ReduceBuilder(floats(6, 4))
    centred = g.op("Sub", g.input(0), g.reduce("Mean", g.input(0), (0,), keep=True))
    with pytest.raises(Unsupported, match="larger than the reduction's result"):
        g.run("reduce", reduce_call, centred)


@pytest.mark.parametrize(
    "shape", [(7,), (5, 3), (3, 5, 7), (100, 2000), (3, 400, 5), (9, 192), (9, 193)], ids=str
)
@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("dtype", ["float32", "int32", "bool"])
def test_arg_reductions(op: str, shape: tuple[int, ...], dtype: str) -> None:
    x = (np.random.default_rng(4).standard_normal(shape) * 3).astype(dtype)
    builder = find_native(op)
    assert builder is not None
    for axis in range(len(shape)):
        wanted = getattr(np, op.lower())(x, axis=axis)
        for index in (d.int32, d.int64):
            spec = NodeSpec(
                "node",
                op,
                {},
                (tensor(x), tensor(np.int32(axis))),
                (TensorSpec(index, wanted.shape),),
                {1: np.int32(axis)},
            )
            np.testing.assert_array_equal(
                run_native(builder(spec), [x, np.array(axis, np.int32)], spec.outputs)[0], wanted
            )


def test_arg_max_passes_over_nan() -> None:
    x = np.array(
        [[1, np.nan, 2], [np.nan, np.nan, np.nan], [-np.inf, -np.inf, -np.inf], [np.nan, -1, -1]],
        np.float32,
    )
    builder = find_native("ArgMax")
    assert builder is not None
    for array, axis in ((x, 1), (x.T.copy(), 0)):
        spec = NodeSpec(
            "node",
            "ArgMax",
            {},
            (tensor(array), tensor(np.int32(axis))),
            (TensorSpec(d.int64, (4,)),),
            {1: np.int32(axis)},
        )
        np.testing.assert_array_equal(
            run_native(builder(spec), [array, np.array(axis, np.int32)], spec.outputs)[0],
            [2, 0, 0, 1],
        )


SPREAD_CASES = [
    ((300, 40), (0,)),
    ((5, 70, 600), (1,)),
    ((4, 9, 9, 8), (0, 1, 2)),
    ((3, 5000), (1,)),
    ((30000,), (0,)),
    ((2, 3, 70, 5), (0, 2)),
]


@pytest.mark.parametrize(
    ("shape", "axes", "dtype", "alone"),
    [
        *((*case, np.float32, number % 2 == 0) for number, case in enumerate(SPREAD_CASES)),
        # the dtype changes the types in a text, not its loops
        (*SPREAD_CASES[1], np.float64, True),
    ],
    ids=str,
)
def test_mean_and_variance_in_one_pass(
    shape: tuple[int, ...], axes: tuple[int, ...], dtype: type, alone: bool
) -> None:
    """alone: the variance without the mean, too."""
    g = ReduceBuilder(
        (floats(*shape) + 1000).astype(dtype), np.float32(2).astype(dtype).reshape(())
    )
    x = g.op("Mul", g.input(0), g.input(1))
    mean = g.reduce("Mean", x, axes, keep=True)
    away = g.op("SquaredDifference", x, g.op("StopGradient", mean, value=g.values[mean]))
    variance = g.op("Sqrt", g.reduce("Mean", away, axes))
    wide = g.values[x].astype(np.float64)
    g.values[mean] = wide.mean(axes, keepdims=True)
    g.values[variance] = wide.std(axes)
    for nchunks in (1, 3):
        g.run("reduce", reduce_call, mean, variance, rtol=2e-6, nchunks=nchunks)
        if alone:
            g.run("reduce", reduce_call, variance, rtol=2e-6, nchunks=nchunks)


def test_variance_of_what_is_far_from_zero() -> None:
    x = (np.random.default_rng(0).standard_normal((2000, 30)) + 1e4).astype(np.float32)
    for axes in [(0,), (1,), (0, 1)]:
        g = ReduceBuilder(x)
        mean = g.reduce("Mean", g.input(0), axes, keep=True)
        centred = g.op("Sub", g.input(0), mean)
        variance = g.reduce("Mean", g.op("Square", centred), axes)
        g.values[variance] = x.astype(np.float64).var(axes)
        g.run("reduce", reduce_call, variance, rtol=1e-5)


def test_variance_with_infinities_is_nan_and_the_mean_is_not() -> None:
    x = floats(300, 5)
    x[7, 0] = np.inf
    x[0, 1] = -np.inf
    x[9, 2] = np.nan
    x[[3, 200], 3] = np.inf
    g = ReduceBuilder(x)
    with np.errstate(invalid="ignore"):
        mean = g.reduce("Mean", g.input(0), (0,), keep=True)
        variance = g.reduce("Mean", g.op("SquaredDifference", g.input(0), mean), (0,))
    g.run("reduce", reduce_call, mean, variance, rtol=1e-5)


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
def test_several_reductions_of_one_tensor(axes: tuple[int, ...]) -> None:
    g = ReduceBuilder(floats(200, 70), floats(200, 70, seed=1))
    total, top = g.reduce("Sum", g.input(0), axes), g.reduce("Max", g.input(0), axes, keep=True)
    product = g.reduce("Sum", g.op("Mul", g.input(0), g.input(1)), axes)
    out = g.op("AddV2", total, product)
    g.run("reduce", reduce_call, out, top, total, rtol=1e-5, atol=1e-4, nchunks=2)


def test_a_reduction_of_another_ones_result_is_refused() -> None:
    g = ReduceBuilder(floats(6, 4))
    mean = g.reduce("Mean", g.input(0), (0,), keep=True)
    centred = g.op("Abs", g.op("Sub", g.input(0), mean))
    total = g.reduce("Sum", centred, (0,))
    with pytest.raises(Unsupported, match="depends on the result of another"):
        g.run("reduce", reduce_call, total)
    other = g.reduce("Sum", g.input(0), (1,))
    with pytest.raises(Unsupported, match="other axes"):
        g.run("reduce", reduce_call, mean, other)
