"""Sessions on a cluster, beside TensorFlow's servers."""
