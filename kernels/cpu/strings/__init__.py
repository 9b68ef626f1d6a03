"""Compute ops of strings by compiled functions that Python calls.

In: object arrays of bytes. Out: arrays of numbers, or of bytes that the functions make. A function
holds the interpreter's lock and reads the bytes objects in place. It tells its caller, a reference
kernel, which strings it leaves to Python: those with errors and rare forms. No op is registered
here.
"""
