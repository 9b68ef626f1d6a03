"""Imports every module that registers a runtime kernel."""

from tfjit.runtime import (
    accumulators,
    barriers,
    file_kernels,
    function_kernels,
    handle_kernels,
    optional_kernels,
    python_kernels,
    queues,
    reader_kernels,
    stacks,
    state_kernels,
    table_kernels,
    tensor_array_kernels,
    tensor_list_kernels,
    transfer_kernels,
    variant_kernels,
)

__all__ = [
    "accumulators",
    "barriers",
    "file_kernels",
    "function_kernels",
    "handle_kernels",
    "optional_kernels",
    "python_kernels",
    "queues",
    "reader_kernels",
    "stacks",
    "state_kernels",
    "table_kernels",
    "tensor_array_kernels",
    "tensor_list_kernels",
    "transfer_kernels",
    "variant_kernels",
]
