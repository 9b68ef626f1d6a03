"""Build ops that move elements and compute nothing, by the host's builders.

The host's builders find the views; the copies are a GPU's. So a slice, a join or a padding has one
description for both.
"""

from __future__ import annotations

from typing import Final

from tfjit.kernels.cpu.data_movement.strided_copy import copies_by
from tfjit.kernels.cuda.data_movement.strided_copy import copy_launch
from tfjit.kernels.cuda.template.launches import CudaLaunch
from tfjit.kernels.cuda.template.registry import device_native
from tfjit.kernels.registry import NativeCall, NodeSpec, Unsupported, find_native

OPS: Final = (
    *("Transpose", "ConcatV2", "Concat", "Pack", "Unpack", "Split", "SplitV", "Slice"),
    *("StridedSlice", "StridedSliceGrad", "Fill", "ZerosLike", "OnesLike", "BroadcastTo", "Tile"),
    *("ReverseV2", "Reverse", "Pad", "PadV2", "MirrorPad", "SpaceToDepth", "DepthToSpace"),
    *("Identity", "StopGradient", "PreventGradient", "Snapshot", "DeepCopy", "Reshape"),
    *("ExpandDims", "Squeeze", "EnsureShape", "Bitcast", "ParallelConcat", "Roll"),
    *("SpaceToBatchND", "SpaceToBatch", "BatchToSpaceND", "BatchToSpace"),
)


@device_native(*OPS)
def _moved(spec: NodeSpec) -> NativeCall:
    builder = find_native(spec.op)
    if builder is None:
        raise Unsupported(f"no native builder for {spec.op}")
    with copies_by(copy_launch):
        call = builder(spec)
    if any(not isinstance(launch, CudaLaunch) for launch in call.launches):
        raise Unsupported(f"{spec.op} {spec.name} needs a kernel of the host")
    return call
