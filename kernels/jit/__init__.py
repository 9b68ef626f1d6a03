"""Turn kernel text into addresses: compile, keep on disk, load.

In: KernelSource. Out: an address of native code, or the reason for none. Not in here: the
contents of kernels.
"""
