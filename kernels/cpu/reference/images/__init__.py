"""Compute image ops in NumPy: boxes, colours, crops, patches, sizes.

The families of `tfjit/ops/images/`.

In: a NodeSpec and the input arrays. Out: the output arrays. Not in here: layers, file formats.
"""
