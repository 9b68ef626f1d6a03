"""Build reductions, row reductions, scans and argmax for NVIDIA GPUs.

In: a FusedGroup of kind reduce or rows, or a NodeSpec. Out: a NativeCall of CUDA launches. Not in
here: products.
"""
