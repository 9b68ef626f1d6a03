"""Measure graphs on a GPU: tfjit fused and unfused, beside other libraries.

`python -m benchmarks gpu` runs every part in a process of its own.
"""
