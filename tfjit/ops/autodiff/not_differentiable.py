"""List op types without gradient, by family."""

from __future__ import annotations

from typing import Final

from tfjit.framework.op_defs.gradient_registry import NotDifferentiable

OPS: Final = {
    "arithmetic.elementwise": (
        "ApproximateEqual BitwiseAnd BitwiseOr BitwiseXor Ceil Equal Floor FloorDiv Greater "
        "GreaterEqual Invert IsFinite IsInf IsNan LeftShift Less LessEqual LogicalAnd "
        "LogicalNot LogicalOr Mod NotEqual RightShift Rint Round TruncateDiv TruncateMod"
    ),
    "arithmetic.reduction": ("All Any ArgMax ArgMin"),
    "arithmetic.segment": ("Bincount HistogramFixedWidth"),
    "arrays.array": (
        "Bitcast BroadcastArgs BroadcastGradientArgs ConcatOffset Const FakeParam "
        "InvertPermutation OnesLike Placeholder PlaceholderV2 Range Rank Shape ShapeN Size "
        "StopGradient ZerosLike"
    ),
    "arrays.indexing": (
        "Bucketize ListDiff LowerBound OneHot Unique UniqueWithCounts UnravelIndex UpperBound Where"
    ),
    "arrays.scatter": (
        "ScatterAdd ScatterDiv ScatterMul ScatterNdAdd ScatterNdSub ScatterNdUpdate ScatterSub "
        "ScatterUpdate"
    ),
    "containers.optional": ("OptionalHasValue OptionalNone"),
    "containers.tensor_array": (
        "TensorArrayCloseV3 TensorArrayGradV3 TensorArrayGradWithShape TensorArraySizeV3 "
        "TensorArrayV3"
    ),
    "containers.tensor_list": (
        "EmptyTensorList TensorListConcatLists TensorListElementShape TensorListLength "
        "TensorListPushBackBatch TensorListReserve"
    ),
    "control_flow.control_flow": ("Assert ControlTrigger LoopCond NoOp"),
    "images.boxes": (
        "DrawBoundingBoxes DrawBoundingBoxesV2 NonMaxSuppression NonMaxSuppressionV2 "
        "NonMaxSuppressionV3 NonMaxSuppressionV4 NonMaxSuppressionV5 "
        "NonMaxSuppressionWithOverlaps"
    ),
    "layers.pooling": ("MaxPoolGradGrad"),
    "layers.quantization": ("QuantizeV2 QuantizedConcat"),
    "layers.sequences": ("EditDistance"),
    "layers.top_k": ("InTopK InTopKV2"),
    "random_values.stateful_random": (
        "Multinomial RandomShuffle RandomStandardNormal RandomUniform RandomUniformInt "
        "TruncatedNormal"
    ),
    "random_values.stateless_random": (
        "StatelessRandomNormal StatelessRandomUniform StatelessRandomUniformInt "
        "StatelessTruncatedNormal"
    ),
    "records.parsing": ("DecodeRaw"),
    "records.string": ("StringSplit"),
    "records.string_conversion": ("AsString StringToNumber"),
    "sparse.sparse": (
        "DenseToDenseSetOperation DenseToSparseSetOperation SetSize SparseFillEmptyRowsGrad "
        "SparseSliceGrad SparseToSparseSetOperation"
    ),
    "sparse.sparse_math": ("SparseAddGrad SparseReduceMaxSparse"),
    "state.variable": (
        "Assign AssignAdd AssignAddVariableOp AssignSub AssignSubVariableOp AssignVariableOp "
        "CountUpTo IsVariableInitialized VarHandleOp VarIsInitializedOp Variable VariableShape "
        "VariableV2"
    ),
}

for _op_types in OPS.values():
    for _op_type in _op_types.split():
        NotDifferentiable(_op_type)
