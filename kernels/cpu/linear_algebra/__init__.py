"""Build factorisations of matrices, solvers of linear systems, and Fourier transforms.

In: a NodeSpec. Out: a NativeCall. Not in here: products, LAPACK (the references call it).
"""
