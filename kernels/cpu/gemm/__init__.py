"""Build matrix products: packing, micro-kernels, macro-kernel, gemv, attention.

In: operand layouts and an epilogue. Out: a NativeCall. Not in here: convolutions.
"""
