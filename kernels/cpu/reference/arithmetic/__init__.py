"""Compute arithmetic in NumPy: elementwise functions, reductions, products, segments, spectra.

The families of `tfjit/ops/arithmetic/`.

In: a NodeSpec and the input arrays. Out: the output arrays. Not in here: sparse arithmetic, which
stands in `sparse`.
"""
