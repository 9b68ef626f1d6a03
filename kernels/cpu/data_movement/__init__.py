"""Build copies by index: transpose, gather, scatter, slice, range and band.

In: a NodeSpec. Out: a NativeCall. Not in here: arithmetic on the elements.
"""
