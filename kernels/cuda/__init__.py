"""Compute nodes and fused groups on NVIDIA GPUs.

In: NodeSpecs, fused groups. Out: kernel texts and launches with grids; a driver that runs them.
Not in here: placement, plans, memory of variables. Nothing outside this folder names CUDA but the
registration of the backend (`kernels/ir/backend.py`).
"""
