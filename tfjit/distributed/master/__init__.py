"""The master of a task: sessions over the devices of a cluster.

In: graphs and steps of clients. Out: partitions for workers, values for clients. Not in here:
gRPC, and the execution of a partition.
"""
