"""List op types without gradient, by family."""

from __future__ import annotations

from typing import Final

from tfjit.framework.op_defs.gradient_registry import NotDifferentiable

OPS: Final = {
    "arithmetic.elementwise": (
        "ApproximateEqual BitwiseAnd BitwiseOr BitwiseXor Ceil Equal Floor FloorDiv Greater "
        "GreaterEqual Invert IsFinite IsInf IsNan LeftShift Less LessEqual LogicalAnd LogicalNot "
        "LogicalOr Mod NotEqual PopulationCount RightShift Rint Round TruncateDiv TruncateMod"
    ),
    "arithmetic.reduction": ("All Any ArgMax ArgMin ReduceJoin"),
    "arithmetic.segment": ("Bincount HistogramFixedWidth"),
    "arrays.array": (
        "Bitcast BroadcastArgs BroadcastGradientArgs ConcatOffset Const FakeParam "
        "InvertPermutation LinSpace OnesLike Placeholder PlaceholderV2 Range Rank Shape ShapeN "
        "Size StopGradient ZerosLike"
    ),
    "arrays.indexing": (
        "Bucketize ListDiff LowerBound OneHot Unique UniqueWithCounts UnravelIndex UpperBound Where"
    ),
    "arrays.scatter": (
        "ScatterAdd ScatterDiv ScatterMul ScatterNdAdd ScatterNdSub ScatterNdUpdate ScatterSub "
        "ScatterUpdate"
    ),
    "arrays.session_handle": (
        "DeleteSessionTensor GetSessionHandle GetSessionHandleV2 GetSessionTensor"
    ),
    "containers.optional": ("OptionalHasValue OptionalNone"),
    "containers.tensor_array": (
        "TensorArray TensorArrayClose TensorArrayCloseV2 TensorArrayCloseV3 TensorArrayGrad "
        "TensorArrayGradV2 TensorArrayGradV3 TensorArrayGradWithShape TensorArraySize "
        "TensorArraySizeV2 TensorArraySizeV3 TensorArrayV2 TensorArrayV3"
    ),
    "containers.tensor_list": (
        "EmptyTensorList TensorListConcatLists TensorListElementShape TensorListLength "
        "TensorListPushBackBatch TensorListReserve"
    ),
    "control_flow.control_flow": ("Assert ControlTrigger LoopCond NoOp Timestamp"),
    "control_flow.py_func": ("PyFunc PyFuncStateless"),
    "images.boxes": (
        "DrawBoundingBoxes DrawBoundingBoxesV2 NonMaxSuppression NonMaxSuppressionV2 "
        "NonMaxSuppressionV3 NonMaxSuppressionV4 NonMaxSuppressionV5 NonMaxSuppressionWithOverlaps "
        "GenerateBoundingBoxProposals"
    ),
    "images.color": ("HSVToRGB"),
    "images.crop": ("ExtractGlimpse"),
    "images.distorted_box": ("SampleDistortedBoundingBox SampleDistortedBoundingBoxV2"),
    "images.resize": ("ResizeBilinearGrad"),
    "layers.fake_quant": (
        "FakeQuantWithMinMaxArgsGradient FakeQuantWithMinMaxVarsGradient "
        "FakeQuantWithMinMaxVarsPerChannelGradient"
    ),
    "layers.pooling": ("MaxPoolGradGrad"),
    "layers.quantization": ("QuantizeV2"),
    "layers.quantized_layers": ("QuantizedConcat"),
    "layers.ctc": ("CTCBeamSearchDecoder CTCGreedyDecoder"),
    "layers.sequences": ("EditDistance"),
    "layers.top_k": ("InTopK InTopKV2"),
    "random_values.candidate_sampling": ("RandomCrop"),
    "random_values.stateful_random": (
        "Multinomial ParameterizedTruncatedNormal RandomShuffle RandomStandardNormal RandomUniform "
        "RandomUniformInt TruncatedNormal"
    ),
    "random_values.stateless_random": (
        "RandomIndexShuffle StatelessMultinomial StatelessRandomBinomial StatelessRandomNormal "
        "StatelessRandomNormalV2 StatelessRandomPoisson StatelessRandomUniform "
        "StatelessRandomUniformFullInt StatelessRandomUniformFullIntV2 StatelessRandomUniformInt "
        "StatelessRandomUniformIntV2 StatelessRandomUniformV2 StatelessTruncatedNormal "
        "StatelessTruncatedNormalV2"
    ),
    "records.dataset": ("ReduceDataset"),
    "records.hashing": ("StringToHashBucket StringToHashBucketFast StringToHashBucketStrong"),
    "records.parsing": ("DecodeRaw"),
    "records.reader": (
        "FixedLengthRecordReader IdentityReader ReaderNumRecordsProduced "
        "ReaderNumWorkUnitsCompleted ReaderRead ReaderReadUpTo ReaderReset ReaderRestoreState "
        "ReaderSerializeState TFRecordReader TextLineReader WholeFileReader"
    ),
    "records.messages": ("DecodeProtoV2 EncodeProto"),
    "records.serialized": ("DecodePaddedRaw ParseTensor SerializeTensor"),
    "records.string": ("RegexReplace StringJoin StringSplit"),
    "records.string_conversion": ("AsString DecodeBase64 EncodeBase64 StringToNumber"),
    "records.summary": (
        "AudioSummary AudioSummaryV2 HistogramSummary ImageSummary MergeSummary ScalarSummary "
        "TensorSummary TensorSummaryV2"
    ),
    "sparse.ragged": ("RaggedRange"),
    "sparse.sets": (
        "DenseToDenseSetOperation DenseToSparseSetOperation SetSize SparseToSparseSetOperation"
    ),
    "records.warm_start": ("GenerateVocabRemapping LoadAndRemapMatrix"),
    "sparse.sparse": ("SparseConcat SparseFillEmptyRowsGrad SparseSliceGrad"),
    "sparse.sparse_math": ("SparseAddGrad SparseReduceMaxSparse"),
    "sparse.sparse_matrix": ("SparseMatrixNNZ SparseMatrixZeros"),
    "state.lookup": (
        "HashTable HashTableV2 InitializeTable InitializeTableFromTextFile "
        "InitializeTableFromTextFileV2 InitializeTableV2 LookupTableFind LookupTableFindV2 "
        "LookupTableInsert LookupTableInsertV2 LookupTableSize LookupTableSizeV2 "
        "MutableDenseHashTable MutableDenseHashTableV2 MutableHashTable MutableHashTableOfTensors "
        "MutableHashTableOfTensorsV2 MutableHashTableV2"
    ),
    "state.queue": (
        "QueueClose QueueDequeue QueueDequeueMany QueueDequeueUpTo QueueEnqueue QueueEnqueueMany "
        "QueueSize"
    ),
    "state.stack": ("Stack StackClose StackPop StackPush"),
    "state.variable": (
        "Assign AssignAdd AssignAddVariableOp AssignSub AssignSubVariableOp AssignVariableOp "
        "CountUpTo IsVariableInitialized VarHandleOp VarIsInitializedOp Variable VariableShape "
        "VariableV2"
    ),
}

for _op_types in OPS.values():
    for _op_type in _op_types.split():
        NotDifferentiable(_op_type)
