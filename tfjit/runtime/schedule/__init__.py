"""Choose kernels, batches, branches, liveness and loop parts of lowered code.

In: Lowered. Out: NativeCalls, liveness, jumps, splits. Not in here: memory addresses, execution.
"""
