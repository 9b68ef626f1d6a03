"""Convolutions and pooling on NVIDIA GPUs."""
