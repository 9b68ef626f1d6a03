"""List the host-memory inputs and outputs of TensorFlow's CPU kernels.

They decide between `_Send` and `_HostSend` for a value that crosses devices.
"""

from __future__ import annotations

from typing import Final

from tfjit.framework.op_defs.node_types import arg_ranges
from tfjit.passes.ir.dataflow_graph import Node

# op type -> args. Source: the kernels that TensorFlow 2.21 registers for its CPU, where they differ
# from device memory.
_ARGS: Final[dict[str, str]] = {
    "All": "reduction_indices",
    "Any": "reduction_indices",
    "ArgMax": "dimension",
    "ArgMin": "dimension",
    "AvgPool3DGrad": "orig_input_shape",
    "AvgPoolGrad": "orig_input_shape",
    "BatchToSpace": "crops",
    "BatchToSpaceND": "block_shape crops",
    "BroadcastArgs": "s0 s1 r0",
    "BroadcastGradientArgs": "s0 s1 r0 r1",
    "Concat": "concat_dim",
    "ConcatV2": "axis",
    "ConjugateTranspose": "perm",
    "CropAndResize": "crop_size",
    "CropAndResizeGradImage": "image_size",
    "CumulativeLogsumexp": "axis",
    "DynamicStitch": "indices",
    "Empty": "shape",
    "ExpandDims": "dim",
    "Fill": "dims",
    "GatherV2": "axis",
    "InTopK": "predictions targets precision",
    "InTopKV2": "predictions targets k precision",
    "LinSpace": "start stop num output",
    "MaxPoolGradGradV2": "ksize strides",
    "MaxPoolGradV2": "ksize strides",
    "MirrorPad": "paddings",
    "MirrorPadGrad": "paddings",
    "NonDeterministicInts": "shape",
    "OneHot": "depth",
    "Pad": "paddings",
    "PadV2": "paddings constant_values",
    "ParallelDynamicStitch": "indices",
    "QuantizedConcat": "concat_dim",
    "QuantizedConcatV2": "axis",
    "QuantizedReshape": "shape",
    "QuantizedResizeBilinear": "size",
    "RandomStandardNormal": "shape",
    "RandomUniform": "shape",
    "RandomUniformInt": "shape minval maxval",
    "Range": "start limit delta",
    "Rank": "output",
    "RefSelect": "index",
    "RefSwitch": "pred",
    "RemoteCall": "target",
    "Reshape": "shape",
    "ResizeArea": "size",
    "ResizeBicubic": "size",
    "ResizeBilinear": "size",
    "ResizeNearestNeighbor": "size",
    "ResizeNearestNeighborGrad": "size",
    "ResourceStridedSliceAssign": "begin end strides",
    "Reverse": "dims",
    "ReverseV2": "axis",
    "RngReadAndSkip": "alg delta",
    "RngSkip": "algorithm delta",
    "Roll": "shift axis",
    "ScaleAndTranslate": "size scale translation",
    "ScaleAndTranslateGrad": "scale translation",
    "ScatterNd": "shape",
    "Shape": "output",
    "ShapeN": "output",
    "Size": "output",
    "Slice": "begin size",
    "SpaceToBatch": "paddings",
    "SpaceToBatchND": "block_shape paddings",
    "SparseFillEmptyRows": "dense_shape",
    "SparseTensorDenseMatMul": "a_shape",
    "Split": "split_dim",
    "SplitV": "size_splits split_dim",
    "StatefulRandomBinomial": "algorithm shape counts probs",
    "StatefulStandardNormal": "shape",
    "StatefulStandardNormalV2": "algorithm shape",
    "StatefulTruncatedNormal": "algorithm shape",
    "StatefulUniform": "algorithm shape",
    "StatefulUniformFullInt": "algorithm shape",
    "StatefulUniformInt": "algorithm shape minval maxval",
    "StatelessParameterizedTruncatedNormal": "shape seed means stddevs minvals maxvals",
    "StatelessRandomBinomial": "shape seed counts probs",
    "StatelessRandomGammaV2": "shape seed",
    "StatelessRandomGammaV3": "shape alg",
    "StatelessRandomGetAlg": "alg",
    "StatelessRandomGetKeyCounter": "seed key counter",
    "StatelessRandomGetKeyCounterAlg": "seed key counter alg",
    "StatelessRandomNormal": "shape seed",
    "StatelessRandomNormalV2": "shape alg",
    "StatelessRandomPoisson": "shape seed lam",
    "StatelessRandomUniform": "shape seed",
    "StatelessRandomUniformFullInt": "shape seed",
    "StatelessRandomUniformFullIntV2": "shape alg",
    "StatelessRandomUniformInt": "shape seed minval maxval",
    "StatelessRandomUniformIntV2": "shape alg minval maxval",
    "StatelessRandomUniformV2": "shape alg",
    "StatelessTruncatedNormal": "shape seed",
    "StatelessTruncatedNormalV2": "shape alg",
    "StridedSlice": "begin end strides",
    "StridedSliceAssign": "begin end strides",
    "StridedSliceGrad": "shape begin end strides",
    "Switch": "pred",
    "TensorArrayConcat": "lengths handle",
    "TensorArrayConcatV2": "lengths handle",
    "TensorArrayConcatV3": "lengths handle",
    "TensorStridedSliceUpdate": "begin end strides",
    "Tile": "multiples",
    "TileGrad": "multiples",
    "Transpose": "perm",
    "TruncatedNormal": "shape",
}
_ALWAYS_ON_HOST: Final = frozenset({"string", "resource"})


def input_on_host(node: Node, index: int) -> bool:
    """Return whether TensorFlow's CPU kernel reads this input from host memory."""
    return node.input_dtypes[index].base_dtype.name in _ALWAYS_ON_HOST or _listed(
        node, index, inputs=True
    )


def output_on_host(node: Node, output: int) -> bool:
    """Return whether TensorFlow's CPU kernel leaves this output in host memory."""
    return node.output_dtypes[output].base_dtype.name in _ALWAYS_ON_HOST or _listed(
        node, output, inputs=False
    )


def _listed(node: Node, index: int, inputs: bool) -> bool:
    names = _ARGS.get(node.op)
    if names is None or node.op_def is None:
        return False
    ranges = arg_ranges(node.op_def.inputs if inputs else node.op_def.outputs, node.attrs)
    wanted = names.split()
    return any(name in wanted and first <= index < last for name, (first, last) in ranges.items())
