"""Place nodes on devices and cut the graph into partitions and stages.

In: a graph and the devices. Out: partitions with Send and Recv. Not in here: choices of kernels.
"""
