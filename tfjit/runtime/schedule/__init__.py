"""Choose kernels, batches, branches, lifetimes and loop parts of lowered code.

In: Lowered. Out: NativeCalls, lifetimes, jumps, splits. Not in here: memory addresses, execution.
"""
