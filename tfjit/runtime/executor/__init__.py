"""Run graphs of unknown shapes node by node: pending counts, frames, dead tensors.

In: partitions. Out: fetched values. Not in here: fused steps.
"""
