"""Implement values that hold tensors: arrays, lists, maps, optionals.

In: an OpContext, handles, flows or variants. Out: tensors, new variants. Not in here: the arrays
and lists themselves, which stand in `resources`.
"""
