"""Compute ops over strings and records in NumPy: parsing, hashing, summaries.

The families of `tfjit/ops/records/` with kernels that need no session.

In: a NodeSpec and the input arrays. Out: the output arrays. Not in here: file access.
"""
