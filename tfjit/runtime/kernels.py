"""Imports every module that registers a runtime kernel."""

from tfjit.runtime import queues, state_kernels, transfer_kernels

__all__ = ["queues", "state_kernels", "transfer_kernels"]
