"""Declare sparse and ragged ops.

In: tensors. Out: tensors, OpDefs. Not in here: kernels.
"""
