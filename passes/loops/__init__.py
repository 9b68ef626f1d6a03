"""Rewrite loops: lists as arrays, sunk reductions, loop programs.

In: While nodes with bodies. Out: loops over dense values, `_Loop` nodes. Not in here: control
flow of the v1 form.
"""
