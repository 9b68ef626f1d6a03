"""Represent a graph for the passes: nodes, edges, functions, text form, verifier.

In: GraphDef, text, or operations of a Graph. Out: DataflowGraph. Not in here: rewrites, choices.
"""
