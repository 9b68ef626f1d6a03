"""Compute sparse and ragged ops in NumPy.

The families of `tfjit/ops/sparse/`.

In: a NodeSpec and the input arrays. Out: the output arrays. Not in here: decoders of sequences,
which are layers.
"""
