"""Describe values: dtypes, shapes, tensor messages, device names, nests.

In: Python values and proto messages. Out: DType, Shape, ndarray, DeviceSpec. Not in here: graphs,
operations, op types.
"""
