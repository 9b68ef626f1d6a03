"""Build random number kernels over Philox streams for NVIDIA GPUs.

In: a NodeSpec, and the position of its stream in device memory. Out: a NativeCall of CUDA launches
with the host's streams. Not in here: the place of positions between runs.
"""
