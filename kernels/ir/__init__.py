"""Represent fused subgraphs, scalar programs and loop programs as data.

In: members chosen by fusion. Out: FusedGroup, Program, LoopProgram. Not in here: text of kernels,
choices of templates.
"""
