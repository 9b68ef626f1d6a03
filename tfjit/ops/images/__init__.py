"""Declare image ops and their shape rules.

In: tensors. Out: tensors, OpDefs. Not in here: kernels.
"""
