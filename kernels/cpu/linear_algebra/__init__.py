"""Build factorisations of matrices and solvers of linear systems.

In: a NodeSpec. Out: a NativeCall. Not in here: products, LAPACK (the references call it).
"""
