"""Hold the memory of one program; name the tensor that finds none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from tfjit.framework import errors
from tfjit.framework.types import dtypes
from tfjit.framework.types.dtypes import as_dtype
from tfjit.runtime.offload.device_memory import lay_out_program
from tfjit.runtime.offload.staging import Staging
from tfjit.runtime.resources.device_allocation import (
    AllocatedTensor,
    allocating,
    out_of_memory,
)
from tfjit.runtime.step.memory_planner import align

if TYPE_CHECKING:
    from tfjit.kernels.ir.accelerator import Accelerator
    from tfjit.runtime.lowering.lowering import Instruction, Lowered, Value
    from tfjit.runtime.offload.library_forms import ProgramCall

    Step = tuple[Instruction, ProgramCall | None]


@dataclass(frozen=True, slots=True)
class ProgramNames:
    """The names that errors of a program tell.

    device: its full name. arguments: the nodes that make the arguments, by index.
    """

    device: str = ""
    arguments: tuple[str, ...] = ()


NO_NAMES: Final = ProgramNames()
_NODES: Final = ("buffer", "feed", "object")  # storages of values in the arena


class ProgramMemory:
    """The arena, the constants and the page-locked memory of a program.

    layout: the places in the first two. staging: the places in page-locked memory. arena,
    constants: addresses, 0 before there is memory.
    """

    def __init__(
        self,
        accelerator: Accelerator,
        lowered: Lowered,
        steps: list[Step],
        staged: Sequence[Value],
        read_back: Sequence[Value],
        names: ProgramNames = NO_NAMES,
    ) -> None:
        """Choose the places; nothing is allocated.

        staged, read_back: feeds and results that pass through host memory.
        """
        self._accelerator, self._names = accelerator, names
        self._lowered, self._steps = lowered, steps
        self.layout = lay_out_program(lowered, steps)
        self.staging = Staging(staged, read_back, self.layout.stream_bytes)
        self.arena = self.constants = 0

    @property
    def device_bytes(self) -> int:
        """The bytes of device memory."""
        return self.layout.arena_bytes + self.layout.constant_bytes

    @property
    def is_allocated(self) -> bool:
        """Whether there is memory."""
        return self.staging.is_allocated

    def allocate(self) -> None:
        """Allocate all of it and write the constants, or nothing.

        Raises ResourceExhaustedError, which names the first tensor that does not fit.
        """
        try:
            self._allocate()
        except BaseException:
            self.release()
            raise

    def _allocate(self) -> None:
        device, layout = self._accelerator, self.layout
        try:
            self.arena = device.allocate(max(layout.arena_bytes, 1))
        except errors.ResourceExhaustedError as error:
            beyond = self._beyond(device.available_bytes())
            raise out_of_memory(error, beyond, device, self._names.device) from None
        if layout.constants:
            with allocating(self._largest_constant(), device, self._names.device):
                self.constants = device.allocate(layout.constant_bytes)
            for start, array in {id(a): (s, a) for s, a in layout.constants.values()}.values():
                device.write(self.constants + start, np.ascontiguousarray(array))
        self.staging.allocate(device)

    def release(self) -> None:
        """Give the memory back. Nothing uses it any more."""
        for address in (self.arena, self.constants):
            if address:
                self._accelerator.free(address)
        self.arena = self.constants = 0
        self.staging.release()

    def _beyond(self, available: int) -> AllocatedTensor:
        """Return the first tensor that ends behind the available bytes.

        The order is that of the steps: feeds, then the outputs and workspaces of each step.
        """
        most, largest = -1, AllocatedTensor((self.layout.arena_bytes,), dtypes.uint8)
        for end, nbytes, tensor in self._placed():
            if end > available:
                return tensor
            if nbytes > most:
                most, largest = nbytes, tensor
        return largest  # others have taken or given memory meanwhile

    def _placed(self) -> Iterator[tuple[int, int, AllocatedTensor]]:
        """Yield end, bytes and description of each tensor in the arena."""
        met: set[int] = set()

        def meet(value: Value, node: str) -> Iterator[tuple[int, int, AllocatedTensor]]:
            root = value.root
            if root.storage in _NODES and root.index not in met:
                met.add(root.index)
                nbytes = root.spec.nbytes
                end = self.layout.offsets[root.index] + align(nbytes)
                yield end, nbytes, AllocatedTensor(root.shape, root.dtype, node)

        arguments = self._names.arguments
        for index, value in sorted(self._lowered.feeds.items()):
            yield from meet(value, arguments[index] if index < len(arguments) else node_of(value))
        for (instruction, call), offsets in zip(self._steps, self.layout.temps, strict=True):
            for value in instruction.outputs:
                yield from meet(value, instruction.node_path)
            sizes = call.temp_bytes if call is not None else ()
            for size, offset in zip(sizes, offsets, strict=True):
                scratch = AllocatedTensor((size,), dtypes.uint8, instruction.node_path)
                yield offset + align(size), size, scratch

    def _largest_constant(self) -> AllocatedTensor:
        """Return the largest constant, with the node that has or needs it."""
        key, (_, array) = max(self.layout.constants.items(), key=lambda item: item[1][1].nbytes)
        if isinstance(key, tuple):
            node = self._steps[key[0]][0].node_path
        else:
            node = node_of(next(v for v in self._lowered.values if v.index == key))
        return AllocatedTensor(array.shape, as_dtype(array.dtype), node)


def node_of(value: Value) -> str:
    """Return the node that makes a value, "" if unknown."""
    return value.producer.partition(":")[0]


__all__ = ["NO_NAMES", "ProgramMemory", "ProgramNames", "node_of"]
