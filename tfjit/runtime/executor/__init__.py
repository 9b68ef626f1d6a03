"""Run graphs of unknown shapes node by node.

In: partitions. Out: fetched values. Not in here: fused steps.
"""
