"""Declare arithmetic: elementwise functions, reductions, products, segments, spectra.

In: tensors. Out: tensors, OpDefs. Not in here: kernels.
"""
