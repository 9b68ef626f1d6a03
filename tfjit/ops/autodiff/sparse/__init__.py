"""Define gradients of sparse ops.

The families of `tfjit/ops/sparse/`.

In: an operation and the gradients of its outputs. Out: the gradients of its inputs. Not in here:
IndexedSlices, which backpropagation adds up.
"""
