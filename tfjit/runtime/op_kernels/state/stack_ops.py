"""Stacks: values that a loop saves for its gradient.

Each run of a Stack node makes a new one; a resource handle is the stack itself.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tfjit.framework import errors
from tfjit.runtime.host.fork_safety import release_lock
from tfjit.runtime.kernel_api.op_kernel import OpContext, runtime_kernel
from tfjit.runtime.resources.variables_and_resources import Variable

if TYPE_CHECKING:
    from tfjit.framework.types.dtypes import DType

_numbers: Final = itertools.count()


class Stack:
    """A stack resource.

    max_size: elements; negative = no limit.
    """

    __slots__ = ("_elements", "_lock", "closed", "dtype", "max_size", "name")

    def __init__(self, name: str, dtype: DType, max_size: int) -> None:
        self.name = name
        self.dtype = dtype
        self.max_size = max_size
        self.closed = False
        self._elements: list[Any] = []
        self._lock = threading.Lock()

    def _check_open(self) -> None:
        if self.closed:
            raise errors.InvalidArgumentError(
                None, None, f"Stack[{self.name}] has already been closed."
            )

    def push(self, value: Any) -> None:
        """Raise InvalidArgumentError when the stack is closed or full."""
        with self._lock:
            self._check_open()
            if 0 <= self.max_size <= len(self._elements):
                raise errors.InvalidArgumentError(
                    None, None, f"Stack[{self.name}] overflowed its max_size ({self.max_size})"
                )
            self._elements.append(value)

    def pop(self) -> Any:
        """Raise InvalidArgumentError when the stack is closed or empty."""
        with self._lock:
            self._check_open()
            if not self._elements:
                raise errors.InvalidArgumentError(
                    None, None, f"Stack[{self.name}] is empty when calling Pop()."
                )
            return self._elements.pop()

    def after_fork(self) -> None:
        """Put things in order in a forked child."""
        release_lock(self._lock)

    def close(self) -> None:
        """Drop the elements; every later use raises."""
        with self._lock:
            self.closed = True
            self._elements.clear()


@runtime_kernel("Stack", "StackV2")
def make_stack(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return a new, empty stack."""
    name = ctx.attrs.get("stack_name", b"").decode() or ctx.name
    size = int(np.asarray(inputs[0])) if inputs else -1
    return (Stack(f"{name}_{next(_numbers)}", ctx.attrs["elem_type"], size),)


@runtime_kernel("StackPush", "StackPushV2")
def push(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Push a value and pass it on."""
    stack, value = inputs
    if isinstance(value, Variable):
        value = value.initialized_value().copy()
    if ctx.attrs["T"] != stack.dtype:
        raise errors.InvalidArgumentError(
            None, None, f"Must have type {stack.dtype.name} but got {ctx.attrs['T'].name}"
        )
    stack.push(value)
    return (value,)


@runtime_kernel("StackPop", "StackPopV2")
def pop(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return the value pushed last."""
    return (inputs[0].pop(),)


@runtime_kernel("StackClose", "StackCloseV2")
def close(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Drop the stack's elements."""
    inputs[0].close()
    return ()
