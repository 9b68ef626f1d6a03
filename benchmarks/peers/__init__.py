"""Run a workload's GraphDef in other runtimes.

TensorFlow's own ways, and translators of GraphDefs for JAX and ONNX Runtime.
"""
