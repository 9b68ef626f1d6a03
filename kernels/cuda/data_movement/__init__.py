"""Build CUDA kernels of ops that move elements: copies, gathers, scatters, one-hot rows."""
