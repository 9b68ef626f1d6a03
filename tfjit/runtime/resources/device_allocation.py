"""Tell in TensorFlow's words which tensor found no memory on a device."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tfjit.framework import errors
from tfjit.framework.types.dtypes import short_name
from tfjit.framework.types.shape import format_shape
from tfjit.runtime.host.device import TASK_PREFIX

if TYPE_CHECKING:
    from tfjit.framework.types.dtypes import DType
    from tfjit.kernels.ir.accelerator import Accelerator

HINT: Final = (
    "\nHint: If you want to see a list of allocated tensors when OOM happens, add "
    "report_tensor_allocations_upon_oom to RunOptions for current allocation info. This isn't "
    "available when running in Eager mode."
)


@dataclass(frozen=True, slots=True)
class AllocatedTensor:
    """A tensor that takes memory.

    node: its maker, "" if unknown.
    """

    shape: tuple[int, ...]
    dtype: DType
    node: str = ""


def out_of_memory(
    error: errors.ResourceExhaustedError,
    tensor: AllocatedTensor,
    accelerator: Accelerator,
    device: str = "",
) -> errors.OpError:
    """Return an accelerator's error as that of a tensor, with its node.

    error: the accelerator's, whose words follow. device: full name, of the local task by default.
    """
    device = device or f"{TASK_PREFIX}/device:GPU:{accelerator.number}"
    number = device.rpartition(":")[2]
    first = (
        f"OOM when allocating tensor with shape{format_shape(tensor.shape)} and type "
        f"{short_name(tensor.dtype)} on {device} by allocator GPU_{number}_bfc"
    )
    node = f"\n\t [[{{{{node {tensor.node}}}}}]]" if tensor.node else ""
    return error.restated(f"{first}{node}\n{error.message}")


@contextmanager
def allocating(
    tensor: AllocatedTensor, accelerator: Accelerator, device: str = ""
) -> Iterator[None]:
    """Name the tensor in the error of an allocation in the block."""
    try:
        yield
    except errors.ResourceExhaustedError as error:
        raise out_of_memory(error, tensor, accelerator, device) from None


def with_hint(error: errors.OpError) -> errors.OpError:
    """Return an error of missing memory with TensorFlow's hint."""
    return error if HINT in error.message else error.restated(error.message + HINT)


__all__ = ["HINT", "AllocatedTensor", "allocating", "out_of_memory", "with_hint"]
