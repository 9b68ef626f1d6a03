"""Build reductions, scans, row reductions, argmax and top-k.

In: a FusedGroup of kind reduce or rows, or a NodeSpec. Out: a NativeCall. Not in here: products.
"""
