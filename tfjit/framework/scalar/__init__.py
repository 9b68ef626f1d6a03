"""Define every scalar function once: expression, NumPy answer, dtypes, cost.

In: a row of `elementwise.TABLE`. Out: expressions and references for kernels, folding and tests.
Not in here: loops over arrays, generated code.
"""
