"""Define gradients of array ops: indexing, slicing, movement, space.

The families of `tfjit/ops/arrays/`.

In: an operation and the gradients of its outputs. Out: the gradients of its inputs. Not in here:
tensor arrays, which stand in `containers`.
"""
