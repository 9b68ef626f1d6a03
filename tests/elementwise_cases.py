"""Inputs, TensorFlow's answers and tolerances for every row of the elementwise table."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from tfjit.framework.scalar.elementwise import TABLE, Elementwise
from tfjit.framework.types import dtypes as d
from tfjit.framework.types.dtypes import DType

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

# A multiple of TensorFlow's packets: the elements left over go through separate scalar code, which
# for some ops rounds otherwise.
SIZE = 384

# Largest difference from TensorFlow in units in the last place (TensorFlow's own error included),
# and an absolute part in units of the dtype's epsilon where TensorFlow's formula cancels. Rows that
# are not named must agree bit for bit.
ULPS: dict[str, tuple[float, float]] = {
    "Exp": (3, 0), "Expm1": (4, 0), "Log": (4, 0), "Log1p": (4, 0), "Rsqrt": (2, 0), "Pow": (16, 0), "Xlogy": (5, 0),
    "Xlog1py": (5, 0),
    "Sin": (4, 0.5), "Cos": (4, 0.5), "Tan": (5, 0.5), "Asin": (5, 0), "Acos": (5, 0), "Atan": (5, 0), "Atan2": (6, 0),
    "Sinh": (5, 0), "Cosh": (5, 0), "Tanh": (8, 0), "Asinh": (8, 0), "Acosh": (8, 0), "Atanh": (8, 0),
    "Reciprocal": (2, 0), "Inv": (2, 0), "Sigmoid": (8, 0), "Elu": (4, 2), "Selu": (4, 4), "Softplus": (8, 0), "SoftplusGrad": (4, 0),
    "Erf": (8, 0), "Erfc": (16, 0), "Angle": (4, 0), "ComplexAbs": (3, 0),
    # TensorFlow's Erfinv loses digits as ndtri((x + 1) / 2), its Fresnel integrals do in the angle
    "Erfinv": (256, 4), "Ndtri": (16, 2), "Lgamma": (8, 8), "Digamma": (16, 16), "Dawsn": (16, 0), "Expint": (16, 8),
    "FresnelCos": (8, 256), "FresnelSin": (8, 256), "Spence": (16, 4),
    "BesselI0": (16, 0), "BesselI0e": (16, 0), "BesselI1": (16, 0), "BesselI1e": (16, 0),
    "BesselJ0": (16, 16), "BesselJ1": (16, 16), "BesselK0": (16, 0), "BesselK0e": (16, 0), "BesselK1": (16, 0), "BesselK1e": (16, 0),
    "BesselY0": (16, 16), "BesselY1": (16, 16), "Igamma": (600, 4), "Igammac": (600, 16), "IgammaGradA": (600, 16),
    "RandomGammaGrad": (600, 16), "Betainc": (4000, 16), "Zeta": (64, 0), "Polygamma": (128, 8),
}  # fmt: skip
# For complex results the difference is measured against the size of the number, since either part
# may cancel.
COMPLEX_EXACT = frozenset({
    "Add", "AddV2", "AddN", "Sub", "Mul", "RealDiv", "Div", "DivNoNan", "MulNoNan", "SquaredDifference", "Neg", "Square", "Reciprocal",
    "Inv", "Xdivy", "SigmoidGrad", "TanhGrad", "SqrtGrad", "RsqrtGrad", "ReciprocalGrad", "InvGrad", "Select", "SelectV2", "Complex",
    "Conj",
})  # fmt: skip
COMPLEX_ULPS = (64.0, 4.0)


def cases() -> Iterator[tuple[Elementwise, DType]]:
    """Every row with every dtype it has."""
    for row in TABLE:
        for dtype in dtypes_of(row):
            yield row, dtype


def dtypes_of(row: Elementwise) -> list[DType]:
    """The dtypes in which TensorFlow's answer is one to agree with."""
    return [
        t
        for t in sorted(row.dtypes, key=lambda t: t.as_datatype_enum)
        if (row.op, t.name) not in TENSORFLOW_ERRS
    ]


def attrs_for(row: Elementwise, dtype: DType) -> dict[str, Any]:
    """Values for the attrs a row takes."""
    pair = {
        d.float32: d.complex64,
        d.float64: d.complex128,
        d.complex64: d.float32,
        d.complex128: d.float64,
    }
    values: dict[str, Any] = {
        "alpha": 0.2,
        "tolerance": 0.05,
        "DstT": d.int32,
        "Truncate": False,
        "Tout": pair.get(dtype),
    }
    return {name: values[name] for name in (*row.attrs, row.result) if name in values}


def random_values(dtype: DType, rng: np.random.Generator, size: int = SIZE) -> Any:
    """Return values of a dtype.

    Its special values, then random ones of several magnitudes.
    """
    numpy_dtype = np.dtype(dtype.as_numpy_dtype)
    if dtype is d.bool:
        return rng.integers(0, 2, size).astype(bool)
    if dtype.is_integer:
        limits = np.iinfo(numpy_dtype)
        values = rng.integers(limits.min, limits.max, size, dtype=numpy_dtype, endpoint=True)
        values[::3] = rng.integers(-9 if limits.min else 0, 10, values[::3].size)
        values[:4] = (limits.min, limits.max, 0, 1)
        return values
    if dtype.is_complex:
        return (rng.standard_normal(size) * 2 + 2j * rng.standard_normal(size)).astype(numpy_dtype)
    values = rng.standard_normal(size) * 10.0 ** rng.integers(-3, 3, size)
    values[::2] = rng.uniform(-1.5, 1.5, values[::2].size)
    special = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        np.inf,
        -np.inf,
        np.nan,
        0.5,
        -0.5,
        2.5,
        1e-3,
        -1e-3,
        6.0,
        100.0,
        -100.0,
    ]
    values[: len(special)] = special
    return values.astype(numpy_dtype)


# Functions with float32 kernels in TensorFlow that are much coarser than ours. Ours must agree with
# its float64 answer, rounded.
SERIES = frozenset(
    {"Igamma", "Igammac", "IgammaGradA", "RandomGammaGrad", "Betainc", "Zeta", "Polygamma"}
)
SPECIAL = SERIES | {
    "Erfinv", "Ndtri", "Lgamma", "Digamma", "Dawsn", "Expint", "FresnelCos", "FresnelSin", "Spence", "BesselI0", "BesselI0e", "BesselI1",
    "BesselI1e", "BesselJ0", "BesselJ1", "BesselK0", "BesselK0e", "BesselK1", "BesselK1e", "BesselY0", "BesselY1", "Erfc",
}  # fmt: skip
# TensorFlow's Round of integers returns zeros, and its float64 Erf of an infinity NaN: both
# contradict its own documentation.
TENSORFLOW_ERRS = {("Round", "int32"), ("Round", "int64")}


def inputs_for(row: Elementwise, dtype: DType) -> tuple[Any, ...]:
    """Arguments for which the row does not fail."""
    rng = np.random.default_rng([ord(c) for c in row.op] + [dtype.as_datatype_enum])
    signature = row.signature if row.arity >= 0 else ("T", "T", "T")
    arrays = []
    for entry in signature:
        values = random_values(d.bool if entry == "bool" else dtype, rng)
        if len(signature) > 1 and dtype.is_floating:
            rng.shuffle(values)  # so that special values meet ordinary ones
        arrays.append(values)
    if len(signature) == 2 and dtype.is_floating:
        # the last part of both is every pair of these
        grid = np.array(
            [0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 3.0, 40.0, np.inf, -np.inf, np.nan]
        ).astype(arrays[0].dtype)
        first, second = np.meshgrid(grid, grid)
        arrays[0][-(grid.size**2) :], arrays[1][-(grid.size**2) :] = first.ravel(), second.ravel()
    if row.op == "Erf" and dtype is d.float64:
        arrays[0][np.isinf(arrays[0])] = 3.0
    if row.op == "Pow" and dtype.is_integer:
        arrays[1] = rng.integers(0, 12, SIZE).astype(arrays[1].dtype)
    elif row.error is not None and dtype.is_integer:
        arrays[1][arrays[1] == 0] = 3
    if row.op in SERIES:
        # not where TensorFlow itself loses digits
        arrays = [np.where(np.abs(x) > 40.0, x.dtype.type(7.0), x) for x in arrays]
        # a few outside the domain
        arrays = [np.where(np.arange(SIZE) % 16 == 0, x, np.abs(x)) for x in arrays]
    if row.op == "Polygamma":
        arrays[0] = np.where(
            np.isfinite(arrays[0]), np.minimum(np.rint(np.abs(arrays[0])), 8), 2
        ).astype(arrays[0].dtype)
        arrays[1] = np.where(np.isinf(arrays[1]), 1.5, np.abs(arrays[1])).astype(arrays[1].dtype)
    if row.op == "Zeta":
        arrays[0] = np.where(np.arange(SIZE) % 4 == 0, arrays[0], 1 + np.abs(arrays[0]))
    if row.op == "Betainc":
        x = np.abs(arrays[2])
        arrays[2] = np.where(np.arange(SIZE) % 16 == 0, arrays[2], x / (1 + x))
    return tuple(arrays)


def tensorflow_answer(row: Elementwise, inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """Return the result of TensorFlow's kernel."""
    import tensorflow as tf
    from tensorflow.python.framework import op_def_registry

    op_def = op_def_registry.get(row.op)
    dtype = inputs[0].dtype
    if row.op in SPECIAL and dtype != np.float64:
        with np.errstate(over="ignore"):
            return tensorflow_answer(
                row, tuple(x.astype(np.float64) for x in inputs), attrs
            ).astype(dtype)
    tensors = [tf.constant(x) for x in inputs]
    if row.arity < 0:
        arguments: dict[str, Any] = {op_def.input_arg[0].name: tensors}
    else:
        # its Python names differ
        names = (
            ["condition", "x", "y"] if row.op == "Select" else [a.name for a in op_def.input_arg]
        )
        arguments = dict(zip(names, tensors))
    for name, value in attrs.items():
        arguments[name] = tf.dtypes.as_dtype(value.name) if isinstance(value, DType) else value
    return getattr(tf.raw_ops, row.op)(**arguments).numpy()


def _wide(x: Any) -> Any:
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def _spacing(size: Any, dtype: np.dtype) -> Any:
    import ml_dtypes

    info = ml_dtypes.finfo(dtype if dtype.kind != "c" else np.dtype(f"f{dtype.itemsize // 2}"))
    tiny = float(info.smallest_normal)
    _, exponent = np.frexp(np.maximum(size, tiny))
    return np.ldexp(float(info.eps), exponent - 1), tiny, float(info.eps)


def mismatches(row: Elementwise, found: Any, expected: Any) -> Any:
    """Return the indices where `found` differs from `expected`.

    The row's tolerance applies. Zeros of either sign and subnormals are equal.
    """
    assert found.dtype == expected.dtype, (row.op, found.dtype, expected.dtype)
    assert found.shape == expected.shape, (row.op, found.shape, expected.shape)
    if expected.dtype.kind in "iub":
        return np.nonzero(found != expected)[0]
    x, y = _wide(found), _wide(expected)
    with np.errstate(all="ignore"):
        same = (x == y) | (np.isnan(x) & np.isnan(y))
        ulps, cancelled = ULPS.get(row.op, (0.0, 0.0))
        if expected.dtype.kind == "c":
            ulps, cancelled = (0.0, 0.0) if row.op in COMPLEX_EXACT else COMPLEX_ULPS
        size = np.maximum(np.abs(x), np.abs(y))
        unit, tiny, epsilon = _spacing(np.where(np.isfinite(size), size, 1.0), expected.dtype)
        near = np.abs(x - y) <= ulps * unit + cancelled * epsilon
    return np.nonzero(~(same | near | (size < tiny)))[0]


def describe(
    row: Elementwise, dtype: DType, inputs: tuple[Any, ...], found: Any, expected: Any, bad: Any
) -> str:
    """The first wrong elements, for an assertion."""
    lines = [f"{row.op} {dtype.name}: {len(bad)} of {len(found)} differ"]
    lines += [
        f"  {tuple(x[i] for x in inputs)} -> {found[i]!r}, TensorFlow {expected[i]!r}"
        for i in bad[:6]
    ]
    return "\n".join(lines)
