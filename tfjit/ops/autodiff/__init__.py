"""Build gradients: backpropagation, and a rule for each op type.

In: ys and xs of a graph. Out: gradient tensors. Not in here: numeric differentiation.
"""
