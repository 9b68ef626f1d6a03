"""Compute array ops in NumPy: indexing, slicing, movement, scatter, space.

The families of `tfjit/ops/arrays/`.

In: a NodeSpec and the input arrays. Out: the output arrays. Not in here: strings, reductions.
"""
