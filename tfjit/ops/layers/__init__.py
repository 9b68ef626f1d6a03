"""Declare layers: convolution, pooling, normalization, losses, recurrent cells.

In: tensors. Out: tensors, OpDefs. Not in here: kernels, variables.
"""
