"""Declare array ops: indexing, slicing, movement, scatter, space.

In: tensors. Out: tensors, OpDefs. Not in here: kernels.
"""
