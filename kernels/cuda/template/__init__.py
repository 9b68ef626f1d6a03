"""Provide the parts of CUDA templates: intrinsics, math, launches, the registry of builders.

In: dtypes, sizes, lines. Out: kernel texts with argument words, grids. Not in here: builders of
single ops.
"""
