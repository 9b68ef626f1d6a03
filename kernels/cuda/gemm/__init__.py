"""Matrix products on NVIDIA GPUs.

Tiles in shared memory, epilogues, and products with a vector.
"""
