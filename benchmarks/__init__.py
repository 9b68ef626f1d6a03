"""Measure tfjit's speed, fused and unfused, beside its peers.

`python -m benchmarks --help` explains the options.
"""
