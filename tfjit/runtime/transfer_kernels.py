"""Runtime kernels that move values between partitions, and those with an effect outside the graph: send, receive, print, assert."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from tfjit.framework import errors
from tfjit.runtime.op_kernel import DEAD, Done, OpContext, blocking_kernel, runtime_kernel
from tfjit.runtime.rendezvous import create_key
from tfjit.runtime.resources import Variable


def _key(ctx: OpContext) -> str:
    a = ctx.attrs
    frame = "0:0" if a.get("client_terminated") else ctx.frame
    return create_key(
        a["send_device"].decode(), a["send_device_incarnation"], a["recv_device"].decode(), a["tensor_name"].decode(), frame
    )


@runtime_kernel("_Send", "_HostSend")
def send(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Leave the value (a copy of a variable's) in the step's rendezvous."""
    value = inputs[0]
    if isinstance(value, Variable):
        value = value.initialized_value().copy()
    ctx.step.rendezvous.send(_key(ctx), value, value is DEAD)
    return ()


@blocking_kernel("_Recv", "_HostRecv")
def receive(ctx: OpContext, inputs: Sequence[Any], done: Done) -> None:
    """Take the value from the step's rendezvous when it comes; a dead one stays dead."""

    def received(error: BaseException | None, value: Any, is_dead: bool) -> None:
        if error is not None:
            done(error)
        else:
            done((DEAD if is_dead else value,))

    ctx.step.rendezvous.receive(_key(ctx), received)


def summarize(value: Any, count: int) -> str:
    """The first `count` elements as TensorFlow prints them: nested brackets, "..." where cut; negative = all."""
    array = np.asarray(value)
    if array.dtype == object:
        texts = [repr(e.decode(errors="backslashreplace"))[1:-1] if isinstance(e, bytes) else str(e) for e in array.ravel()]
    elif array.dtype == bool:
        texts = [str(int(e)) for e in array.ravel()]
    elif array.dtype.kind == "f":
        texts = [_float_text(e) for e in array.ravel()[: None if count < 0 else count]]
    else:
        texts = [str(e) for e in array.ravel()[: None if count < 0 else count]]
    if array.shape == ():
        return texts[0]
    left = array.size if count < 0 else count
    return _nest(iter(texts), array.shape, [left])


def _float_text(x: Any) -> str:
    if np.isnan(x):
        return "-nan" if np.signbit(x) else "nan"
    return np.format_float_positional(x, trim="-") if 1e-4 <= abs(x) < 1e16 or x == 0 else repr(float(x))


def _nest(texts: Any, shape: tuple[int, ...], left: list[int]) -> str:
    parts = []
    for _ in range(shape[0]):
        if left[0] <= 0:
            parts.append("...")
            break
        if len(shape) == 1:
            left[0] -= 1
            parts.append(next(texts))
        else:
            parts.append(_nest(texts, shape[1:], left))
    return f"[{' '.join(parts).replace(' ...', '...')}]" if len(shape) == 1 else f"[{''.join(parts)}]"


@runtime_kernel("Print")
def print_op(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Write message and data to stderr, the first `first_n` times, and pass the input on."""
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
        with open(target[len("file://") :], "a") as file:
            file.write(line)
    else:
        sys.stderr.write(line)
    return ()


@runtime_kernel("Assert")
def assert_op(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Raises InvalidArgumentError showing the data when the condition is false."""
    condition = np.asarray(inputs[0])
    if condition.shape != ():
        raise errors.InvalidArgumentError(None, None, f"In[0] should be a scalar: {list(condition.shape)}")
    if not condition:
        data = "".join(f" {summarize(v, ctx.attrs.get('summarize', 3))}" for v in inputs[1:])
        raise errors.InvalidArgumentError(None, None, f"assertion failed:{''.join(f' [{d}]' for d in _each(inputs[1:], ctx))}" if data else "assertion failed:")
    return ()


def _each(values: Sequence[Any], ctx: OpContext) -> list[str]:
    return [summarize(v, ctx.attrs.get("summarize", 3)).strip("[]") for v in values]
