"""Imports every module that registers a runtime kernel."""

from tfjit.runtime import file_kernels, python_kernels, queues, state_kernels, transfer_kernels

__all__ = ["file_kernels", "python_kernels", "queues", "state_kernels", "transfer_kernels"]
