"""Build CUDA kernels of ops that move elements.

In: NodeSpecs. Out: launches of copies, gathers, scatters and one-hot rows.
"""
