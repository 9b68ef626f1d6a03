"""Runtime kernels of random generators.

A generator is a stream whose position is a variable, int64 [counter low, counter high, key]. Each
op takes its draws from the position, as the stateless ops do, and advances it by 256 blocks an
output.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from tfjit.framework import errors
from tfjit.framework.types.shape import format_shape
from tfjit.kernels.random_stream import BLOCKS_PER_OUTPUT
from tfjit.kernels.registry import NodeSpec
from tfjit.runtime.kernel_api.op_kernel import OpContext, runtime_kernel
from tfjit.runtime.resources.variables_and_resources import Variable

_PHILOX, _THREEFRY, _AUTO = 1, 2, 3
_LENGTH: Final = 3
_MASK: Final = (1 << 64) - 1
_HALF: Final = (1 << 32) - 1


def _fail(message: str) -> errors.InvalidArgumentError:
    return errors.InvalidArgumentError(None, None, message)


def _scalar(value: Any, what: str) -> int:
    array = np.asarray(value)
    if array.ndim:
        raise _fail(f"{what} must be of shape [], not {format_shape(array.shape)}")
    return int(array)


def _check_algorithm(value: Any) -> None:
    chosen = _scalar(value, "algorithm")
    if chosen == _THREEFRY:
        raise errors.UnimplementedError(
            None,
            None,
            "the ThreeFry random algorithm has no kernel on CPU; use Philox (1) or auto_select (3)",
        )
    if chosen not in (_PHILOX, _AUTO):
        raise _fail(f"Unsupported algorithm id: {chosen}")


def _position(variable: Variable) -> np.ndarray:
    """Return the variable's value as a stream's position.

    Raises InvalidArgumentError for a variable that holds none.
    """
    value = variable.initialized_value()
    if variable.dtype.name != "int64":
        raise _fail(f"dtype of RNG state variable must be int64, not {variable.dtype.name}")
    if value.ndim != 1:
        raise _fail(f"RNG state must have one and only one dimension, not {value.ndim}")
    if value.size < _LENGTH:
        raise _fail(
            f"For the Philox algorithm, the size of state must be at least {_LENGTH}; got "
            f"{value.size}"
        )
    return value[:_LENGTH].astype(np.int64).view(np.uint64)


def _moved(position: np.ndarray, blocks: int) -> np.ndarray:
    """Return the position `blocks` later, blocks in [0, 2**64).

    The carry that TensorFlow's 32-bit halves lose is lost here too.
    """
    low, count = int(position[0]), blocks >> 32
    first = (low & _HALF) + (blocks & _HALF)
    count = count + (first >> 32) & _HALF  # a step back by less than 2**32 loses its carry here
    second = (low >> 32) + count
    return np.array(
        [
            (second & _HALF) << 32 | first & _HALF,
            (int(position[1]) + (second >> 32)) & _MASK,
            position[2],
        ],
        np.uint64,
    )


def _taken(variable: Variable, blocks: int) -> np.ndarray:
    """Return the position and advance the variable by `blocks`.

    No two runs get the same position.
    """
    with variable.lock:
        before = _position(variable)
        if blocks:
            value = variable.initialized_value().copy()
            value[:_LENGTH] = _moved(before, blocks).view(np.int64)
            variable.assign(value)
    return before


def _sizes(value: Any) -> tuple[int, ...]:
    array = np.asarray(value)
    if array.ndim != 1:
        raise _fail(
            f"shape must be a vector of {{int32,int64}}, got shape {format_shape(array.shape)}"
        )
    for size in array.tolist():
        if size < 0:
            raise _fail(f"Dimension {size} must be >= 0")
    return tuple(array.tolist())


def _count(shape: Sequence[int]) -> int:
    return int(np.prod(shape, dtype=np.int64))


@runtime_kernel(
    "StatefulUniform",
    "StatefulUniformFullInt",
    "StatefulStandardNormalV2",
    "StatefulTruncatedNormal",
    "StatefulUniformInt",
    "StatefulRandomBinomial",
)
def _values(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return the device's values at the variable's position."""
    variable, algorithm, size, *limits = inputs
    _check_algorithm(algorithm)
    if ctx.op == "StatefulUniformInt":
        first, last = _scalar(limits[0], "minval"), _scalar(limits[1], "maxval")
        if first >= last:
            raise _fail(f"Need minval < maxval, got {first} >= {last}")
    position = _taken(variable, _count(_sizes(size)) * BLOCKS_PER_OUTPUT)
    kernel = ctx.device.backend.kernel(ctx.op)
    assert kernel is not None  # else the node were not on the device
    return kernel(NodeSpec(ctx.name, ctx.op, ctx.attrs, (), (), {}, position), inputs)


@runtime_kernel("RngSkip")
def _skip(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Skip `delta` outputs.

    A negative number counts as one of 64 bits without a sign.
    """
    variable, algorithm, delta = inputs
    _check_algorithm(algorithm)
    _taken(variable, _scalar(delta, "delta") * BLOCKS_PER_OUTPUT & _MASK)
    return ()


@runtime_kernel("RngReadAndSkip")
def _read_and_skip(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return the value that the variable had."""
    variable, algorithm, delta = inputs
    _check_algorithm(algorithm)
    with variable.lock:
        before = variable.initialized_value().copy()
    position = _taken(variable, _scalar(delta, "delta") * BLOCKS_PER_OUTPUT & _MASK)
    before[:_LENGTH] = position.view(np.int64)
    return (before,)
