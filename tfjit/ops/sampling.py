"""Candidate samplers and sampled crops."""

from __future__ import annotations

from tfjit.framework.shape_context import ShapeContext
from tfjit.ops.declare import register_op
from tfjit.ops.shape_rules import Shapes


def _candidates(c: ShapeContext) -> Shapes:
    count = int(c.attr("num_sampled"))
    rows = c.with_rank(0, 2)[0]
    return [(count,), (rows, int(c.attr("num_true"))), (count,)]


register_op(
    "AllCandidateSampler",
    inputs=("true_classes: int64",),
    outputs=("sampled_candidates: int64", "true_expected_count: float", "sampled_expected_count: float"),
    attrs=("num_true: int >= 1", "num_sampled: int >= 1", "unique: bool", "seed: int = 0", "seed2: int = 0"),
    stateful=True,
    shape=_candidates,
)
register_op(
    "FixedUnigramCandidateSampler",
    inputs=("true_classes: int64",),
    outputs=("sampled_candidates: int64", "true_expected_count: float", "sampled_expected_count: float"),
    attrs=(
        "num_true: int >= 1",
        "num_sampled: int >= 1",
        "unique: bool",
        "range_max: int >= 1",
        "vocab_file: string = ''",
        "distortion: float = 1.0",
        "num_reserved_ids: int = 0",
        "num_shards: int >= 1 = 1",
        "shard: int >= 0 = 0",
        "unigrams: list(float) = []",
        "seed: int = 0",
        "seed2: int = 0",
    ),
    stateful=True,
    shape=_candidates,
)
register_op(
    "LearnedUnigramCandidateSampler",
    inputs=("true_classes: int64",),
    outputs=("sampled_candidates: int64", "true_expected_count: float", "sampled_expected_count: float"),
    attrs=("num_true: int >= 1", "num_sampled: int >= 1", "unique: bool", "range_max: int >= 1", "seed: int = 0", "seed2: int = 0"),
    stateful=True,
    shape=_candidates,
)
register_op(
    "LogUniformCandidateSampler",
    inputs=("true_classes: int64",),
    outputs=("sampled_candidates: int64", "true_expected_count: float", "sampled_expected_count: float"),
    attrs=("num_true: int >= 1", "num_sampled: int >= 1", "unique: bool", "range_max: int >= 1", "seed: int = 0", "seed2: int = 0"),
    stateful=True,
    shape=_candidates,
)
register_op(
    "RandomCrop",
    inputs=("image: T", "size: int64"),
    outputs=("output: T",),
    attrs=("T: {uint8, int8, int16, int32, int64, float, double}", "seed: int = 0", "seed2: int = 0"),
    stateful=True,
    deprecated=(8, "Random crop is now pure Python"),
)
register_op(
    "SampleDistortedBoundingBox",
    inputs=("image_size: T", "bounding_boxes: float"),
    outputs=("begin: T", "size: T", "bboxes: float"),
    attrs=(
        "T: {uint8, int8, int16, int32, int64}",
        "seed: int = 0",
        "seed2: int = 0",
        "min_object_covered: float = 0.1",
        "aspect_ratio_range: list(float) = [0.75, 1.33]",
        "area_range: list(float) = [0.05, 1.0]",
        "max_attempts: int = 100",
        "use_image_if_no_bounding_boxes: bool = false",
    ),
    stateful=True,
)
register_op(
    "SampleDistortedBoundingBoxV2",
    inputs=("image_size: T", "bounding_boxes: float", "min_object_covered: float"),
    outputs=("begin: T", "size: T", "bboxes: float"),
    attrs=(
        "T: {uint8, int8, int16, int32, int64}",
        "seed: int = 0",
        "seed2: int = 0",
        "aspect_ratio_range: list(float) = [0.75, 1.33]",
        "area_range: list(float) = [0.05, 1.0]",
        "max_attempts: int = 100",
        "use_image_if_no_bounding_boxes: bool = false",
    ),
    stateful=True,
)
register_op(
    "SobolSample",
    inputs=("dim: int32", "num_results: int32", "skip: int32"),
    outputs=("samples: dtype",),
    attrs=("dtype: {float, double} = DT_FLOAT",),
)
register_op(
    "ThreadUnsafeUnigramCandidateSampler",
    inputs=("true_classes: int64",),
    outputs=("sampled_candidates: int64", "true_expected_count: float", "sampled_expected_count: float"),
    attrs=("num_true: int >= 1", "num_sampled: int >= 1", "unique: bool", "range_max: int >= 1", "seed: int = 0", "seed2: int = 0"),
    stateful=True,
    shape=_candidates,
)
register_op(
    "UniformCandidateSampler",
    inputs=("true_classes: int64",),
    outputs=("sampled_candidates: int64", "true_expected_count: float", "sampled_expected_count: float"),
    attrs=("num_true: int >= 1", "num_sampled: int >= 1", "unique: bool", "range_max: int >= 1", "seed: int = 0", "seed2: int = 0"),
    stateful=True,
    shape=_candidates,
)
