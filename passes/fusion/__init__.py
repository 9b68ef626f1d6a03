"""Cluster nodes into fused groups that one kernel serves.

In: a partition with shapes. Out: `_Fused` nodes with a FusedGroup. Not in here: text of kernels.
"""
