"""Provide the parts of CPU templates: iteration spaces, chunking, costs, epilogues.

In: shapes, dtypes, affine maps. Out: chunk counts, predicted times, argument words. Not in here:
builders of single ops.
"""
