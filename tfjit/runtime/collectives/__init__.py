"""Reduce, gather and broadcast values over a group of devices.

In: a member's value and the keys of group and instance. Out: the result, by a callback. Not in
here: op kernels; the calls between tasks, which stand in `distributed.worker`.
"""
