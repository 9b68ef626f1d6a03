"""Resize and crop images on NVIDIA GPUs.

In: a NodeSpec. Out: a NativeCall of CUDA launches. Not in here: convolutions, errors of values.
"""
