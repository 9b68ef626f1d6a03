"""tfjit runs TensorFlow 1 graphs, compiled with Numba."""

__version__ = "0.1.0"
