"""Define gradients of control flow, and register those of functions.

The families of `tfjit/ops/control_flow/`.

In: an operation and the gradients of its outputs. Out: the gradients of its inputs. Not in here:
backward loops, branches and calls, which stand in `autodiff` itself: they backpropagate bodies.
"""
