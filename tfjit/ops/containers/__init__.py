"""Declare values that hold tensors: arrays, lists, maps, optionals.

In: handles, flows, variants, tensors. Out: OpDefs. Not in here: `TensorArray`, kernels, gradients.
"""
