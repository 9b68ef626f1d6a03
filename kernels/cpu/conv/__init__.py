"""Build convolutions, poolings and their gradients.

In: a NodeSpec and an epilogue. Out: a NativeCall. Not in here: general matrix products.
"""
