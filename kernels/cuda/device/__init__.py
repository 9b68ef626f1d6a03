"""Drive GPUs: discovery, memory, programs of commands, compiling and loading; a simulated GPU.

In: kernel texts, commands with addresses. Out: cubins, handles, results in memory. Not in here:
texts of kernels, fused groups.
"""
