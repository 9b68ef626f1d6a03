"""The history of a plan: each rewrite as an event.

In: graphs that passes rewrite, and the passes' reasons. Out: events, the changed lines as text, the
graph after any event, also as a GraphDef that TensorFlow runs. Not in here: the order of the
passes, and rewriting.
"""
