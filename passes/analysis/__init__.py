"""Compute facts of a graph without changing it: shapes, frames, regions, values.

In: a DataflowGraph. Out: shapes, frames, induction variables, region trees. Not in here:
rewrites.
"""
