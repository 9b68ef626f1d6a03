"""Declare ops with state: variables, queues, tables, optimizer updates, staging.

In: tensors, resource handles. Out: tensors, OpDefs. Not in here: the state itself.
"""
