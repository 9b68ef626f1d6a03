"""Give a graph to other runtimes: TensorFlow, XLA, ONNX Runtime.

In: a GraphDef, fetches and fed values. Out: the graph in another runtime's form. Not in here:
timing.
"""
