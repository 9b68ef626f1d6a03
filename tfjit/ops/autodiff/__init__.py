"""Build gradients: backpropagation, and a rule for each op type.

The mechanism stands here: backpropagation, and the gradients of loops, branches and calls, which
backpropagate bodies. The rules stand in the rooms and families of `tfjit/ops/`, terms
that they share in `terms.py`.

In: ys and xs of a graph. Out: gradient tensors. Not in here: numeric differentiation.
"""
