"""List op types that a GPU takes while the host computes them.

TensorFlow has GPU kernels for them, so programs place them there without soft placement.
"""

from __future__ import annotations

from typing import Final

# Source: the kernels that TensorFlow 2.21 registers for any device, which its registry lists, and
# those for GPUs, as far as its documentation and device placement show them. A type that is missing
# here (queues, iterators, stages) needs soft placement.
HOST_COMPUTED: Final = frozenset(
    {
        # variables, shapes: values that both sides see
        *("VariableV2", "Variable", "VarHandleOp", "VarIsInitializedOp", "IsVariableInitialized"),
        *("DestroyResourceOp", "VariableShape", "ReadVariableOp", "Const", "NoOp"),
        *("Shape", "ShapeN", "Size", "Rank", "BroadcastArgs", "BroadcastGradientArgs"),
        *("InvertPermutation", "ResourceCountUpTo"),
        # random numbers
        *("Multinomial", "ParameterizedTruncatedNormal", "RandomGamma", "RandomPoissonV2"),
        *("StatelessRandomGetAlg", "StatefulUniform", "StatefulStandardNormalV2"),
        *("StatefulTruncatedNormal", "StatefulUniformInt", "StatefulUniformFullInt"),
        *("NonDeterministicInts", "RngSkip", "RngReadAndSkip", "StatelessMultinomial"),
        # places and choices
        *("Where", "DynamicStitch", "ParallelDynamicStitch", "DynamicPartition"),
        *("Unique", "UniqueV2", "SparseSegmentSumGradV2", "SparseSegmentMeanGradV2"),
        *("SparseSegmentSqrtNGradV2", "Bucketize", "Bincount", "DenseBincount"),
        *("InplaceUpdate", "InplaceAdd", "InplaceSub", "TensorStridedSliceUpdate"),
        *("StridedSliceAssign", "ResourceStridedSliceAssign", "HistogramFixedWidth", "Empty"),
        # matrices
        *("MatrixInverse", "MatrixDeterminant", "Cholesky", "CholeskyGrad", "Lu"),
        *("MatrixSolve", "MatrixTriangularSolve", "Qr", "Svd", "SelfAdjointEigV2", "Einsum"),
        *("LogMatrixDeterminant", "TridiagonalSolve", "TridiagonalMatMul", "Cross"),
        *("FFT", "IFFT", "FFT2D", "IFFT2D", "FFT3D", "IFFT3D"),
        *("RFFT", "IRFFT", "RFFT2D", "IRFFT2D", "RFFT3D", "IRFFT3D"),
        # sums in loops
        *("Igamma", "Igammac", "IgammaGradA", "Zeta", "Polygamma", "Betainc"),
        # layers and images
        *("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3", "FusedBatchNormGrad"),
        *("FusedBatchNormGradV2", "FusedBatchNormGradV3", "Conv3D"),
        *("Conv3DBackpropInputV2", "Conv3DBackpropFilterV2", "MaxPool3D", "AvgPool3D"),
        *("MaxPool3DGrad", "AvgPool3DGrad", "MaxPool3DGradGrad", "MaxPoolGradGradV2"),
        *("LSTMBlockCell", "LSTMBlockCellGrad", "GRUBlockCell", "GRUBlockCellGrad"),
        *("BlockLSTM", "BlockLSTMV2", "BlockLSTMGrad", "BlockLSTMGradV2"),
        *("ExtractImagePatches", "ExtractVolumePatches", "CropAndResizeGradBoxes"),
        *("ImageProjectiveTransformV2", "ImageProjectiveTransformV3"),
        *("NonMaxSuppressionV2", "NonMaxSuppressionV3", "NonMaxSuppressionV4"),
        *("AdjustContrastv2", "AdjustHue"),
        *("AdjustSaturation", "RGBToHSV", "HSVToRGB", "Dilation2D"),
        *("Dilation2DBackpropInput", "Dilation2DBackpropFilter", "MaxPoolGradGrad", "CTCLoss"),
        *("CTCLossV2", "CheckNumerics", "CheckNumericsV2", "QuantizeAndDequantize"),
        *("QuantizeAndDequantizeV2", "QuantizeAndDequantizeV3", "QuantizeAndDequantizeV4"),
        *("QuantizeAndDequantizeV4Grad", "FakeQuantWithMinMaxArgs", "FakeQuantWithMinMaxVars"),
        *("FakeQuantWithMinMaxVarsPerChannel", "FakeQuantWithMinMaxArgsGradient"),
        *("FakeQuantWithMinMaxVarsGradient", "FakeQuantWithMinMaxVarsPerChannelGradient"),
        *("ApplyPowerSign", "ApplyAddSign"),
        *("ResourceApplyPowerSign", "ResourceApplyAddSign", "ResourceApplyAdamWithAmsgrad"),
        # control flow and feeds
        *("Placeholder", "PlaceholderV2", "PlaceholderWithDefault", "FakeParam", "Assert"),
        *("If", "StatelessIf", "Case", "StatelessCase", "While", "StatelessWhile"),
        *("PartitionedCall", "StatefulPartitionedCall", "SymbolicGradient"),
        # lists, arrays and handles of control flow
        *("TensorArrayV3", "TensorArrayReadV3", "TensorArrayWriteV3", "TensorArrayGatherV3"),
        *("TensorArrayScatterV3", "TensorArraySizeV3", "TensorArrayConcatV3", "TensorArraySplitV3"),
        *("TensorArrayGradV3", "TensorArrayCloseV3", "TensorListReserve", "EmptyTensorList"),
        *("TensorListSetItem", "TensorListGetItem", "TensorListPushBack", "TensorListPopBack"),
        *("TensorListStack", "TensorListFromTensor", "TensorListLength", "TensorListElementShape"),
        *("TensorListGather", "TensorListScatter", "TensorListScatterV2", "TensorListConcatV2"),
        *("TensorArrayGradWithShape", "TensorListConcat", "TensorListConcatLists"),
        *("TensorListPushBackBatch", "TensorListResize", "TensorListSplit"),
        *("TensorListScatterIntoExistingList", "Copy", "CopyHost", "ConcatOffset"),
        *("DataFormatDimMap", "DataFormatVecPermute"),
        *("StackV2", "StackPushV2", "StackPopV2", "StackCloseV2", "GetSessionHandle"),
        *("GetSessionHandleV2", "DeleteSessionTensor"),
        *("GetSessionTensor", "TemporaryVariable", "DestroyTemporaryVariable"),
    }
)

__all__ = ["HOST_COMPUTED"]
