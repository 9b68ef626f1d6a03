"""Represent fused subgraphs, scalar programs and loop programs as data; declare backends.

In: members chosen by fusion. Out: FusedGroup, Program, LoopProgram, and the protocol of the
backends that take them. Not in here: text of kernels, choices of templates.
"""
