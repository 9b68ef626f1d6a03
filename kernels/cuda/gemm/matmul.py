"""Build matrix products: MatMul and batches of products.

Sums are float32 for float16 and bfloat16, on the cores for scalars. Tensor cores, and rounding of
float32 to fewer bits, are left to cuBLASLt, which computes large products where it is installed
(`library_products.py`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tfjit.kernels.cpu.gemm.operands import operand_pointers, product_sizes, swapped
from tfjit.kernels.cuda.gemm import matvec
from tfjit.kernels.cuda.gemm.finish_text import Finish, finish_of
from tfjit.kernels.cuda.gemm.library_products import library_forms
from tfjit.kernels.cuda.gemm.product_text import Product, product_call
from tfjit.kernels.cuda.gemm.slabs import Along, MatrixOperand, widest
from tfjit.kernels.cuda.gemm.tiles import Plan, accumulator, choose
from tfjit.kernels.cuda.template.registry import device_native
from tfjit.kernels.registry import (
    NativeCall,
    NodeSpec,
    Pointer,
    TensorSpec,
    Unsupported,
    Word,
)

if TYPE_CHECKING:
    from tfjit.kernels.cpu.template.epilogue import Epilogue


def traffic(inputs: Sequence[TensorSpec], finish: Finish, products: int) -> int:
    """Return the bytes read and written."""
    written = sum(dtype.size for dtype in finish.outputs) * products
    return sum(spec.nbytes for spec in inputs) + written


def batch_matmul_call(
    inputs: Sequence[TensorSpec],
    *,
    adj_x: bool = False,
    adj_y: bool = False,
    epilogue: Epilogue | None = None,
    plan: Plan | None = None,
    scalars: Mapping[int, float] | None = None,
) -> NativeCall:
    """Return the batch product of x and y with an epilogue.

    x is [..., m, k], y [..., k, n]; operands... follow, and batch axes broadcast to [..., m, n].
    adj_x, adj_y: the last two axes are swapped. The epilogue sees the result as [rows, n], rows
    counted over all batch axes. plan: instead of the chosen one, and of libraries. scalars: known
    values of the epilogue's operands, by number. Raises Unsupported for dtypes without products,
    ValueError for sizes that do not fit.
    """
    x, y = inputs[:2]
    accumulator(x.dtype)
    m, k, n = product_sizes(x, y, adj_x, adj_y)
    batch = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    matrices = math.prod(batch)
    lines = matrices * m
    finish = finish_of(x.dtype, epilogue, n)
    if lines * n == 0:
        return NativeCall(())
    x_numbers, y_numbers = _numbers(x.shape[:-2], batch), _numbers(y.shape[:-2], batch)
    one_y = math.prod(y.shape[:-2]) == 1
    if one_y and not adj_x and math.prod(x.shape[:-2]) == matrices:
        # with one y for every matrix, the batch adds rows to one product
        m, matrices, x_numbers, y_numbers = lines, 1, x_numbers[:1], y_numbers[:1]
    x_along: Along = "extent" if adj_x and m > 1 else "depth"
    y_along: Along = "depth" if adj_y or n == 1 else "extent"
    sides = matvec.Sides(x.dtype, matrices, m, n, k, x_along, y_along)
    tables = _Tables()
    x_word, x_table = tables.word(x_numbers, m * k)
    y_word, y_table = tables.word(y_numbers, k * n)
    operands = operand_pointers(inputs)
    moved = traffic(inputs, finish, lines * n)
    if plan is None and (m == 1 or n == 1) and not (x_table or y_table):
        return matvec.matvec_call(sides, x_word, y_word, finish, operands, moved)
    chosen = plan or choose(x.dtype, matrices, m, n, k)
    shape = chosen.tile
    x_row, y_row = k if x_along == "depth" else m, k if y_along == "depth" else n
    left = MatrixOperand(x.dtype, x_along, widest(shape, shape.rows, x.dtype, x_row), x_table)
    right = MatrixOperand(y.dtype, y_along, widest(shape, shape.columns, y.dtype, y_row), y_table)
    product = Product(
        matrices, m, n, k, left, (Pointer("in", 0), x_row, x_word),
        right, (Pointer("in", 1), y_row, y_word), finish, operands,
    )  # fmt: skip
    call = product_call(product, chosen, tables.constants, moved)
    if plan is None:
        call = replace(call, library_forms=library_forms(product, scalars or {}))
    return call


def _numbers(shape: tuple[int, ...], batch: tuple[int, ...]) -> np.ndarray:
    """Return an operand's matrix for each matrix of the result."""
    own = np.arange(math.prod(shape), dtype=np.int64).reshape(shape)
    return np.broadcast_to(own, batch).reshape(-1)


class _Tables:
    """Words that place the matrices of an operand.

    Tables become constants of the call.
    """

    def __init__(self) -> None:
        self._found: list[np.ndarray] = []

    def word(self, numbers: np.ndarray, size: int) -> tuple[Word, bool]:
        """Return the elements between matrices, or a table of their first elements.

        The second result tells which. numbers: of the matrices.
        """
        step = int(numbers[1] - numbers[0]) if numbers.size > 1 else 0
        if np.array_equal(numbers, np.arange(numbers.size) * step):
            return step * size, False
        self._found.append(np.ascontiguousarray(numbers * size))
        return Pointer("const", len(self._found) - 1), True

    @property
    def constants(self) -> tuple[np.ndarray, ...]:
        """Return the tables."""
        return tuple(self._found)


def matmul_call(
    inputs: Sequence[TensorSpec],
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    epilogue: Epilogue | None = None,
    plan: Plan | None = None,
) -> NativeCall:
    """Return the product of two matrices with an epilogue.

    a is [m, k], or [k, m] with transpose_a; b is [k, n], or [n, k] with transpose_b. Raises as
    `batch_matmul_call` does.
    """
    return batch_matmul_call(
        inputs, adj_x=transpose_a, adj_y=transpose_b, epilogue=epilogue, plan=plan
    )


@device_native("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def _product(node: NodeSpec) -> NativeCall:
    if node.outputs[0].dtype is not node.inputs[0].dtype:
        raise Unsupported(f"product as {node.outputs[0].dtype.name}")
    adj_x, adj_y = swapped(node)
    return batch_matmul_call(node.inputs[:2], adj_x=adj_x, adj_y=adj_y)
