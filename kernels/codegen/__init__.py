"""Write pieces of kernel text that all templates share.

In: scalar programs, dtypes. Out: lines of Python text, and the intrinsics they call. Not in here:
whole kernels of one op family.
"""
