"""Implement ops with state: variables, queues, barriers, stacks, staging, generators.

In: an OpContext and handles. Out: outputs, at once or through a callback. Importing the room
registers its kernels. Not in here: values that hold tensors, lookup tables.
"""

# ruff: noqa: F401  (imported modules register their functions)

from tfjit.runtime.op_kernels.state import (
    accumulator_ops,
    barrier_ops,
    queue_ops,
    rng_ops,
    stack_ops,
    staging_ops,
    variable_ops,
)
