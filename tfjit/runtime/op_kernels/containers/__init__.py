"""Implement values that hold tensors: arrays, lists, maps, optionals.

In: an OpContext, handles, flows or variants. Out: tensors, new variants. Importing the room
registers its kernels. Not in here: the arrays and lists themselves, which stand in `resources`.
"""

# ruff: noqa: F401  (imported modules register their functions)

from tfjit.runtime.op_kernels.containers import (
    optional_ops,
    tensor_array_ops,
    tensor_list_ops,
    tensor_map_ops,
    variant_ops,
)
