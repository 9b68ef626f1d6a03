"""Run sessions on local devices: options, plans by signature, partial runs.

In: a graph, feeds, fetches, targets. Out: fetched values. Not in here: kernels.
"""
