"""The binding of cuBLASLt: descriptors that the real library takes, errors, handles."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from typing import Any

import pytest

from tests.kernels.cuda.fake_cublaslt import SIZES, FakeCublasLt, installed
from tfjit.framework import errors
from tfjit.framework.types import dtypes as d
from tfjit.kernels.cuda.device.simulated_accelerator import SimulatedAccelerator
from tfjit.kernels.cuda.libraries import cublaslt, library_files
from tfjit.kernels.cuda.libraries.device_libraries import LibraryFailure
from tfjit.kernels.cuda.libraries.product_problem import ProductOperand, ProductProblem

pytestmark = pytest.mark.simulator


@pytest.fixture(scope="module")
def real() -> ctypes.CDLL:
    """The installed library: descriptors need no GPU."""
    try:
        found = library_files.open_library(library_files.CUBLASLT, 13000)
    except library_files.MissingLibrary as missing:
        pytest.skip(f"cuBLASLt is not installed: {missing}")
    library_files.declare(found, cublaslt.SIGNATURES)
    return found


def test_the_library_takes_attributes_of_these_sizes(real: ctypes.CDLL) -> None:
    arguments: dict[str, tuple[Any, ...]] = {
        "cublasLtMatmulDesc": (68, 0),
        "cublasLtMatrixLayout": (0, 5, 7, 5),
        "cublasLtMatmulPreference": (),
    }
    for kind, sizes in SIZES.items():
        handle = ctypes.c_void_p()
        created = getattr(real, f"{kind}Create")(ctypes.byref(handle), *arguments[kind])
        assert created == 0
        put = getattr(real, f"{kind}SetAttribute")
        value = ctypes.create_string_buffer(16)
        for attribute, size in sizes.items():
            assert put(handle, attribute, value, size) == 0, (kind, attribute)
            assert put(handle, attribute, value, 12 - size) != 0, (kind, attribute)
        assert getattr(real, f"{kind}Destroy")(handle) == 0


def test_the_library_takes_the_descriptors_of_every_problem(real: ctypes.CDLL) -> None:
    """Without a GPU there is no handle, which only the heuristics need."""
    library = object.__new__(cublaslt.CublasLt)
    library.functions, library.handle = real, ctypes.c_void_p()
    real.cublasLtGetStatusString.restype = ctypes.c_char_p
    for dtype in cublaslt.DATA_TYPES:
        for epilogue in cublaslt.EPILOGUES:
            problem = ProductProblem(
                *(dtype, dtype, 3, 8, 16, 24),
                *(ProductOperand(True, 0), ProductOperand(False, 5)),
                epilogue,
                dtype is d.float32,
            )
            made = cublaslt._ProductRoutine(library, problem)
            with pytest.raises(LibraryFailure, match="the library was not initialized"):
                made.find()


def test_the_size_of_results_of_heuristics() -> None:
    assert ctypes.sizeof(cublaslt.Algorithm) == 96


def problem(epilogue: Any = "") -> ProductProblem:
    one = ProductOperand(False, 0)
    return ProductProblem(d.float32, d.float32, 1, 8, 16, 4, one, one, epilogue)


def test_a_failing_call_names_problem_and_status() -> None:
    fake = FakeCublasLt()
    with installed(fake):
        routine = SimulatedAccelerator().routine(problem())
        assert routine is not None
        fake.failing["cublasLtMatmul"] = 13
        with pytest.raises(
            errors.InternalError,
            match="cuBLASLt product 8x16x4 float32: cublasLtMatmul: status 13: the text",
        ):
            routine.queue(0, (256, 512, 768, 1024))


def test_handles_are_destroyed_but_not_in_forked_children() -> None:
    fake = FakeCublasLt()
    library = cublaslt.CublasLt(fake)  # type: ignore[arg-type]
    assert library.version == "13.10.0"
    handles = len(fake.objects)
    del library
    gc.collect()
    assert len(fake.objects) == handles - 1 and "cublasLtDestroy" in fake.calls
    fake.calls.clear()
    cublaslt._destroy(fake.cublasLtDestroy, ctypes.c_void_p(1), os.getpid() + 1)  # type: ignore[attr-defined]
    assert not fake.calls


def test_titles() -> None:
    assert problem("bias+gelu").title == "cuBLASLt product 8x16x4 float32+bias+gelu"
    one = ProductOperand(False, 8)
    batch = ProductProblem(d.bfloat16, d.float32, 6, 8, 16, 4, one, one)
    assert batch.title == "cuBLASLt product 6 of 8x16x4 bfloat16"
    assert sys.getsizeof(batch) and hash(batch) == hash(
        ProductProblem(d.bfloat16, d.float32, 6, 8, 16, 4, one, one)
    )
