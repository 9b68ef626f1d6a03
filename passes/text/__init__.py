"""The text form of graphs: printed in dumps, read back in tests.

In: a working graph with its bodies, fused groups and loop programs; or text. Out: text, or a graph.
Large tensors stand in files beside a dump. Not in here: passes, and the text of lowered partitions.
"""
