"""Imports every module that registers a kernel."""

from tfjit.kernels import cpu
from tfjit.runtime import queues, state_kernels, transfer_kernels

__all__ = ["cpu", "queues", "state_kernels", "transfer_kernels"]
