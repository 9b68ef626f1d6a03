"""Define gradients of ops with state: reads of variables.

The families of `tfjit/ops/state/`.

In: an operation and the gradients of its outputs. Out: the gradients of its inputs. Not in here:
the slots of optimizers.
"""
