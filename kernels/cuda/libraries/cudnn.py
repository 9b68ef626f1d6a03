"""Compute convolutions by cuDNN, through its backend graph API.

As with products, a routine is called once a program, by the capture of a CUDA graph.
"""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from ctypes import byref, c_void_p
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Final

import numpy as np

from tfjit.framework import errors, settings
from tfjit.framework.types import dtypes
from tfjit.kernels.cuda.libraries import cudnn_descriptors as d
from tfjit.kernels.cuda.libraries import library_files
from tfjit.kernels.cuda.libraries.convolution_problem import (
    ADDED,
    BIAS,
    FILTER,
    IMAGES,
    RESULTS,
    ConvolutionProblem,
)
from tfjit.kernels.cuda.libraries.cudnn_descriptors import CudnnFunctions, Descriptor
from tfjit.kernels.cuda.libraries.cudnn_plans import Plan, Target, find_plan
from tfjit.kernels.cuda.libraries.device_libraries import (
    LibraryFailure,
    VendorLibrary,
    run_once,
)
from tfjit.kernels.cuda.libraries.passed_checks import path_of
from tfjit.kernels.ir.accelerator import LibraryRoutine, RoutineFailed

if TYPE_CHECKING:
    from tfjit.kernels.ir.accelerator import Accelerator, HostArray
    from tfjit.kernels.registry import LibraryProblem

_BY_HANDLE, _BY_DESCRIPTOR = "by handle", "by descriptor"  # ways to name the device
_NEAR: Final = 0.02
"""The relative error of a check.

The numbers are small and whole, so that only transforms (Winograd, FFT) round; another layout, a
shifted window or a wrong stride gives other numbers altogether.
"""


class Cudnn(VendorLibrary):
    """The library with a handle for the current context."""

    def __init__(self, functions: ctypes.CDLL) -> None:
        """Make the handle. Raises MissingLibrary, LibraryFailure."""
        self.functions = CudnnFunctions(functions)
        self.lock = threading.RLock()  # of the handle, which one thread may use at a time
        self.file = path_of(functions)
        number = self.functions.version
        self.version = f"{number // 10000}.{number // 100 % 100}.{number % 100}"
        self.handle = c_void_p()
        self.functions.call("cudnnCreate", byref(self.handle))
        weakref.finalize(
            self, _destroy, functions.cudnnDestroy, self.handle, os.getpid()
        ).atexit = False
        self._target = Target(self.handle.value or 0)

    def routine(self, problem: LibraryProblem) -> LibraryRoutine | None:
        assert isinstance(problem, ConvolutionProblem)
        with self.lock:
            plan, reason = find_plan(self.functions, self._target, problem)
        if plan is None:
            settings.say("kernels", "%s: %s", problem.title, reason)
            return None
        return _ConvolutionRoutine(self, problem, plan)

    def check(self, accelerator: Accelerator) -> Iterator[None]:
        try:
            yield from self._check_all(accelerator)
        except (LibraryFailure, RoutineFailed, errors.OpError) as failure:
            # cuDNN has another way to name the device
            settings.say("kernels", "cuDNN %s by its handle: %s", self.version, failure)
            self._describe_device()
            yield from self._check_all(accelerator)

    def remembered(self) -> str:
        return _BY_HANDLE if self._target.device is None else _BY_DESCRIPTOR

    def recall(self, text: str) -> bool:
        if text == _BY_DESCRIPTOR:
            self._describe_device()
        return text in (_BY_HANDLE, _BY_DESCRIPTOR)

    def _describe_device(self) -> None:
        """Name the device by a descriptor from now on."""
        device = Descriptor(self.functions, d.DEVICE)
        device.set(d.DEVICE_HANDLE, self.handle.value or 0).finalize()
        self._target = Target(device=device)

    def _check_all(self, accelerator: Accelerator) -> Iterator[None]:
        computed = 0
        for problem in checked_problems():
            routine = self.routine(problem)
            if routine is not None:
                computed += 1
                _check(accelerator, problem, routine)
            yield
        if not computed:
            raise LibraryFailure("it has a plan for none of the problems that are checked")


def _destroy(destroy: Callable[[c_void_p], int], handle: c_void_p, process: int) -> None:
    # a forked child has no context
    if os.getpid() == process:
        destroy(handle)


class _ConvolutionRoutine(LibraryRoutine):
    """A convolution with its plan."""

    def __init__(self, library: Cudnn, problem: ConvolutionProblem, plan: Plan) -> None:
        self._library, self._problem, self._plan = library, problem, plan
        self.workspace_bytes = plan.workspace_bytes
        elements = max(prod(problem.sizes(tensor)) for tensor in problem.tensors)
        self.reach_bytes = max(plan.workspace_bytes, elements * problem.dtype.size)

    def queue(self, stream: int, words: Sequence[int]) -> None:
        library, plan = self._library, self._plan
        *tensors, workspace = words
        try:
            pack = plan.pack(dict(zip(self._problem.tensors, tensors, strict=True)), workspace)
            with library.lock:
                library.functions.call("cudnnSetStream", library.handle, stream)
                library.functions.call(
                    "cudnnBackendExecute", library.handle, plan.descriptor.address, pack.address
                )
        except LibraryFailure as failure:
            title = f"{self._problem.title}, engine {plan.engine}"
            raise errors.InternalError(None, None, f"{title}: {failure}") from None


def checked_problems() -> Iterator[ConvolutionProblem]:
    """Yield the problems of the check: unequal sizes, uneven padding."""
    strided = ConvolutionProblem(
        "forward", dtypes.float32, 2, 8, 16, size=(9, 7), out=(5, 7), taps=(3, 2), strides=(2, 1),
        before=(1, 0), after=(1, 1),
    )  # fmt: skip
    for form in (
        replace(strided, tf32=True),
        replace(strided, strides=(1, 1), dilations=(1, 2), out=(9, 6), channels_last=False),
        replace(strided, dtype=dtypes.float16),
        replace(strided, dtype=dtypes.float64),
    ):
        for kind in ("forward", "input gradient", "filter gradient"):
            yield replace(form, kind=kind)
    yield ConvolutionProblem(
        "forward", dtypes.float32, 2, 8, 16, size=(6, 7), out=(6, 7), taps=(3, 3), before=(1, 1),
        after=(1, 1), epilogue=("add", "bias", "relu"), tf32=True,
    )  # fmt: skip


def _check(accelerator: Accelerator, problem: ConvolutionProblem, routine: LibraryRoutine) -> None:
    """Compare a routine's results with the host's.

    Raises LibraryFailure.
    """
    arrays = {
        tensor: (np.arange(np.prod(problem.sizes(tensor))) * (2 * tensor + 1) % 7 - 3.0)
        .reshape(problem.sizes(tensor))
        for tensor in problem.tensors
    }  # fmt: skip
    result = problem.tensors[-1]
    arrays[result] = expected = _computed(problem, arrays)
    kind = problem.dtype.as_numpy_dtype
    held: list[HostArray] = [
        np.ascontiguousarray(arrays[t].transpose(problem.order).astype(kind))
        for t in problem.tensors
    ]
    held[-1][...] = -1
    run_once(accelerator, routine, held)
    error = np.abs(held[-1].astype(np.float64) - expected.transpose(problem.order)).max()
    if not error <= _NEAR * np.abs(expected).max():
        raise LibraryFailure(f"{problem.title} has wrong results")


def _computed(problem: ConvolutionProblem, arrays: dict[int, np.ndarray]) -> np.ndarray:
    """Return the result of a problem, tap by tap.

    arrays: by tensor, with one of the result's sizes.
    """
    x = np.zeros(problem.sizes(IMAGES)) if problem.kind == "input gradient" else arrays[IMAGES]
    around = [(0, 0), (0, 0), *zip(problem.before, problem.after)]
    padded = np.pad(x, around)
    w, y = arrays[FILTER], arrays[RESULTS]
    made = np.zeros_like(
        {"forward": y, "filter gradient": w, "input gradient": padded}[problem.kind]
    )
    for row, column in np.ndindex(*problem.taps):
        first = row * problem.dilations[0], column * problem.dilations[1]
        down, along = (
            slice(start, start + (count - 1) * step + 1, step)
            for start, count, step in zip(first, problem.out, problem.strides)
        )
        images, tap = padded[:, :, down, along], w[:, :, row, column]
        if problem.kind == "forward":
            made += np.einsum("nchw,kc->nkhw", images, tap)
        elif problem.kind == "filter gradient":
            made[:, :, row, column] = np.einsum("nchw,nkhw->kc", images, y)
        else:
            made[:, :, down, along] += np.einsum("nkhw,kc->nchw", y, tap)
    if problem.kind == "input gradient":
        top, left = problem.before
        return made[:, :, top : top + problem.size[0], left : left + problem.size[1]]
    for member in problem.epilogue:
        if member == "relu":
            made = np.maximum(made, 0)
        else:
            made = made + arrays[BIAS if member == "bias" else ADDED]
    return made


def open_for(driver_version: int, apart: AbstractContextManager[object]) -> Cudnn:
    """Open the library for the current context.

    apart: the handle is made in its block, since the library may wait for the device. Raises
    MissingLibrary, LibraryFailure.
    """
    functions = library_files.open_cudnn(driver_version)
    with apart:
        return Cudnn(functions)


__all__ = ["Cudnn", "checked_problems", "open_for"]
