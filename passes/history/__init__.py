"""The history of a plan: each rewrite as an event, with the nodes before and after.

In: graphs that passes rewrite, whose changes are noted as they are made; the passes' reasons. Out:
events, the text of what changed, the graph after any event, also as a GraphDef that TensorFlow
runs. Not in here: the order of the passes, and rewriting.
"""
