"""Runtime kernel of `RecordInput`: batches of records in random order."""

from __future__ import annotations

import numpy as np

from tfjit.framework.errors import InvalidArgumentError
from tfjit.runtime.host.completion import Values
from tfjit.runtime.kernel_api.op_kernel import OpContext
from tfjit.runtime.op_kernels.io.io_ops import file_kernel, system_errors
from tfjit.runtime.resources.record_stream import RecordSource, RecordStream


@file_kernel("RecordInput")
def record_input(ctx: OpContext, inputs: Values) -> Values:
    """Return the next records of the node's stream, string [batch_size].

    The order is random, other than TensorFlow's; each record comes once an epoch.
    """
    a = ctx.attrs
    count = int(a.get("batch_size", 32))
    if count < 0:
        raise InvalidArgumentError(None, None, f"batch_size must be non-negative but got {count}")
    compression = a.get("compression_type", b"").decode()
    if compression not in ("", "ZLIB", "GZIP"):
        raise InvalidArgumentError(None, None, f"Unsupported compression_type: {compression!r}")
    source = RecordSource(
        a["file_pattern"].decode(errors="surrogateescape"),
        compression,
        int(a.get("file_random_seed", 301)),
        float(a.get("file_shuffle_shift_ratio", 0.0)),
        max(1, int(a.get("file_buffer_size", 10000))),
    )
    files = ctx.session.env.files
    stream = ctx.session.node_object(
        f"{ctx.name}/record_stream", lambda: RecordStream(source, files)
    )
    with system_errors(source.pattern):
        records = stream.take(count)
    out = np.empty(count, object)
    out[:] = records
    return (out,)
