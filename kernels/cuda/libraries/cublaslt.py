"""Compute products by cuBLASLt, through ctypes.

A routine is called once a program: the call is captured into a CUDA graph, which is replayed. So a
binding that takes some microseconds a call costs nothing.

The library's matrices are by columns, ours by rows: the same memory is the transpose. So it
computes the transposed product, y^T x^T, with y as its first operand. Numbers are those of
cublasLt.h and cublas_api.h; they are the same in CUDA 12 and 13.
"""

from __future__ import annotations

import ctypes
import math
import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from ctypes import (
    POINTER,
    byref,
    c_char_p,
    c_float,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_uint32,
    c_uint64,
    c_void_p,
)
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from tfjit.framework import errors
from tfjit.framework.types import dtypes as d
from tfjit.kernels.cuda.libraries import library_files
from tfjit.kernels.cuda.libraries.device_libraries import (
    LibraryFailure,
    VendorLibrary,
    run_once,
)
from tfjit.kernels.cuda.libraries.passed_checks import path_of
from tfjit.kernels.cuda.libraries.product_problem import (
    WORKSPACE_BYTES,
    ProductOperand,
    ProductProblem,
)
from tfjit.kernels.ir.accelerator import LibraryRoutine

if TYPE_CHECKING:
    from tfjit.framework.types.dtypes import DType
    from tfjit.kernels.ir.accelerator import Accelerator
    from tfjit.kernels.registry import LibraryProblem

_Handle = POINTER(c_void_p)
_ATTRIBUTE: Final = (c_void_p, c_int, c_void_p, c_size_t)
Number: TypeAlias = c_float | c_int32 | c_int64 | c_uint32 | c_uint64 | c_void_p
SIGNATURES: Final[dict[str, tuple[type, ...]]] = {
    "cublasLtCreate": (_Handle,),
    "cublasLtDestroy": (c_void_p,),
    "cublasLtGetVersion": (),
    "cublasLtGetStatusString": (c_int,),
    "cublasLtMatmulDescCreate": (_Handle, c_int, c_int),
    "cublasLtMatmulDescDestroy": (c_void_p,),
    "cublasLtMatmulDescSetAttribute": _ATTRIBUTE,
    "cublasLtMatrixLayoutCreate": (_Handle, c_int, c_uint64, c_uint64, c_int64),
    "cublasLtMatrixLayoutDestroy": (c_void_p,),
    "cublasLtMatrixLayoutSetAttribute": _ATTRIBUTE,
    "cublasLtMatmulPreferenceCreate": (_Handle,),
    "cublasLtMatmulPreferenceDestroy": (c_void_p,),
    "cublasLtMatmulPreferenceSetAttribute": _ATTRIBUTE,
    "cublasLtMatmulAlgoGetHeuristic": (*(c_void_p,) * 7, c_int, c_void_p, POINTER(c_int)),
    "cublasLtMatmul": (
        *(c_void_p, c_void_p, c_void_p, *(c_void_p, c_void_p) * 2, c_void_p, c_void_p),
        *(c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_size_t, c_void_p),
    ),
}
_UNSUPPORTED: Final = frozenset((8, 15))  # by the architecture, or at all
# cudaDataType_t
DATA_TYPES: Final = {d.float32: 0, d.float64: 1, d.float16: 2, d.bfloat16: 14}
# cublasComputeType_t
_COMPUTE_32F, _COMPUTE_64F, _COMPUTE_TF32 = 68, 70, 77
_TRANSPOSED: Final = 1
# cublasLtMatmulDescAttributes_t
_TRANSA, _TRANSB, _EPILOGUE, _BIAS_POINTER = 3, 4, 7, 8
# cublasLtMatrixLayoutAttribute_t
_BATCH_COUNT, _BATCH_OFFSET = 5, 6
# cublasLtMatmulPreferenceAttributes_t
_MOST_WORKSPACE: Final = 1
_REDUCTIONS: Final = 3
_ALIGNMENTS: Final = (5, 6, 7, 8)  # of A, B, C and D
_IN_TYPE_OF_SUMS: Final = 2
"""cublasLtReductionScheme_t.

The others add the parts of a split sum in the type of results.
"""
EPILOGUES: Final = {
    "": 1, "relu": 2, "bias": 4, "bias+relu": 6, "gelu": 32, "bias+gelu": 36,
}  # fmt: skip
"""cublasLtEpilogue_t; gelu has the form with tanh."""
_ALIGNMENT_BYTES: Final = 16
"""The least alignment of device tensors; the arena's values have more."""
_WORKSPACE_ALIGNMENT: Final = 256
_PLACEHOLDER: Final = 1 << 20  # aligned: the heuristics ask for a bias, and read none


class Algorithm(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t: an algorithm and its facts."""

    _fields_ = (
        ("algorithm", c_uint64 * 8),
        ("workspace_bytes", c_size_t),
        ("state", c_int),
        ("waves", c_float),
        ("reserved", c_int * 4),
    )


class _Owned:
    """A descriptor of the library, which is destroyed with this object."""

    def __init__(self, library: CublasLt, kind: str, *arguments: int) -> None:
        self._library, self._kind = library, kind
        self.handle = c_void_p()
        library.call(f"{kind}Create", byref(self.handle), *arguments)
        destroy = getattr(library.functions, f"{kind}Destroy")
        # descriptors are memory of the host
        weakref.finalize(self, destroy, self.handle).atexit = False

    def set(self, attribute: int, value: Number) -> None:
        """Set an attribute to a number of ctypes."""
        self._library.call(
            f"{self._kind}SetAttribute",
            *(self.handle, attribute, byref(value), ctypes.sizeof(value)),
        )


class CublasLt(VendorLibrary):
    """The library with a handle for the current context."""

    def __init__(self, functions: ctypes.CDLL) -> None:
        """Make the handle. Raises LibraryFailure."""
        self.functions = functions
        self.file = path_of(functions)
        functions.cublasLtGetVersion.restype = c_size_t
        functions.cublasLtGetStatusString.restype = c_char_p
        number = functions.cublasLtGetVersion()
        self.version = f"{number // 10000}.{number // 100 % 100}.{number % 100}"
        self.handle = c_void_p()
        self.call("cublasLtCreate", byref(self.handle))
        # the end of the process frees it, and may come when the context is lost
        weakref.finalize(
            self, _destroy, functions.cublasLtDestroy, self.handle, os.getpid()
        ).atexit = False

    def call(self, function: str, *arguments: object) -> None:
        """Call a function. Raises LibraryFailure with its status."""
        status = getattr(self.functions, function)(*arguments)
        if status:
            raise LibraryFailure(self._failure(function, status))

    def _failure(self, function: str, status: int) -> str:
        text = self.functions.cublasLtGetStatusString(status) or b""
        return f"{function}: status {status}: {text.decode()}"

    def routine(self, problem: LibraryProblem) -> LibraryRoutine | None:
        assert isinstance(problem, ProductProblem)
        made = _ProductRoutine(self, problem)
        return made if made.find() else None

    def check(self, accelerator: Accelerator) -> Iterator[None]:
        for problem in _known_products():
            routine = self.routine(problem)
            if routine is not None:
                _check_product(accelerator, problem, routine)
            yield

    def algorithm(
        self, descriptor: c_void_p, layouts: Sequence[c_void_p], preference: c_void_p
    ) -> Algorithm | None:
        """Return the first algorithm of the heuristics, or None."""
        found, count = Algorithm(), c_int()
        status = self.functions.cublasLtMatmulAlgoGetHeuristic(
            *(self.handle, descriptor, *layouts, preference, 1, byref(found), byref(count))
        )
        status = status or found.state
        if status in _UNSUPPORTED or (not status and not count.value):
            return None
        if status:
            raise LibraryFailure(self._failure("cublasLtMatmulAlgoGetHeuristic", status))
        return found


def _destroy(destroy: Callable[[c_void_p], int], handle: c_void_p, process: int) -> None:
    # a forked child has no context
    if os.getpid() == process:
        destroy(handle)


class _ProductRoutine(LibraryRoutine):
    """A product with the descriptors that cublasLtMatmul takes."""

    def __init__(self, library: CublasLt, problem: ProductProblem) -> None:
        self._library, self._problem = library, problem
        number = ctypes.c_double if problem.computation is d.float64 else c_float
        # factors of the product and of the added array
        self._one, self._beta = number(1.0), number(1.0 if problem.adds else 0.0)
        p = problem
        self._descriptor = _Owned(
            library,
            "cublasLtMatmulDesc",
            _COMPUTE_64F
            if p.computation is d.float64
            else (_COMPUTE_TF32 if p.tf32 else _COMPUTE_32F),
            DATA_TYPES[p.computation],
        )
        self._descriptor.set(_TRANSA, c_int32(_TRANSPOSED if p.y.transposed else 0))
        self._descriptor.set(_TRANSB, c_int32(_TRANSPOSED if p.x.transposed else 0))
        self._descriptor.set(_EPILOGUE, c_uint32(EPILOGUES[p.epilogue]))
        if p.has_bias:
            self._descriptor.set(_BIAS_POINTER, c_void_p(_PLACEHOLDER))
        y_rows, y_columns = (p.n, p.k) if p.y.transposed else (p.k, p.n)
        x_rows, x_columns = (p.k, p.m) if p.x.transposed else (p.m, p.k)
        self._y = self._layout(p.dtype, y_rows, y_columns, p.y.stride)
        self._x = self._layout(p.dtype, x_rows, x_columns, p.x.stride)
        self._result = self._layout(p.result, p.m, p.n, p.m * p.n)
        self._algorithm = Algorithm()

    def _layout(self, dtype: DType, rows: int, columns: int, stride: int) -> _Owned:
        """Return the layout of matrices by rows.

        Those of the library are the transposes.
        """
        made = _Owned(
            *(self._library, "cublasLtMatrixLayout"),
            *(DATA_TYPES[dtype], columns, rows, columns),
        )
        if self._problem.matrices > 1:
            made.set(_BATCH_COUNT, c_int32(self._problem.matrices))
            made.set(_BATCH_OFFSET, c_int64(stride))
        return made

    def find(self) -> bool:
        """Choose the algorithm; return whether there is one. Raises LibraryFailure."""
        preference = _Owned(self._library, "cublasLtMatmulPreference")
        preference.set(_MOST_WORKSPACE, c_uint64(WORKSPACE_BYTES))
        if self._problem.result is not self._problem.computation:
            preference.set(_REDUCTIONS, c_uint32(_IN_TYPE_OF_SUMS))
        for attribute in _ALIGNMENTS:
            preference.set(attribute, c_uint32(_ALIGNMENT_BYTES))
        layouts = [one.handle for one in (self._y, self._x, self._result, self._result)]
        found = self._library.algorithm(self._descriptor.handle, layouts, preference.handle)
        if found is None:
            return False
        self._algorithm = found
        self.workspace_bytes = int(found.workspace_bytes)
        if self.workspace_bytes:  # a part of it is left out where the arena is aligned less
            self.workspace_bytes += _WORKSPACE_ALIGNMENT - 1
        p = self._problem
        elements = p.matrices * max(p.m * p.n, p.m * p.k, p.k * p.n)
        self.reach_bytes = elements * max(p.dtype.size, p.result.size)
        return True

    def queue(self, stream: int, words: Sequence[int]) -> None:
        x, y, *operands, result, workspace = words
        added = operands.pop() if self._problem.adds else result
        workspace += -workspace % _WORKSPACE_ALIGNMENT
        try:
            if operands:
                self._descriptor.set(_BIAS_POINTER, c_void_p(operands[0]))
            self._library.call(
                "cublasLtMatmul",
                *(self._library.handle, self._descriptor.handle),
                *(byref(self._one), y, self._y.handle, x, self._x.handle),
                *(byref(self._beta), added, self._result.handle, result, self._result.handle),
                *(byref(self._algorithm), workspace, self._algorithm.workspace_bytes, stream),
            )
        except LibraryFailure as failure:
            raise errors.InternalError(None, None, f"{self._problem.title}: {failure}") from None


def _known_products() -> tuple[ProductProblem, ...]:
    """Return small products of each dtype, form and kind of epilogue."""
    plain, transposed = ProductOperand(False, 0), ProductOperand(True, 0)
    f32, f16, bf16, f64 = d.float32, d.float16, d.bfloat16, d.float64
    batch = ProductOperand(True, 8 * 24)
    return (
        ProductProblem(f32, f32, 1, 5, 3, 7, plain, plain),
        ProductProblem(f32, f32, 1, 8, 16, 24, plain, plain, "bias+relu"),
        ProductProblem(f32, f32, 2, 8, 16, 24, batch, plain, tf32=True, adds=True),
        ProductProblem(f16, f16, 1, 8, 16, 24, plain, transposed),
        ProductProblem(bf16, bf16, 1, 8, 16, 24, plain, plain, "bias", adds=True),
        ProductProblem(bf16, f32, 1, 8, 16, 24, plain, plain),
        ProductProblem(f64, f64, 1, 8, 16, 24, transposed, transposed),
    )


def _check_product(
    accelerator: Accelerator, problem: ProductProblem, routine: LibraryRoutine
) -> None:
    """Compare a routine's results with the host's.

    Raises LibraryFailure.
    """
    p = problem

    def numbers(modulus: int, *shape: int) -> np.ndarray:
        # small whole numbers: every dtype and TF32 have them and their sums exactly
        count = np.arange(math.prod(shape)).reshape(shape)
        return (count % modulus - modulus // 2).astype(np.float64)

    x = numbers(5, *([p.matrices] if p.x.stride else []), p.m, p.k)
    y = numbers(3, *([p.matrices] if p.y.stride else []), p.k, p.n)
    bias, added = numbers(7, p.n), numbers(11, p.matrices, p.m, p.n)
    expected = np.matmul(x, y).reshape(-1, p.m, p.n)
    expected = expected + (bias if p.has_bias else 0.0) + (added if p.adds else 0.0)
    if p.epilogue.endswith("relu"):
        expected = np.maximum(expected, 0.0)
    x, y = (np.swapaxes(v, -1, -2) if o.transposed else v for v, o in ((x, p.x), (y, p.y)))
    result = np.full(expected.shape, -99.0, p.result.as_numpy_dtype)
    arrays = [
        *(np.ascontiguousarray(v, p.dtype.as_numpy_dtype) for v in (x, y)),
        *([bias.astype(result.dtype)] if p.has_bias else []),
        *([added.astype(result.dtype)] if p.adds else []),
        result,
    ]
    run_once(accelerator, routine, arrays)
    if not np.array_equal(result.astype(np.float64), expected):
        raise LibraryFailure(f"{p.title} has wrong results")


def open_for(driver_version: int, apart: AbstractContextManager[object]) -> CublasLt:
    """Open the library for the current context.

    apart: the handle is made in its block, since the library may wait for the device. Raises
    MissingLibrary, LibraryFailure.
    """
    functions = library_files.open_library(library_files.CUBLASLT, driver_version)
    library_files.declare(functions, SIGNATURES)
    with apart:
        return CublasLt(functions)


__all__ = ["CublasLt", "open_for"]
