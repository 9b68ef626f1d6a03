"""Declare summaries."""

from __future__ import annotations

from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import scalar

register_op(
    "AudioSummary",
    inputs=("tag: string", "tensor: float"),
    outputs=("summary: string",),
    attrs=("sample_rate: float", "max_outputs: int >= 1 = 3"),
    deprecated=(15, "Use AudioSummaryV2."),
    shape=scalar,
)
register_op(
    "AudioSummaryV2",
    inputs=("tag: string", "tensor: float", "sample_rate: float"),
    outputs=("summary: string",),
    attrs=("max_outputs: int >= 1 = 3",),
    shape=scalar,
)
for _op_type in (
    "CloseSummaryWriter",
    "FlushSummaryWriter",
):
    register_op(
        _op_type,
        inputs=("writer: resource",),
        stateful=True,
    )
register_op(
    "CreateSummaryFileWriter",
    inputs=(
        "writer: resource",
        "logdir: string",
        "max_queue: int32",
        "flush_millis: int32",
        "filename_suffix: string",
    ),
    stateful=True,
)
register_op(
    "HistogramSummary",
    inputs=("tag: string", "values: T"),
    outputs=("summary: string",),
    attrs=("T: realnumbertype = DT_FLOAT",),
    shape=scalar,
)
register_op(
    "ImageSummary",
    inputs=("tag: string", "tensor: T"),
    outputs=("summary: string",),
    attrs=(
        "max_images: int >= 1 = 3",
        "T: {uint8, float, half, double} = DT_FLOAT",
        "bad_color: tensor = uint8[255, 0, 0, 255]",
    ),
    shape=scalar,
)
register_op(
    "MergeSummary",
    inputs=("inputs: N * string",),
    outputs=("summary: string",),
    attrs=("N: int >= 1",),
    shape=scalar,
)
register_op(
    "ScalarSummary",
    inputs=("tags: string", "values: T"),
    outputs=("summary: string",),
    attrs=("T: realnumbertype",),
    shape=scalar,
)
register_op(
    "SummaryWriter",
    outputs=("writer: resource",),
    attrs=("shared_name: string = ''", "container: string = ''"),
    stateful=True,
)
register_op(
    "TensorSummary",
    inputs=("tensor: T",),
    outputs=("summary: string",),
    attrs=(
        "T: type",
        "description: string = ''",
        "labels: list(string) = []",
        "display_name: string = ''",
    ),
    shape=scalar,
)
register_op(
    "TensorSummaryV2",
    inputs=("tag: string", "tensor: T", "serialized_summary_metadata: string"),
    outputs=("summary: string",),
    attrs=("T: type",),
    shape=scalar,
)
register_op(
    "WriteAudioSummary",
    inputs=(
        "writer: resource",
        "step: int64",
        "tag: string",
        "tensor: float",
        "sample_rate: float",
    ),
    attrs=("max_outputs: int >= 1 = 3",),
    stateful=True,
)
for _op_type in (
    "WriteGraphSummary",
    "WriteRawProtoSummary",
):
    register_op(
        _op_type,
        inputs=("writer: resource", "step: int64", "tensor: string"),
        stateful=True,
    )
register_op(
    "WriteHistogramSummary",
    inputs=("writer: resource", "step: int64", "tag: string", "values: T"),
    attrs=("T: {realnumbertype, bool} = DT_FLOAT",),
    stateful=True,
)
register_op(
    "WriteImageSummary",
    inputs=("writer: resource", "step: int64", "tag: string", "tensor: T", "bad_color: uint8"),
    attrs=("max_images: int >= 1 = 3", "T: {uint8, double, float, half} = DT_FLOAT"),
    stateful=True,
)
register_op(
    "WriteScalarSummary",
    inputs=("writer: resource", "step: int64", "tag: string", "value: T"),
    attrs=("T: realnumbertype",),
    stateful=True,
)
register_op(
    "WriteSummary",
    inputs=(
        "writer: resource",
        "step: int64",
        "tensor: T",
        "tag: string",
        "summary_metadata: string",
    ),
    attrs=("T: type",),
    stateful=True,
)
