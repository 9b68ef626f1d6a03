"""Declare ops over files and strings: readers, parsing, summaries, datasets.

In: tensors. Out: tensors, OpDefs. Not in here: file access.
"""
