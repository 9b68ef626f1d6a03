"""Chain launches around a routine or call: transposed operands before, results behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tfjit.kernels.cpu.data_movement.strided_copy import View
from tfjit.kernels.cpu.template.call_builder import moved_pointer
from tfjit.kernels.cpu.template.iteration_space import c_strides
from tfjit.kernels.cuda.data_movement.strided_copy import copy_launch
from tfjit.kernels.cuda.libraries.convolution_problem import WORKSPACE_BYTES, ConvolutionProblem
from tfjit.kernels.registry import (
    Launch,
    LibraryForm,
    LibraryLaunch,
    NativeCall,
    Pointer,
    TensorSpec,
    Word,
)


class LaunchChain:
    """Collector of launches that run in order, with the buffers between them."""

    def __init__(self) -> None:
        self._launches: list[Launch | LibraryLaunch] = []
        self._temps: list[int] = []
        self._constants: list[np.ndarray] = []

    def temp(self, nbytes: int) -> Pointer:
        """Return a new temporary."""
        self._temps.append(nbytes)
        return Pointer("temp", len(self._temps) - 1)

    def in_order(
        self, spec: TensorSpec, axes: Sequence[int], at: Pointer, value: np.ndarray | None
    ) -> Pointer:
        """Return a tensor with its axes in another order.

        value: if it is known.
        """
        if value is not None:
            self._constants.append(np.ascontiguousarray(value.transpose(axes)))
            return Pointer("const", len(self._constants) - 1)
        target = self.temp(spec.nbytes)
        strides = c_strides(spec.shape, spec.dtype.size)
        self._copy(spec, axes, strides, at, target)
        return target

    def from_order(self, spec: TensorSpec, axes: Sequence[int], at: Pointer, to: Pointer) -> None:
        """Copy a tensor from another order of its axes to its own."""
        moved = c_strides([spec.shape[axis] for axis in axes], spec.dtype.size)
        own = [0] * len(axes)
        for place, axis in enumerate(axes):
            own[axis] = moved[place]
        self._copy(spec, range(len(axes)), own, at, to)

    def _copy(
        self,
        spec: TensorSpec,
        axes: Sequence[int],
        strides: Sequence[int],
        at: Pointer,
        to: Pointer,
    ) -> None:
        shape = tuple(spec.shape[axis] for axis in axes)
        source = View(shape, tuple(strides[axis] for axis in axes))
        target = View(shape, tuple(c_strides(shape, spec.dtype.size)))
        launch = copy_launch(spec.dtype.size, source, target, at, to)
        if launch is not None:
            self._launches.append(launch)

    def routine(self, problem: ConvolutionProblem, *tensors: Pointer) -> None:
        """Add the call of a routine.

        tensors: in the order of the problem's words.
        """
        workspace = self.temp(WORKSPACE_BYTES)
        words: tuple[Word, ...] = (*tensors, workspace)
        self._launches.append(LibraryLaunch(problem, words, workspace.index))

    def call(self, call: NativeCall, ins: Sequence[Pointer], outs: Sequence[Pointer]) -> None:
        """Add the launches of a call.

        ins, outs: places of its inputs and outputs.
        """
        after = len(self._temps), len(self._constants)
        for launch in call.launches:
            words = [
                moved_pointer(word, ins, outs, *after) if isinstance(word, Pointer) else word
                for word in launch.words
            ]
            self._launches.append(replace(launch, words=tuple(words)))
        self._temps += call.temp_bytes
        self._constants += call.constants

    def library_form(self) -> LibraryForm:
        """Return the chain as a form of a call."""
        return LibraryForm(tuple(self._launches), tuple(self._temps), tuple(self._constants))

    def native_call(self, bytes_moved: int, flops: int) -> NativeCall:
        """Return the chain as a call, which it is without routines."""
        kernels = tuple(one for one in self._launches if isinstance(one, Launch))
        if len(kernels) < len(self._launches):
            raise ValueError("a call has kernels alone")
        constants = tuple(self._constants)
        return NativeCall(
            kernels, (), tuple(self._temps), constants, bytes_moved=bytes_moved, flops=flops
        )


__all__ = ["LaunchChain"]
