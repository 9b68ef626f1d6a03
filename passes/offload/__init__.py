"""Collect nodes of accelerators into offloaded graphs.

In: a partition with nodes of the host and of its accelerators. Out: `_Offload` nodes, whose graphs
the runtime runs on the devices. Not in here: placement, kernels.
"""
