"""Build recurrent networks: cells, wrappers, dynamic and raw loops.

In: inputs, cells. Out: outputs, states. Not in here: kernels.
"""
