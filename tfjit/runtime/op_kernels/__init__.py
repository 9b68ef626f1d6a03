"""Implement ops that need the session: variables, queues, readers, functions.

In: an OpContext and inputs. Out: outputs, at once or through a callback. Importing the room
registers every kernel. Not in here: state that outlives a run, which stands in `resources`.
"""

# ruff: noqa: F401  (imported modules register their functions)

from tfjit.runtime.op_kernels import (
    accumulator_ops,
    barrier_ops,
    control_flow_ops,
    functional_ops,
    io_ops,
    lookup_ops,
    map_defun,
    optional_ops,
    py_func,
    queue_ops,
    reader_ops,
    rng_ops,
    session_handle_ops,
    stack_ops,
    staging_ops,
    tensor_array_ops,
    tensor_list_ops,
    tensor_map_ops,
    transfer_ops,
    variable_ops,
    variant_ops,
)
