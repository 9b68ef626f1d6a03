"""Declare stateful random ops (Philox streams)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.graphs.random_seed import get_seed
from tfjit.framework.op_defs.op_traits import CANNOT_FAIL
from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.framework.types import dtypes
from tfjit.framework.types.dtypes import as_dtype
from tfjit.ops.core.apply import tensor
from tfjit.ops.core.convert import convert_to_tensor
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import (
    Shapes,
    from_shape_input,
    int_constant,
    unchanged,
)
from tfjit.ops.core.sizes import shape_of
from tfjit.ops.core.type_lists import HALF_TO_DOUBLE, INDEX

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import DTypeLike, ShapeLike, TensorLike


def _multinomial(c: ShapeContext) -> Shapes:
    logits = c.with_rank(0, 2)
    c.with_rank(1, 0)
    return [(logits[0], int_constant(c, 1))]


def _uniform_int(c: ShapeContext) -> Shapes:
    c.with_rank(1, 0)
    c.with_rank(2, 0)
    return [c.constant_as_shape(0)]


def _parameters(c: ShapeContext) -> Shapes:
    c.with_rank(0, 1)
    return [c.concat(c.constant_as_shape(0), c.inputs[1])]


def _truncated(c: ShapeContext) -> Shapes:
    for i in range(1, 5):
        c.with_rank_at_most(i, 1)
    return [c.constant_as_shape(0)]


register_op(
    "Multinomial",
    inputs=("logits: T", "num_samples: int32"),
    outputs=("output: output_dtype",),
    attrs=(
        "seed: int = 0",
        "seed2: int = 0",
        "T: realnumbertype",
        f"output_dtype: {INDEX} = DT_INT64",
    ),
    stateful=True,
    shape=_multinomial,
)
register_op(
    "ParameterizedTruncatedNormal",
    inputs=("shape: T", "means: dtype", "stdevs: dtype", "minvals: dtype", "maxvals: dtype"),
    outputs=("output: dtype",),
    attrs=("seed: int = 0", "seed2: int = 0", f"dtype: {HALF_TO_DOUBLE}", f"T: {INDEX}"),
    stateful=True,
    shape=_truncated,
)
register_op(
    "RandomGamma",
    inputs=("shape: S", "alpha: T"),
    outputs=("output: T",),
    attrs=("seed: int = 0", "seed2: int = 0", f"S: {INDEX}", "T: {half, float, double}"),
    stateful=True,
    shape=_parameters,
)
register_op(
    "RandomPoisson",
    inputs=("shape: S", "rate: dtype"),
    outputs=("output: dtype",),
    attrs=("seed: int = 0", "seed2: int = 0", f"S: {INDEX}", "dtype: {half, float, double}"),
    stateful=True,
    deprecated=(25, "Replaced by RandomPoissonV2"),
    shape=_parameters,
)
register_op(
    "RandomPoissonV2",
    inputs=("shape: S", "rate: R"),
    outputs=("output: dtype",),
    attrs=(
        "seed: int = 0",
        "seed2: int = 0",
        f"S: {INDEX}",
        "R: {half, float, double, int32, int64} = DT_DOUBLE",
        "dtype: {half, float, double, int32, int64} = DT_INT64",
    ),
    stateful=True,
    shape=_parameters,
)
register_op(
    "RandomShuffle",
    inputs=("value: T",),
    outputs=("output: T",),
    attrs=("seed: int = 0", "seed2: int = 0", "T: type"),
    stateful=True,
    shape=unchanged,
)
for _op_type in ("RandomStandardNormal", "RandomUniform", "TruncatedNormal"):
    register_op(
        _op_type,
        inputs=("shape: T",),
        outputs=("output: dtype",),
        attrs=("seed: int = 0", "seed2: int = 0", f"dtype: {HALF_TO_DOUBLE}", f"T: {INDEX}"),
        stateful=True,
        shape=from_shape_input(),
        traits=CANNOT_FAIL,
    )
register_op(
    "RandomUniformInt",
    inputs=("shape: T", "minval: Tout", "maxval: Tout"),
    outputs=("output: Tout",),
    attrs=("seed: int = 0", "seed2: int = 0", f"Tout: {INDEX}", f"T: {INDEX}"),
    stateful=True,
    shape=_uniform_int,
)


def _shape_tensor(shape: ShapeLike) -> Tensor:
    """Return a shape as an integer vector; an empty list is int32."""
    kind = dtypes.int32 if isinstance(shape, (list, tuple)) and not shape else None
    return convert_to_tensor(shape, dtype=kind, name="shape")


def _seeds(seed: int | None) -> dict[str, int]:
    first, second = get_seed(seed)
    return {"seed": first or 0, "seed2": second or 0}


def random_uniform(
    shape: ShapeLike,
    minval: TensorLike = 0,
    maxval: TensorLike | None = None,
    dtype: DTypeLike = dtypes.float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Sample values of [minval, maxval), floats by default of [0, 1).

    Raises ValueError for integers without maxval, or another dtype.
    """
    kind = as_dtype(dtype)
    if kind not in (
        dtypes.float16,
        dtypes.bfloat16,
        dtypes.float32,
        dtypes.float64,
        dtypes.int32,
        dtypes.int64,
    ):
        raise ValueError(
            f"Argument `dtype` got invalid value {kind}. Accepted dtypes are float16, bfloat16, "
            "float32, float64, int32, int64."
        )
    if maxval is None:
        if kind.is_integer:
            raise ValueError(f"Must specify maxval for integer dtype {kind}")
        maxval = 1
    with name_scope(name, "random_uniform", [shape, minval, maxval]) as scope:
        sizes = _shape_tensor(shape)
        # only integers, as in TensorFlow: 0.0 and 1.0 take the long way
        from_zero = isinstance(minval, int) and minval == 0
        if kind.is_floating and from_zero and isinstance(maxval, int) and maxval == 1:
            return tensor("RandomUniform", None, shape=sizes, dtype=kind, **_seeds(seed))
        low = convert_to_tensor(minval, dtype=kind, name="min")
        high = convert_to_tensor(maxval, dtype=kind, name="max")
        seeds = _seeds(seed)
        if kind.is_integer:
            return tensor("RandomUniformInt", scope, shape=sizes, minval=low, maxval=high, **seeds)
        draw = tensor("RandomUniform", None, shape=sizes, dtype=kind, **seeds)
        if from_zero:
            return tensor("Mul", None, x=draw, y=high)
        span = tensor("Sub", "sub", x=high, y=low)
        return tensor("AddV2", scope, x=tensor("Mul", "mul", x=draw, y=span), y=low)


def _scaled(
    op_type: str,
    default: str,
    shape: ShapeLike,
    mean: TensorLike,
    stddev: TensorLike,
    dtype: DTypeLike,
    seed: int | None,
    name: str | None,
) -> Tensor:
    with name_scope(name, default, [shape, mean, stddev]) as scope:
        sizes = _shape_tensor(shape)
        kind = as_dtype(dtype)
        average = convert_to_tensor(mean, dtype=kind, name="mean")
        deviation = convert_to_tensor(stddev, dtype=kind, name="stddev")
        draw = tensor(op_type, None, shape=sizes, dtype=kind, **_seeds(seed))
        return tensor("AddV2", scope, x=tensor("Mul", "mul", x=draw, y=deviation), y=average)


def random_normal(
    shape: ShapeLike,
    mean: TensorLike = 0.0,
    stddev: TensorLike = 1.0,
    dtype: DTypeLike = dtypes.float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Sample values of a normal distribution."""
    return _scaled("RandomStandardNormal", "random_normal", shape, mean, stddev, dtype, seed, name)


def truncated_normal(
    shape: ShapeLike,
    mean: TensorLike = 0.0,
    stddev: TensorLike = 1.0,
    dtype: DTypeLike = dtypes.float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Sample a normal distribution within two deviations.

    Values farther away are drawn again.
    """
    return _scaled("TruncatedNormal", "truncated_normal", shape, mean, stddev, dtype, seed, name)


def random_shuffle(value: TensorLike, seed: int | None = None, name: str | None = None) -> Tensor:
    """Return the rows of `value` in random order."""
    return tensor("RandomShuffle", name, value=value, **_seeds(seed))


def multinomial(
    logits: TensorLike,
    num_samples: TensorLike,
    seed: int | None = None,
    name: str | None = None,
    output_dtype: DTypeLike | None = None,
) -> Tensor:
    """Draw class numbers [rows, num_samples] by logits [rows, classes]."""
    kind = dtypes.int64 if output_dtype is None else as_dtype(output_dtype)
    with name_scope(name, "multinomial", [logits]):
        return tensor(
            "Multinomial",
            None,
            logits=logits,
            num_samples=num_samples,
            output_dtype=kind,
            **_seeds(seed),
        )


def categorical(
    logits: TensorLike,
    num_samples: TensorLike,
    dtype: DTypeLike | None = None,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Draw as `multinomial`, with TensorFlow 2's order of arguments."""
    return multinomial(logits, num_samples, seed, name, dtype)


def random_gamma(
    shape: ShapeLike,
    alpha: TensorLike,
    beta: TensorLike | None = None,
    dtype: DTypeLike = dtypes.float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Sample gamma distributions: shape + shape of alpha and beta."""
    with name_scope(name, "random_gamma", [shape, alpha, beta]):
        kind = as_dtype(dtype)
        sizes = convert_to_tensor(shape, name="shape", dtype=dtypes.int32)
        form = convert_to_tensor(alpha, name="alpha", dtype=kind)
        rate = convert_to_tensor(1 if beta is None else beta, name="beta", dtype=kind)
        common = tensor("BroadcastArgs", None, s0=shape_of(form), s1=shape_of(rate))
        forms = tensor("BroadcastTo", None, input=form, shape=common)
        draw = tensor("RandomGamma", None, shape=sizes, alpha=forms, **_seeds(seed))
        ratio = tensor("RealDiv", "truediv", x=draw, y=rate)
        # a sample that rounding made 0 would have no logarithm
        tiny = np.finfo(kind.as_numpy_dtype).tiny
        return tensor("Maximum", None, x=tiny, y=ratio)


def random_poisson(
    lam: TensorLike,
    shape: ShapeLike,
    dtype: DTypeLike = dtypes.float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Sample Poisson distributions: shape + shape of lam."""
    with name_scope(name, "random_poisson", [lam, shape]):
        sizes = convert_to_tensor(shape, name="shape", dtype=dtypes.int32)
        return tensor(
            "RandomPoissonV2", None, shape=sizes, rate=lam, dtype=as_dtype(dtype), **_seeds(seed)
        )


register_op(
    "NonDeterministicInts",
    inputs=("shape: shape_dtype",),
    outputs=("output: dtype",),
    attrs=("dtype: type = DT_INT64", "shape_dtype: type = DT_INT64"),
    stateful=True,
)
