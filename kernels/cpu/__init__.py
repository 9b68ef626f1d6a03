"""CPU backend: reference kernels in NumPy, and builders of compiled launches, a room a template."""
