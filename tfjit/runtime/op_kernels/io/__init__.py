"""Implement traffic with the outside: files, tables, readers, handles, feeds, sends.

In: an OpContext and inputs. Out: tensors from files, tables, other devices. Importing the room
registers its kernels. Not in here: file formats (`framework/files`), queues.
"""

# ruff: noqa: F401  (imported modules register their functions)

from tfjit.runtime.op_kernels.io import (
    io_ops,
    lookup_ops,
    reader_ops,
    session_handle_ops,
    transfer_ops,
)
