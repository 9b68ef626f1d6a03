"""Implement function calls: While, If, Case, map; assertions; the user's Python.

In: an OpContext and inputs. Out: the outputs of a body, or of a Python function. Importing the room
registers its kernels. Not in here: Switch and Merge, which the executor runs.
"""

# ruff: noqa: F401  (imported modules register their functions)

from tfjit.runtime.op_kernels.control_flow import (
    control_flow_ops,
    functional_ops,
    map_defun,
    py_func,
)
