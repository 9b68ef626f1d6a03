"""Runtime kernels at a graph's edges: placeholders without a feed, send and receive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tfjit.framework import errors
from tfjit.framework.types import dtypes
from tfjit.framework.types.dtypes import DType, enum_name
from tfjit.runtime.host.completion import Done
from tfjit.runtime.host.rendezvous import create_key
from tfjit.runtime.kernel_api.op_kernel import DEAD, OpContext, blocking_kernel, runtime_kernel
from tfjit.runtime.resources.variables_and_resources import Variable


def _key(ctx: OpContext) -> str:
    a = ctx.attrs
    frame = "0:0" if a.get("client_terminated") else ctx.frame
    return create_key(
        a["send_device"].decode(),
        a["send_device_incarnation"],
        a["recv_device"].decode(),
        a["tensor_name"].decode(),
        frame,
    )


@runtime_kernel("Placeholder", "PlaceholderV2")
def unfed_placeholder(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Raise the error of a placeholder that was not fed."""
    dtype, shape = ctx.attrs["dtype"], ctx.attrs.get("shape")
    sizes = ""
    if shape is not None and shape.rank:  # of a scalar, too, TensorFlow says no shape
        sizes = f" and shape [{','.join('?' if d is None else str(d) for d in shape.as_list())}]"
    raise errors.InvalidArgumentError(
        None,
        None,
        f"You must feed a value for placeholder tensor '{ctx.name}' with dtype "
        f"{enum_name(dtype)[3:].lower()}{sizes}",
    )


@runtime_kernel("_Send", "_HostSend")
def send(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Leave the value in the step's rendezvous.

    Of a reference, the variable itself, which the receiver reads.
    """
    value = inputs[0]
    if isinstance(value, Variable):
        value.initialized_value()
    elif value is not DEAD:
        value = ctx.device.backend.to_host(value)
    ctx.step.rendezvous.send(_key(ctx), value, value is DEAD)
    return ()


@blocking_kernel("_Recv", "_HostRecv")
def receive(ctx: OpContext, inputs: Sequence[Any], done: Done) -> None:
    """Take the value from the step's rendezvous when it comes.

    A dead one stays dead. A reference is read only now: the receive waits for the nodes that the
    graph orders before the read, such as an update of the variable. A value of another dtype, which
    a client or another task sent, is an error: compiled code reads memory as the node says.
    """

    # _HostRecv: the device's kernel takes the value in host memory
    convert = ctx.device.backend.to_device if ctx.op == "_Recv" else None

    def received(error: BaseException | None, value: Any, is_dead: bool) -> None:
        if error is not None:
            done(error)
            return
        if isinstance(value, Variable):
            try:
                value = value.initialized_value().copy()
            except errors.OpError as failure:
                done(failure)
                return
        elif not is_dead:
            try:
                check_received(value, ctx.output_dtypes[0], ctx.name)
            except errors.OpError as failure:
                done(failure)
                return
            if convert is not None:
                value = convert(value)
        done((DEAD if is_dead else value,))

    ctx.step.rendezvous.receive(_key(ctx), received)


def check_received(value: Any, dtype: DType, name: str) -> None:
    """Check that a received array has the dtype of its receive.

    Raises InternalError.
    """
    if isinstance(value, np.ndarray) and dtype.is_numpy_compatible:
        found = value.dtype
        wanted = dtype.base_dtype
        if found != wanted.as_numpy_dtype:
            raise errors.InternalError(
                None,
                None,
                f"Output 0 of type {dtypes.as_dtype(found).name} does not match declared output "
                f"type {wanted.name} for node {{{{node {name}}}}}",
            )
