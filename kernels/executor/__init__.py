"""Run tables of compiled launches on the intra-op thread pool.

In: tables of (code address, argument block). Out: results in memory, a status. Not in here:
graphs, Python kernels.
"""
