"""Implement ops with state: variables, queues, barriers, stacks, staging, generators.

In: an OpContext and handles. Out: outputs, at once or through a callback. Not in here: values that
hold tensors, lookup tables.
"""
