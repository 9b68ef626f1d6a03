"""Update variables in NumPy.

The families of `tfjit/ops/state/` with kernels that need no session.

In: a NodeSpec and the input arrays. Out: the output arrays. Not in here: the state itself, and
kernels that need the session (`runtime/op_kernels`).
"""
