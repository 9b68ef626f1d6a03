"""Declare random ops: stateful, stateless, candidate samplers.

In: tensors, seeds. Out: tensors, OpDefs. Not in here: kernels.
"""
