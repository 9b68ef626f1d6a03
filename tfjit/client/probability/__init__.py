"""Distributions of random values: samples, densities, moments, divergences.

In: parameters as tensors, of one or many distributions at a time. Out: tensors. Not in here: the
random ops themselves (`tfjit.ops`).
"""
