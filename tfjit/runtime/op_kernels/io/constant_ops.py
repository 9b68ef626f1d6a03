"""Runtime kernel of constants that stand in files."""

from __future__ import annotations

import math

import numpy as np

from tfjit.framework.errors import InternalError, UnimplementedError
from tfjit.framework.types.dtypes import as_dtype
from tfjit.runtime.host.completion import Values
from tfjit.runtime.kernel_api.op_kernel import OpContext
from tfjit.runtime.op_kernels.io.io_ops import file_kernel, system_errors


@file_kernel("ImmutableConst")
def immutable_const(ctx: OpContext, inputs: Values) -> Values:
    """Return the elements that a file holds, in the machine's byte order.

    Raises InternalError for a file that is too short, UnimplementedError for strings.
    """
    path = ctx.attrs["memory_region_name"].decode(errors="surrogateescape")
    dtype = as_dtype(ctx.attrs["dtype"])
    if dtype.name in ("string", "resource", "variant"):
        raise UnimplementedError(
            None, None, "Sorry, DT_STRING is not currently supported for ImmutableConstOp."
        )
    sizes = ctx.attrs["shape"].as_list()
    path = path.removeprefix("file://")
    with system_errors(path):
        data = ctx.session.env.files.read(path)
    count = math.prod(sizes)
    if len(data) < count * dtype.size:
        raise InternalError(
            None,
            None,
            f"Readonly memory region has wrong length ({len(data)}) when allocating "
            f"{count * dtype.size}",
        )
    array = np.frombuffer(data, dtype.as_numpy_dtype, count)
    return (array.reshape(sizes),)
