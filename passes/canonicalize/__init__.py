"""Simplify a graph: fold, canonicalize, eliminate common and dead nodes.

In: any DataflowGraph. Out: the same values from fewer and simpler nodes. Not in here: rewrites
that need loops or devices.
"""
