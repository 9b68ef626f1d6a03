"""Runtime kernels of assertions and prints."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from tfjit.framework import errors
from tfjit.framework.op_defs.attrs import escaped
from tfjit.runtime.host.completion import Values
from tfjit.runtime.kernel_api.op_kernel import OpContext, runtime_kernel


def summarize(value: Any, count: int) -> str:
    """Return the first `count` elements as TensorFlow prints them.

    count: negative for all. "1 2 3..." of a vector, "[1 2][3...]..." of a matrix.
    """
    array = np.asarray(value)
    flat = array.ravel()
    left = array.size if count < 0 else min(count, array.size)
    texts = iter([_element_text(e) for e in flat[:left]])
    if array.shape == ():
        return _element_text(flat[0])
    return _rows(texts, array.shape, [left]) + (
        "..." if array.ndim > 1 and left < array.size else ""
    )


def _element_text(x: Any) -> str:
    if isinstance(x, bytes):
        return escaped(x)
    if isinstance(x, (bool, np.bool_)):
        return str(int(x))
    if isinstance(x, np.floating):
        # as many digits as read back to the same value
        short, long = (6, 9) if x.dtype.itemsize <= 4 else (15, 17)
        text = f"{float(x):.{short}g}"
        return text if np.isnan(x) or x.dtype.type(text) == x else f"{float(x):.{long}g}"
    return str(x)


def _rows(texts: Any, shape: tuple[int, ...], left: list[int]) -> str:
    """Return the text of the part that `left` elements show.

    Each dimension inside the outermost is in brackets.
    """
    if len(shape) == 1:
        shown = min(left[0], shape[0])
        left[0] -= shown
        return " ".join(next(texts) for _ in range(shown)) + ("..." if shown < shape[0] else "")
    parts = []
    for _ in range(shape[0]):
        if left[0] <= 0:
            break
        parts.append(f"[{_rows(texts, shape[1:], left)}]")
    return "".join(parts)


@runtime_kernel("Timestamp")
def timestamp(ctx: OpContext, inputs: Values) -> Values:
    """Return the seconds since the epoch by the session's clock."""
    return (np.array(ctx.session.env.clock.time_ns() / 1e9),)


@runtime_kernel("Print")
def print_op(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Write message and data to stderr and pass the input on.

    Writes the first `first_n` times only.
    """
    counter = ctx.session.node_object(f"{ctx.name}/printed", lambda: [0])
    first_n = ctx.attrs.get("first_n", -1)
    counter[0] += 1
    if first_n < 0 or counter[0] <= first_n:
        data = "".join(f"[{summarize(v, ctx.attrs.get('summarize', 3))}]" for v in inputs[1:])
        sys.stderr.write(f"{ctx.attrs.get('message', b'').decode()}{data}\n")
    return (inputs[0],)


@runtime_kernel("PrintV2")
def print_v2(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Write a string scalar to the stream it names."""
    text = np.asarray(inputs[0], object)[()]
    target = ctx.attrs.get("output_stream", b"stderr").decode()
    end = ctx.attrs.get("end", b"\n").decode()
    line = (text.decode(errors="replace") if isinstance(text, bytes) else str(text)) + end
    if target == "stdout":
        sys.stdout.write(line)
    elif target.startswith("file://"):
        with ctx.session.env.files.open(target[len("file://") :], "a") as file:
            file.write(line)
    else:
        sys.stderr.write(line)
    return ()


@runtime_kernel("Assert")
def assert_op(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Raise InvalidArgumentError showing the data when the condition is false."""
    condition = np.asarray(inputs[0])
    if condition.shape != ():
        raise errors.InvalidArgumentError(
            None, None, f"In[0] should be a scalar: {list(condition.shape)}"
        )
    if not condition:
        count = ctx.attrs.get("summarize", 3)
        data = " ".join(f"[{summarize(v, count)}]" for v in inputs[1:])
        raise errors.InvalidArgumentError(None, None, f"assertion failed: {data}")
    return ()
