"""Define gradients of values that hold tensors: arrays, lists, optionals.

The families of `tfjit/ops/containers/`.

In: an operation and the gradients of its outputs. Out: the gradients of its inputs. Not in here:
loops that fill them.
"""
