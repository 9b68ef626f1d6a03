"""Define gradients of arithmetic: elementwise functions, reductions, products, segments.

The families of `tfjit/ops/arithmetic/`.

In: an operation and the gradients of its outputs. Out: the gradients of its inputs. Not in here:
sparse arithmetic, which stands in `sparse`.
"""
