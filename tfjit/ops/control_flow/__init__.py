"""Build branches, loops, functions, tensor arrays, in both forms of control flow.

In: Python functions. Out: Switch and Merge, or If and While with functions. Not in here:
execution.
"""
