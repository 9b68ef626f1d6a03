"""The worker of one task: it runs partitions of its devices.

In: registered partitions, runs of a step, receives of other tasks. Out: fetched values and tensors
for other tasks. Not in here: the service on a port, and decisions about placement and partitions.
"""
