"""Drive GPUs, real or simulated.

In: kernel texts, commands with addresses. Out: cubins, handles, results in memory. Not in here:
texts of kernels, fused groups.
"""
