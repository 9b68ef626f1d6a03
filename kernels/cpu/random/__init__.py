"""Build random number kernels over Philox streams.

In: a NodeSpec and a stream's key and counter. Out: a NativeCall, initial states. Not in here:
other sources of randomness.
"""
