"""Define gradients of image ops: crops, patches, sizes.

The families of `tfjit/ops/images/`.

In: an operation and the gradients of its outputs. Out: the gradients of its inputs. Not in here:
layers.
"""
