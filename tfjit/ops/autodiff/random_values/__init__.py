"""Define gradients of random values.

The families of `tfjit/ops/random_values/`.

In: an operation and the gradients of its outputs. Out: the gradients of its inputs. Not in here:
samples without parameters, which have no gradient.
"""
