"""Run graphs of unknown shapes node by node, with frames and dead tensors.

In: partitions. Out: fetched values. Not in here: fused steps.
"""
