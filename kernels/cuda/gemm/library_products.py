"""Decide which products cuBLASLt computes, and with which kernel behind it.

A library has tensor cores, and no epilogues but a few. Times are predicted from rates of an H100:
they are guesses until they are measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from tfjit.framework.types import dtypes as d
from tfjit.framework.types.dtypes import DType
from tfjit.kernels.cuda.gemm.finish_text import Finish, finish_words
from tfjit.kernels.cuda.gemm.library_epilogue import library_epilogue
from tfjit.kernels.cuda.gemm.product_text import Product, sum_launch
from tfjit.kernels.cuda.gemm.slabs import MatrixOperand
from tfjit.kernels.cuda.gemm.tiles import accumulator
from tfjit.kernels.cuda.libraries.product_problem import (
    WORKSPACE_BYTES,
    ProductOperand,
    ProductProblem,
    allows_tf32,
)
from tfjit.kernels.registry import LibraryForm, LibraryLaunch, Pointer

_LEAST_WORK: Final = 1 << 21
"""Multiply-adds from which on a library computes a product.

Below, launches decide, and our kernels compute every epilogue within theirs.
"""


@dataclass(frozen=True, slots=True)
class _Rates:
    """Multiply-adds in a nanosecond, by our kernels and by the library."""

    tiles: float
    library: float


_SINGLE: Final = _Rates(20_000, 28_000)
_TF32: Final = _Rates(20_000, 150_000)
_SHORT: Final = _Rates(18_000, 300_000)  # float16 and bfloat16
_DOUBLE: Final = _Rates(10_000, 20_000)
_LAUNCH_NS: Final = 2000.0
_BYTES_PER_NS: Final = 2000.0
_OPERANDS: Final = (Pointer("in", 0), Pointer("in", 1))


def library_forms(product: Product, scalars: Mapping[int, float]) -> tuple[LibraryForm, ...]:
    """Return the forms of a product in which cuBLASLt computes the sums.

    scalars: known values of the epilogue's operands, by number. A form with the epilogue within
    comes before one with a kernel behind the product. There is none for small products and for
    operands whose matrices lie at irregular distances.
    """
    left, right = product.left, product.right
    if not isinstance(left, MatrixOperand) or not isinstance(right, MatrixOperand):
        return ()
    (*_, left_stride), (*_, right_stride) = product.left_words, product.right_words
    if isinstance(left_stride, Pointer) or isinstance(right_stride, Pointer):
        return ()
    work = product.matrices * product.m * product.n * product.k
    if work < _LEAST_WORK:
        return ()
    dtype = product.finish.product
    problem = ProductProblem(
        *(dtype, dtype, product.matrices, product.m, product.n, product.k),
        ProductOperand(left.along == "extent", left_stride),
        ProductOperand(right.along == "depth", right_stride),
        tf32=dtype is d.float32 and allows_tf32(),
    )
    forms = []
    within = _within(product, problem, scalars)
    if within is not None:
        forms.append(within)
    if product.finish.epilogue is not None and _gains(product.finish, problem, work):
        forms.append(_before_a_kernel(product, problem))
    return tuple(forms)


def _within(
    product: Product, problem: ProductProblem, scalars: Mapping[int, float]
) -> LibraryForm | None:
    """Return the product with its epilogue as one routine, or None."""
    found = library_epilogue(product.finish.epilogue, scalars)
    if found is None:
        return None
    lines = product.matrices * product.m
    words = finish_words(product.finish, product.operands, lines, product.n)
    operands = [words[number] for number in (found.bias, found.added) if number is not None]
    problem = replace(problem, epilogue=found.name, adds=found.added is not None)
    words = (*_OPERANDS, *operands, Pointer("out"), Pointer("temp"))
    return LibraryForm((LibraryLaunch(problem, words, 0),), (WORKSPACE_BYTES,))


def _before_a_kernel(product: Product, problem: ProductProblem) -> LibraryForm:
    """Return the product as a routine, with a kernel for its epilogue.

    The kernel is that of split sums, for one part.
    """
    finish, lines = product.finish, product.matrices * product.m
    sums = accumulator(finish.product)
    problem = replace(problem, result=sums)
    words = (*_OPERANDS, Pointer("temp", 0), Pointer("temp", 1))
    last = finish_words(finish, product.operands, lines, product.n)
    return LibraryForm(
        (LibraryLaunch(problem, words, 1), sum_launch(finish, lines, product.n, 1, last)),
        (lines * product.n * sums.size, WORKSPACE_BYTES),
    )


def _gains(finish: Finish, problem: ProductProblem, work: int) -> bool:
    """Return whether a product with a kernel behind it is faster."""
    nbytes = 2 * problem.matrices * problem.m * problem.n * accumulator(finish.product).size
    return pays(problem.dtype, problem.tf32, work, 1, nbytes)


def pays(dtype: DType, tf32: bool, work: int, launches: int, nbytes: int) -> bool:
    """Return whether a library saves more time than kernels beside it take.

    work: multiply-adds of products of a dtype, rounded to TF32 or not. launches, nbytes: of these
    kernels, bytes that they read and write.
    """
    rates = _rates(dtype, tf32)
    saved = work / rates.tiles - work / rates.library
    return saved > launches * _LAUNCH_NS + nbytes / _BYTES_PER_NS


def _rates(dtype: DType, tf32: bool) -> _Rates:
    if dtype is d.float64:
        return _DOUBLE
    if dtype is d.float32:
        return _TF32 if tf32 else _SINGLE
    return _SHORT


__all__ = ["library_forms", "pays"]
