"""Kernels of a session's custom kernel creator.

The creator is asked once for each node, and outputs are checked before use.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tfjit.framework import errors
from tfjit.framework.types.shape import format_shape, is_compatible
from tfjit.runtime.host.fork_safety import release_lock
from tfjit.runtime.kernel_api.op_kernel import OpContext, RuntimeKernel, SyncKernel

if TYPE_CHECKING:
    from tfjit.passes.ir.dataflow_graph import Node


# (NodeDef of a node as it will run) -> its kernel, (OpContext, inputs) -> outputs;
# None leaves the node to tfjit
KernelCreator = Callable[[Any], SyncKernel | None]


class CustomKernels:
    """A session's custom kernels by node name.

    Calling it with a node asks the creator, once for each name.
    """

    def __init__(self, creator: KernelCreator) -> None:
        self._creator = creator
        self._kernels: dict[str, SyncKernel | None] = {}
        self._lock = threading.Lock()

    def after_fork(self) -> None:
        """Reset the kernels' lock in a forked child."""
        release_lock(self._lock)

    def __call__(self, node: Node) -> SyncKernel | None:
        """Return the node's kernel, or None when the creator declines.

        Raises InvalidArgumentError when the creator's result cannot be called.
        """
        with self._lock:  # a kernel with state is made once
            if node.name not in self._kernels:
                kernel = self._creator(getattr(node, "def"))
                if kernel is not None and not callable(kernel):
                    raise errors.InvalidArgumentError(
                        None,
                        None,
                        f"the custom kernel creator returned a {type(kernel).__name__} for "
                        f"{{{{node {node.name}}}}} ({node.op}): "
                        "expected None or a function (ctx, inputs) -> outputs",
                    )
                self._kernels[node.name] = kernel
            return self._kernels[node.name]


def custom_kernel(node: Node) -> RuntimeKernel | None:
    """Return the runtime kernel of a node that has a custom one."""
    kernel = getattr(node.op_def, "kernel", None)
    return (
        None
        if kernel is None or node.op_def is None
        else RuntimeKernel(_checked_kernel(node.op_def.name, kernel))
    )


def _checked_kernel(op: str, kernel: SyncKernel) -> SyncKernel:
    """Return the kernel with checks of its outputs.

    Compiled code may take checked outputs: they have the node's number, dtypes and shapes, and lie
    in memory that is not used elsewhere.
    """

    def compute(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
        outputs = kernel(ctx, inputs)
        if not isinstance(outputs, (tuple, list)) or len(outputs) != len(ctx.output_dtypes):
            got = (
                f"{len(outputs)} outputs"
                if isinstance(outputs, (tuple, list))
                else f"a {type(outputs).__name__}"
            )
            raise errors.InternalError(
                None,
                None,
                f"the custom kernel of {op} returned {got}, expected a list of "
                f"{len(ctx.output_dtypes)}",
            )
        return [_checked(op, ctx, output, value, inputs) for output, value in enumerate(outputs)]

    return compute


def _checked(op: str, ctx: OpContext, output: int, value: Any, inputs: Sequence[Any]) -> Any:
    dtype, shape = ctx.output_dtypes[output], ctx.output_shapes[output]
    if dtype.is_ref or not dtype.is_numpy_compatible:
        return value
    array = np.asarray(value)
    if array.dtype != dtype.as_numpy_dtype or not is_compatible(shape, array.shape):
        raise errors.InternalError(
            None,
            None,
            f"output {output} of the custom kernel of {op} is "
            f"{array.dtype}{format_shape(array.shape)}, "
            f"expected {dtype.name}{format_shape(shape)}",
        )
    own = (
        array.base is None
        and array.flags.c_contiguous
        and not any(array is other for other in inputs)
    )
    return array if own else np.array(array, order="C")
