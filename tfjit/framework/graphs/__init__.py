"""Build graphs: Graph, Operation, Tensor, scopes, GraphDef import and export.

In: op types with inputs and attrs, or a GraphDef. Out: a Graph and its GraphDef. Not in here:
placement, optimisation, execution.
"""
