"""Stateful random ops (Philox streams)."""

from __future__ import annotations

from tfjit.framework.shape_context import ShapeContext
from tfjit.ops.declare import register_op
from tfjit.ops.shape_rules import Shapes, from_shape_input, int_constant, unchanged
from tfjit.ops.type_lists import HALF_TO_DOUBLE, INDEX


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
    attrs=("seed: int = 0", "seed2: int = 0", "T: realnumbertype", f"output_dtype: {INDEX} = DT_INT64"),
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
register_op(
    "RandomStandardNormal",
    inputs=("shape: T",),
    outputs=("output: dtype",),
    attrs=("seed: int = 0", "seed2: int = 0", f"dtype: {HALF_TO_DOUBLE}", f"T: {INDEX}"),
    stateful=True,
    shape=from_shape_input(),
)
register_op(
    "RandomUniform",
    inputs=("shape: T",),
    outputs=("output: dtype",),
    attrs=("seed: int = 0", "seed2: int = 0", f"dtype: {HALF_TO_DOUBLE}", f"T: {INDEX}"),
    stateful=True,
    shape=from_shape_input(),
)
register_op(
    "RandomUniformInt",
    inputs=("shape: T", "minval: Tout", "maxval: Tout"),
    outputs=("output: Tout",),
    attrs=("seed: int = 0", "seed2: int = 0", f"Tout: {INDEX}", f"T: {INDEX}"),
    stateful=True,
    shape=_uniform_int,
)
register_op(
    "TruncatedNormal",
    inputs=("shape: T",),
    outputs=("output: dtype",),
    attrs=("seed: int = 0", "seed2: int = 0", f"dtype: {HALF_TO_DOUBLE}", f"T: {INDEX}"),
    stateful=True,
    shape=from_shape_input(),
)
