"""Other runtimes that take a workload's GraphDef: TensorFlow's own ways, and translators of
GraphDefs for JAX and ONNX Runtime.
"""
