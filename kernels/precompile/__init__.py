"""Enumerate the generic kernels, and compile them into archives.

In: the CPU's builders. Out: archives for levels of x86-64, beside this file, or the disk
cache of this machine. Not in here: look-ups in an archive, which belong to `jit`.
"""
