"""Moving elements about: concat, split, transpose, pad, tile, reverse, space and batch."""

from __future__ import annotations

from tfjit.ops.declare import register_op
from tfjit.ops.type_lists import INDEX

register_op(
    "BatchToSpace",
    inputs=("input: T", "crops: Tidx"),
    outputs=("output: T",),
    attrs=("T: type", "block_size: int >= 2", f"Tidx: {INDEX} = DT_INT32"),
)
register_op(
    "BatchToSpaceND",
    inputs=("input: T", "block_shape: Tblock_shape", "crops: Tcrops"),
    outputs=("output: T",),
    attrs=("T: type", f"Tblock_shape: {INDEX} = DT_INT32", f"Tcrops: {INDEX} = DT_INT32"),
)
register_op("Concat", inputs=("concat_dim: int32", "values: N * T"), outputs=("output: T",), attrs=("N: int >= 2", "T: type"))
register_op(
    "ConcatV2",
    inputs=("values: N * T", "axis: Tidx"),
    outputs=("output: T",),
    attrs=("N: int >= 2", "T: type", f"Tidx: {INDEX} = DT_INT32"),
)
register_op("ConjugateTranspose", inputs=("x: T", "perm: Tperm"), outputs=("y: T",), attrs=("T: type", f"Tperm: {INDEX} = DT_INT32"))
register_op(
    "DepthToSpace",
    inputs=("input: T",),
    outputs=("output: T",),
    attrs=("T: type", "block_size: int >= 2", "data_format: {'NHWC', 'NCHW', 'NCHW_VECT_C'} = 'NHWC'"),
)
register_op(
    "MirrorPad",
    inputs=("input: T", "paddings: Tpaddings"),
    outputs=("output: T",),
    attrs=("T: type", f"Tpaddings: {INDEX} = DT_INT32", "mode: {'REFLECT', 'SYMMETRIC'}"),
)
register_op(
    "MirrorPadGrad",
    inputs=("input: T", "paddings: Tpaddings"),
    outputs=("output: T",),
    attrs=("T: type", f"Tpaddings: {INDEX} = DT_INT32", "mode: {'REFLECT', 'SYMMETRIC'}"),
)
register_op("Pack", inputs=("values: N * T",), outputs=("output: T",), attrs=("N: int >= 1", "T: type", "axis: int = 0"))
register_op("Pad", inputs=("input: T", "paddings: Tpaddings"), outputs=("output: T",), attrs=("T: type", f"Tpaddings: {INDEX} = DT_INT32"))
register_op(
    "PadV2",
    inputs=("input: T", "paddings: Tpaddings", "constant_values: T"),
    outputs=("output: T",),
    attrs=("T: type", f"Tpaddings: {INDEX} = DT_INT32"),
)
register_op("ParallelConcat", inputs=("values: N * T",), outputs=("output: T",), attrs=("N: int >= 1", "T: type", "shape: shape"))
register_op(
    "Reverse",
    inputs=("tensor: T", "dims: bool"),
    outputs=("output: T",),
    attrs=(
        (
            "T: {uint8, int8, uint16, int16, uint32, int32, uint64, int64, bool, bfloat16, half, float, double, complex64, "
            "complex128, string}"
        ),
    ),
)
register_op(
    "ReverseSequence",
    inputs=("input: T", "seq_lengths: Tlen"),
    outputs=("output: T",),
    attrs=("seq_dim: int", "batch_dim: int = 0", "T: type", f"Tlen: {INDEX} = DT_INT64"),
)
register_op(
    "ReverseV2",
    inputs=("tensor: T", "axis: Tidx"),
    outputs=("output: T",),
    attrs=(
        f"Tidx: {INDEX} = DT_INT32",
        (
            "T: {uint8, int8, uint16, int16, int32, uint32, int64, uint64, bool, bfloat16, half, float, double, complex64, "
            "complex128, string}"
        ),
    ),
)
register_op(
    "Roll",
    inputs=("input: T", "shift: Tshift", "axis: Taxis"),
    outputs=("output: T",),
    attrs=("T: type", f"Tshift: {INDEX}", f"Taxis: {INDEX}"),
)
register_op(
    "SpaceToBatch",
    inputs=("input: T", "paddings: Tpaddings"),
    outputs=("output: T",),
    attrs=("T: type", f"Tpaddings: {INDEX} = DT_INT32", "block_size: int >= 2"),
)
register_op(
    "SpaceToBatchND",
    inputs=("input: T", "block_shape: Tblock_shape", "paddings: Tpaddings"),
    outputs=("output: T",),
    attrs=("T: type", f"Tblock_shape: {INDEX} = DT_INT32", f"Tpaddings: {INDEX} = DT_INT32"),
)
register_op(
    "SpaceToDepth",
    inputs=("input: T",),
    outputs=("output: T",),
    attrs=("T: type", "block_size: int >= 2", "data_format: {'NHWC', 'NCHW', 'NCHW_VECT_C'} = 'NHWC'"),
)
register_op("Split", inputs=("split_dim: int32", "value: T"), outputs=("output: num_split * T",), attrs=("num_split: int >= 1", "T: type"))
register_op(
    "SplitV",
    inputs=("value: T", "size_splits: Tlen", "split_dim: int32"),
    outputs=("output: num_split * T",),
    attrs=("num_split: int >= 1", "T: type", "Tlen: {int8, int32, int64} = DT_INT64"),
)
register_op(
    "Tile", inputs=("input: T", "multiples: Tmultiples"), outputs=("output: T",), attrs=("T: type", f"Tmultiples: {INDEX} = DT_INT32")
)
register_op(
    "TileGrad",
    inputs=("input: T", "multiples: int32"),
    outputs=("output: T",),
    attrs=("T: type",),
    deprecated=(3, "TileGrad has been replaced with reduce_sum"),
)
register_op("Transpose", inputs=("x: T", "perm: Tperm"), outputs=("y: T",), attrs=("T: type", f"Tperm: {INDEX} = DT_INT32"))
register_op("Unpack", inputs=("value: T",), outputs=("output: num * T",), attrs=("num: int >= 0", "T: type", "axis: int = 0"))
