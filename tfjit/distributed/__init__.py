"""Sessions on a cluster, in TensorFlow's runtime protocol.

In: targets "grpc://host:port", clusters. Out: runtime sessions, and servers that are a task of a
cluster. Not in here: the plans and kernels of a partition, which are the runtime's.
"""
