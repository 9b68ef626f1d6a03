"""Build elementwise loops, tiled loops, assignments and optimizer updates.

In: a FusedGroup of kind loop, or a NodeSpec. Out: a NativeCall. Not in here: reductions,
products.
"""
