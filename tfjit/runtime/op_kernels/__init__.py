"""Implement ops that need the session: variables, queues, readers, functions.

In: an OpContext and inputs. Out: outputs, at once or through a callback. Importing the room
registers every kernel. Not in here: state that outlives a run, which stands in `resources`.
"""

# ruff: noqa: F401  (imported modules register their functions)

from tfjit.runtime.op_kernels import containers, control_flow, io, state
