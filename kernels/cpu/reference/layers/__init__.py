"""Compute layers in NumPy: convolution, pooling, normalization, losses, recurrent cells.

The families of `tfjit/ops/layers/`, and the windows that they share.

In: a NodeSpec and the input arrays. Out: the output arrays. Not in here: activations, which are
rows of the elementwise table.
"""
