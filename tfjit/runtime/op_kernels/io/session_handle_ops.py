"""Runtime kernels of session handles: tensors kept, read and deleted by handle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tfjit.framework import errors
from tfjit.framework.types.dtypes import DType, enum_name
from tfjit.runtime.kernel_api.op_kernel import OpContext, runtime_kernel
from tfjit.runtime.resources.device_tensor import DeviceTensor
from tfjit.runtime.resources.variables_and_resources import Variable


@runtime_kernel("GetSessionHandle", "GetSessionHandleV2")
def get_session_handle(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Keep the input for later runs and return its handle.

    The handle is a string scalar (for V2 too: on a resource edge the handle is itself).
    """
    (value,) = inputs
    if isinstance(value, Variable):
        value = value.initialized_value()
    dtype, device = ctx.attrs["T"], ctx.device.name
    if isinstance(value, DeviceTensor):
        dtype, device = value.dtype, ctx.step.host.devices.name_of(value.accelerator)
    handle = ctx.session.tensors.add(ctx.name, device, dtype, value)
    return (np.array(handle.encode(), object),)


@runtime_kernel("GetSessionTensor")
def get_session_tensor(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return the kept tensor of a handle.

    A tensor in device memory stays there if all users of the node are on a device. Raises
    InternalError when it is of another dtype.
    """
    found = ctx.session.tensors.get(_text(inputs[0]))
    declared = ctx.attrs["dtype"]
    if found.dtype.base_dtype != declared.base_dtype:
        raise errors.InternalError(
            None,
            None,
            f"Output 0 of type {_type_name(found.dtype)} does not match declared output type "
            f"{_type_name(declared)} "
            f"for node {{{{node {ctx.name}}}}}",
        )
    if isinstance(found.value, DeviceTensor) and "on_device" not in ctx.attrs:
        return (found.value.numpy(),)
    return (found.value,)


@runtime_kernel("DeleteSessionTensor")
def delete_session_tensor(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Drop the kept tensor of a handle."""
    ctx.session.tensors.delete(_text(inputs[0]))
    return ()


def _text(handle: Any) -> str:
    value = np.asarray(handle, object)
    if value.shape != ():
        raise errors.InvalidArgumentError(
            None,
            None,
            f"a session handle is a string scalar, but this has shape {list(value.shape)}",
        )
    return value.item().decode()


def _type_name(dtype: DType) -> str:
    """Return the dtype as the runtime's messages write it: "float", "int32"."""
    return enum_name(dtype)[3:].lower()
