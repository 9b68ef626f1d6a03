"""Collect nodes of accelerators into offloaded graphs.

In: a partition with nodes of the host and of its accelerators. Out: `_Offload` nodes, with
graphs that the runtime runs on the devices. Not in here: placement, kernels.
"""
