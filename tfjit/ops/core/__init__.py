"""Convert arguments, declare op types and apply shared shape rules.

In: Python values. Out: tensors, OpDefs. Not in here: op families.
"""
