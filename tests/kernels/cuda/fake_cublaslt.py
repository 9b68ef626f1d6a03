"""A cuBLASLt over host memory: it computes by the descriptors, as NVIDIA documents them.

Calls come through ctypes' own conversions, with the types that the binding declares. Matrices are
by columns, with leading dimensions, batches at strides, transposes, epilogues, and operands rounded
for TF32. The workspace is overwritten with garbage.
"""

from __future__ import annotations

import ctypes
import itertools
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tfjit.kernels.cuda.device.simulated_accelerator import SimulatedAccelerator
from tfjit.kernels.cuda.libraries import library_files
from tfjit.kernels.cuda.libraries.cublaslt import SIGNATURES
from tfjit.kernels.cuda.libraries.device_libraries import DeviceLibraries
from tfjit.kernels.cuda.libraries.library_files import MissingLibrary
from tfjit.kernels.ir.accelerator import LibraryRoutine
from tfjit.kernels.ir.library_opening import LibraryOpening
from tfjit.kernels.registry import LibraryProblem

SUCCESS, NOT_INITIALIZED, INVALID_VALUE, NOT_SUPPORTED = 0, 1, 7, 15
DTYPES: dict[int, Any] = {0: np.float32, 1: np.float64, 2: np.float16, 14: ml_dtypes.bfloat16}
WORKSPACE = 4096
SIZES = {
    "cublasLtMatmulDesc": {0: 4, 1: 4, 3: 4, 4: 4, 7: 4, 8: 8},
    "cublasLtMatrixLayout": {0: 4, 1: 4, 2: 8, 3: 8, 4: 8, 5: 4, 6: 8},
    "cublasLtMatmulPreference": {1: 8, 3: 4, 5: 4, 6: 4, 7: 4, 8: 4},
}
"""Bytes of each attribute, by kind of descriptor and number (cublasLt.h)."""


@dataclass
class Descriptor:
    """A descriptor: its kind, the arguments of its creation, its attributes."""

    kind: str
    arguments: tuple[int, ...]
    attributes: dict[int, int] = field(default_factory=dict)


class FakeCublasLt:
    """The functions of the library, by name.

    calls: the names of the functions that were called. failing: function -> status. refuses: tells
    for the epilogue and dtypes of a product whether there is no algorithm. streams: those of
    products. planners: the threads that asked for algorithms. wrong: products are one too large. opens: the library is not open before this event.
    """

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.failing: dict[str, int] = {}
        self.refuses: Callable[[int, Any, Any], bool] = lambda epilogue, operand, result: False
        self.streams: list[int | None] = []
        self.planners: list[threading.Thread] = []
        self.wrong = False
        self.opens = threading.Event()
        self.opens.set()
        self.objects: dict[int, Descriptor] = {}
        self._handles = itertools.count(0x10000, 16)
        self._text = ctypes.create_string_buffer(b"the text of the library")
        for name, arguments in SIGNATURES.items():
            restype = {
                "cublasLtGetVersion": ctypes.c_size_t, "cublasLtGetStatusString": ctypes.c_void_p,
            }.get(name, ctypes.c_int)  # fmt: skip
            callback = ctypes.CFUNCTYPE(restype, *arguments)(self._recorded(name))
            setattr(self, name, callback)

    def _recorded(self, name: str) -> Callable[..., int]:
        def function(*arguments: Any) -> int:
            self.calls.append(name)
            if name in self.failing:
                return self.failing[name]
            try:
                return self._answer(name, arguments)
            except Exception as error:  # ctypes would print it and go on
                self.calls.append(repr(error))
                return 14

        return function

    def _answer(self, name: str, arguments: tuple[Any, ...]) -> int:
        if name == "cublasLtGetVersion":
            return 131000
        if name == "cublasLtGetStatusString":
            return ctypes.addressof(self._text)
        if name.endswith("Create"):
            handle = next(self._handles)
            kind = name.removesuffix("Create")
            self.objects[handle] = Descriptor(kind, tuple(arguments[1:]))
            arguments[0][0] = ctypes.c_void_p(handle)
            return SUCCESS
        if name.endswith("Destroy"):
            del self.objects[arguments[0]]
            return SUCCESS
        if name.endswith("SetAttribute"):
            return self._set(name.removesuffix("SetAttribute"), *arguments)
        if name == "cublasLtMatmulAlgoGetHeuristic":
            return self._heuristic(*arguments)
        return self._multiply(*arguments)

    def _set(self, kind: str, handle: int, attribute: int, address: int, size: int) -> int:
        found = self.objects[handle]
        if found.kind != kind or SIZES[kind].get(attribute) != size:
            return INVALID_VALUE
        code = {4: "i", 8: "q"}[size]
        found.attributes[attribute] = struct.unpack(code, ctypes.string_at(address, size))[0]
        return SUCCESS

    def _heuristic(
        self, handle: int, descriptor: int, a: int, b: int, c: int, d: int, preference: int,
        asked: int, results: int, count: Any,
    ) -> int:  # fmt: skip
        assert self.objects[handle].kind == "cublasLt" and asked == 1
        self.planners.append(threading.current_thread())
        wanted = self.objects[preference].attributes
        if self.objects[d].arguments[0] in (2, 14):  # no sums in 16 bits
            assert wanted[3] == 2
        assert wanted[1] >= WORKSPACE and {wanted[k] for k in (5, 6, 7, 8)} == {16}
        product = self.objects[descriptor]
        epilogue = product.attributes.get(7, 1)
        if epilogue & 4 and not product.attributes.get(8):
            return INVALID_VALUE  # a bias without an address
        rows, columns, inner = self._sizes(product, a, b)
        for layout in (c, d):
            if self.objects[layout].arguments[1:3] != (rows, columns):
                return INVALID_VALUE
        dtypes = DTYPES[self.objects[a].arguments[0]], DTYPES[self.objects[d].arguments[0]]
        if inner == 0 or self.refuses(epilogue, *dtypes):
            return NOT_SUPPORTED
        # cublasLtMatmulHeuristicResult_t
        ctypes.memmove(results, struct.pack("=64sQif16x", b"algorithm", WORKSPACE, 0, 1.0), 96)
        count[0] = 1
        return SUCCESS

    def _sizes(self, product: Descriptor, a: int, b: int) -> tuple[int, int, int]:
        """Return m, n and k as the library counts them: the result is m x n by columns."""
        (_, *a_size, a_ld), (_, *b_size, b_ld) = (self.objects[x].arguments for x in (a, b))
        assert a_ld >= a_size[0] and b_ld >= b_size[0]
        m, k = reversed(a_size) if product.attributes.get(3) else a_size
        k2, n = reversed(b_size) if product.attributes.get(4) else b_size
        assert k == k2
        return m, n, k

    def _matrix(self, layout: int, address: int, number: int) -> np.ndarray:
        found = self.objects[layout]
        code, rows, columns, ld = found.arguments
        dtype = np.dtype(DTYPES[code])
        address += number * found.attributes.get(6, 0) * dtype.itemsize
        size = ((columns - 1) * ld + rows) * dtype.itemsize
        flat = np.frombuffer((ctypes.c_uint8 * size).from_address(address), dtype)
        return np.lib.stride_tricks.as_strided(
            flat, (rows, columns), (dtype.itemsize, ld * dtype.itemsize)
        )

    def _multiply(
        self, handle: int, descriptor: int, alpha: int, a: int, a_layout: int, b: int,
        b_layout: int, beta: int, c: int, c_layout: int, d: int, d_layout: int, algorithm: int,
        workspace: int, workspace_bytes: int, stream: int | None,
    ) -> int:  # fmt: skip
        assert self.objects[handle].kind == "cublasLt"
        assert ctypes.string_at(algorithm, 9) == b"algorithm" and workspace_bytes == WORKSPACE
        assert c_layout == d_layout
        for address in (a, b, c, d):
            assert address % 16 == 0
        assert workspace % 256 == 0
        self.streams.append(stream)
        product = self.objects[descriptor]
        compute, scale = product.arguments
        wide = np.float64 if compute == 70 else np.float32
        assert DTYPES[scale] is wide
        one, factor = (
            np.frombuffer(ctypes.string_at(address, np.dtype(wide).itemsize), wide)[0]
            for address in (alpha, beta)
        )
        assert one == 1.0 and (factor != 0) == (c != d)
        ctypes.memset(workspace, 0x5A, workspace_bytes)
        epilogue = product.attributes.get(7, 1)
        for number in range(self.objects[d_layout].attributes.get(5, 1)):
            left = self._matrix(a_layout, a, number).astype(wide)
            right = self._matrix(b_layout, b, number).astype(wide)
            if compute == 77:
                left, right = as_tf32(left), as_tf32(right)
            left = left.T if product.attributes.get(3) else left
            right = right.T if product.attributes.get(4) else right
            found = left @ right + wide(self.wrong)
            target = self._matrix(d_layout, d, number)
            if factor:
                found = found + factor * self._matrix(c_layout, c, number).astype(wide)
            if epilogue & 4:
                found = found + self._bias(product, target)[:, None]
            if epilogue & 2:
                found = np.maximum(found, 0)
            if epilogue & 32:
                inner = np.sqrt(2 / np.pi) * (found + 0.044715 * found**3)
                found = 0.5 * found * (1 + np.tanh(inner))
            target[...] = found.astype(target.dtype)
        return SUCCESS

    def _bias(self, product: Descriptor, like: np.ndarray) -> np.ndarray:
        size = len(like) * like.dtype.itemsize
        address = product.attributes[8]
        return np.frombuffer((ctypes.c_uint8 * size).from_address(address), like.dtype).astype(
            np.float64 if like.dtype == np.float64 else np.float32
        )


def as_tf32(x: np.ndarray) -> np.ndarray:
    """Return float32 values with 10 bits of mantissa."""
    bits = np.ascontiguousarray(x).view(np.uint32)
    return ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)


@contextmanager
def installed(fake: FakeCublasLt | None) -> Iterator[None]:
    """Give simulated GPUs of the block this library; None is for an environment without."""

    def open_library(candidates: Any, driver_version: int) -> Any:
        if fake is None:
            raise MissingLibrary("none is installed")
        assert candidates is library_files.CUBLASLT
        fake.opens.wait(60)
        return fake

    found: dict[int, DeviceLibraries] = {}
    kept: list[SimulatedAccelerator] = []

    def libraries(device: SimulatedAccelerator) -> DeviceLibraries:
        if id(device) not in found:
            kept.append(device)
            found[id(device)] = DeviceLibraries(device, 13000)
        return found[id(device)]

    def routine(device: SimulatedAccelerator, problem: LibraryProblem) -> LibraryRoutine | None:
        return libraries(device).routine(problem)

    def opening(device: SimulatedAccelerator, library: str) -> LibraryOpening | None:
        return libraries(device).opening(library)

    def is_planned(device: SimulatedAccelerator, problem: LibraryProblem) -> bool:
        return libraries(device).known(problem)[0]

    def reject(device: SimulatedAccelerator, routine: LibraryRoutine) -> None:
        libraries(device).reject(routine)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library_files, "open_library", open_library)
        patch.setattr(SimulatedAccelerator, "routine", routine)
        patch.setattr(SimulatedAccelerator, "opening", opening)
        patch.setattr(SimulatedAccelerator, "is_planned", is_planned)
        patch.setattr(SimulatedAccelerator, "reject", reject, raising=False)
        yield
