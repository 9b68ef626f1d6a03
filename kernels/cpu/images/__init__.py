"""Build crops and resized images, and the gradients of resizing.

In: a NodeSpec. Out: a NativeCall. Not in here: convolutions, colours, errors of values.
"""
