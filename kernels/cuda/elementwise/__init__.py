"""Build elementwise loops, assignments and optimizer updates for NVIDIA GPUs.

In: a FusedGroup of kind loop, or a NodeSpec. Out: a NativeCall of CUDA launches. Not in here:
reductions, products.
"""
