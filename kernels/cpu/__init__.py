"""Implement kernels for the CPU: a template a room, references in NumPy.

In: a NodeSpec or FusedGroup. Out: a NativeCall. Not in here: sessions, plans.
"""
