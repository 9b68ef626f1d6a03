"""Define gradients of layers: convolution, pooling, normalization, losses, recurrent cells.

The families of `tfjit/ops/layers/`.

In: an operation and the gradients of its outputs. Out: the gradients of its inputs. Not in here:
gradients of variables.
"""
