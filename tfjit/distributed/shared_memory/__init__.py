"""Memory that processes of one host share: blocks, loans, arrays.

In: arrays for another process, names of its blocks. Out: arrays over the same memory. Not in here:
the connection that carries the names.
"""
