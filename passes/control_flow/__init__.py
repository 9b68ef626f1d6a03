"""Turn v1 control flow into functions, and prepare their bodies.

In: Switch, Merge, Enter, Exit; While, If, Case. Out: While and If with specialised bodies. Not in
here: rewrites of loop-carried values.
"""
