"""Represent a graph for the passes: nodes, edges, functions, verifier.

In: GraphDef, or operations of a Graph. Out: DataflowGraph. Not in here: rewrites, choices.
"""
