"""Stateful random ops (Philox streams)."""

from __future__ import annotations

from tfjit.ops.declare import register_op
from tfjit.ops.type_lists import HALF_TO_DOUBLE, INDEX

register_op(
    "Multinomial",
    inputs=("logits: T", "num_samples: int32"),
    outputs=("output: output_dtype",),
    attrs=("seed: int = 0", "seed2: int = 0", "T: realnumbertype", f"output_dtype: {INDEX} = DT_INT64"),
    stateful=True,
)
register_op(
    "ParameterizedTruncatedNormal",
    inputs=("shape: T", "means: dtype", "stdevs: dtype", "minvals: dtype", "maxvals: dtype"),
    outputs=("output: dtype",),
    attrs=("seed: int = 0", "seed2: int = 0", f"dtype: {HALF_TO_DOUBLE}", f"T: {INDEX}"),
    stateful=True,
)
register_op(
    "RandomGamma",
    inputs=("shape: S", "alpha: T"),
    outputs=("output: T",),
    attrs=("seed: int = 0", "seed2: int = 0", f"S: {INDEX}", "T: {half, float, double}"),
    stateful=True,
)
register_op(
    "RandomPoisson",
    inputs=("shape: S", "rate: dtype"),
    outputs=("output: dtype",),
    attrs=("seed: int = 0", "seed2: int = 0", f"S: {INDEX}", "dtype: {half, float, double}"),
    stateful=True,
    deprecated=(25, "Replaced by RandomPoissonV2"),
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
)
register_op(
    "RandomShuffle", inputs=("value: T",), outputs=("output: T",), attrs=("seed: int = 0", "seed2: int = 0", "T: type"), stateful=True
)
register_op(
    "RandomStandardNormal",
    inputs=("shape: T",),
    outputs=("output: dtype",),
    attrs=("seed: int = 0", "seed2: int = 0", f"dtype: {HALF_TO_DOUBLE}", f"T: {INDEX}"),
    stateful=True,
)
register_op(
    "RandomUniform",
    inputs=("shape: T",),
    outputs=("output: dtype",),
    attrs=("seed: int = 0", "seed2: int = 0", f"dtype: {HALF_TO_DOUBLE}", f"T: {INDEX}"),
    stateful=True,
)
register_op(
    "RandomUniformInt",
    inputs=("shape: T", "minval: Tout", "maxval: Tout"),
    outputs=("output: Tout",),
    attrs=("seed: int = 0", "seed2: int = 0", f"Tout: {INDEX}", f"T: {INDEX}"),
    stateful=True,
)
register_op(
    "TruncatedNormal",
    inputs=("shape: T",),
    outputs=("output: dtype",),
    attrs=("seed: int = 0", "seed2: int = 0", f"dtype: {HALF_TO_DOUBLE}", f"T: {INDEX}"),
    stateful=True,
)
