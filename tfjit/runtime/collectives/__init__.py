"""Reduce, gather and broadcast values over a group of devices, as TensorFlow's ring and tree do.

In: a member's value and the keys of group and instance. Out: the result, by a callback. Not in
here: op kernels; the calls between tasks, which stand in `distributed.worker`.
"""
