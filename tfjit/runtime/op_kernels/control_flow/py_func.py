"""Runtime kernels that call Python functions of the user's."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from tfjit.framework import errors
from tfjit.framework.graphs import py_functions
from tfjit.framework.types.dtypes import as_dtype, short_name
from tfjit.runtime.kernel_api.op_kernel import OpContext, runtime_kernel
from tfjit.runtime.resources.variables_and_resources import Variable

# TensorFlow's error for an exception of a user's function; any other is Unknown.
_CLASSES: Final = (
    ((TypeError, ValueError), errors.InvalidArgumentError),
    (StopIteration, errors.OutOfRangeError),
    (MemoryError, errors.ResourceExhaustedError),
    (NotImplementedError, errors.UnimplementedError),
)


@runtime_kernel("PyFunc", "PyFuncStateless", "EagerPyFunc", expensive=True)
def py_func(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Call the function with writeable arrays and check its result.

    The result must have the node's dtypes.
    """
    token = ctx.attrs["token"].decode()
    function = py_functions.find(token)
    if function is None:
        raise errors.InvalidArgumentError(
            None,
            None,
            f"ValueError: callback {token} is not found: the function belongs to a graph of "
            "another process, or to one that is gone",
        )
    try:
        returned = function(*[_argument(v) for v in inputs])
    except Exception as error:  # an OpError too: the function raised it, not this step
        kind = next(
            (ours for theirs, ours in _CLASSES if isinstance(error, theirs)), errors.UnknownError
        )
        raise kind(
            None, None, f"{type(error).__name__}: {error}\n{traceback.format_exc()}"
        ) from error
    values = [
        _array(v)
        for v in (
            returned
            if isinstance(returned, (list, tuple))
            else ()
            if returned is None
            else (returned,)
        )
    ]
    if len(values) != len(ctx.output_dtypes):
        raise errors.InvalidArgumentError(
            None,
            None,
            f"{token} returns {len(values)} values, but expects to see {len(ctx.output_dtypes)} "
            "values.",
        )
    for i, (value, dtype) in enumerate(zip(values, ctx.output_dtypes, strict=True)):
        if as_dtype(value.dtype) != dtype:
            raise errors.InvalidArgumentError(
                None,
                None,
                f"{i}-th value returned by {token} is {short_name(as_dtype(value.dtype))}, but "
                f"expects {short_name(dtype)}",
            )
    return values


def _argument(value: Any) -> Any:
    return value.initialized_value().copy() if isinstance(value, Variable) else np.array(value)


def _array(value: Any) -> np.ndarray:
    """Return a copy of a function's result; text becomes bytes."""
    array = np.array(value, order="C")
    if array.dtype.kind not in "USO":
        return array
    strings = [_bytes(item) for item in array.ravel().tolist()]
    result = np.empty(len(strings), object)
    result[:] = strings
    return result.reshape(array.shape)


def _bytes(item: object) -> bytes:
    """Return an element of an array of strings as bytes."""
    if isinstance(item, (bytes, str)):
        return item.encode() if isinstance(item, str) else item
    raise errors.InternalError(None, None, f"Unsupported object type {type(item).__name__}")
