"""Compute matrix products and einsum in NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tfjit.framework.errors import InvalidArgumentError
from tfjit.framework.types.shape import format_shape
from tfjit.kernels.cpu.reference.arithmetic.reduction import wide
from tfjit.kernels.cpu.reference.inputs import Arrays, contiguous, invalid, shape_text, widen
from tfjit.kernels.executor.blas_threads import on_free_cores
from tfjit.kernels.float_control import without_warnings
from tfjit.kernels.registry import NodeSpec, reference


@reference("Cross")
def _cross(node: NodeSpec, inputs: Arrays) -> Arrays:
    a, b = inputs
    if a.shape != b.shape:
        invalid(f"Both inputs must be of same shape: {shape_text(a)} vs. {shape_text(b)}")
    if a.ndim < 1:
        invalid("Input must be at least 1D")
    if a.shape[-1] != 3:
        invalid(f"Cross-products are only defined for 3-element vectors, got {a.shape[-1]}")
    return (np.cross(a, b).astype(a.dtype),)


@reference("Einsum")
@on_free_cores
def _einsum(node: NodeSpec, inputs: Arrays) -> Arrays:
    values = [wide(x) for x in inputs]
    equation = node.attrs["equation"].decode().replace(" ", "")
    return (contiguous(np.einsum(equation, *values, optimize=True)).astype(inputs[0].dtype),)


@without_warnings
def _product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    x, y = widen(a, b)
    return np.matmul(x, y).astype(a.dtype, copy=False)


def _size_error(a: tuple[int, ...], b: tuple[int, ...], *transposed: Any) -> InvalidArgumentError:
    """Return TensorFlow's error; batched products' texts end with the two attrs."""
    flags = "".join(f" {int(bool(flag))}" for flag in transposed)
    return InvalidArgumentError(
        None,
        None,
        f"Matrix size-incompatible: In[0]: {format_shape(a)}, In[1]: {format_shape(b)}{flags}",
    )


@reference("MatMul")
@on_free_cores
def matmul(node: NodeSpec, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Compute MatMul.

    a [m, k] (or [k, m] with transpose_a), b [k, n] (or [n, k]) -> [m, n].
    """
    a, b = inputs[:2]
    for value, which in ((a, "a"), (b, "b")):
        if value.ndim != 2:
            raise InvalidArgumentError(
                None,
                None,
                f"In[{'ab'.index(which)}] is not a matrix. Instead it has shape "
                f"{format_shape(value.shape)}",
            )
    x = a.T if node.attrs.get("transpose_a") else a
    y = b.T if node.attrs.get("transpose_b") else b
    if x.shape[1] != y.shape[0]:
        raise _size_error(a.shape, b.shape)
    return [_product(x, y)]


@reference("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
@on_free_cores
def batch_matmul(node: NodeSpec, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Compute BatchMatMul.

    x [..., m, k], y [..., k, n] -> [..., m, n]; adj_x and adj_y take the conjugate transpose of the
    last two axes.
    """
    x, y = inputs[:2]
    for i, value in enumerate((x, y)):
        if value.ndim < 2:
            raise InvalidArgumentError(None, None, f"In[{i}] ndims must be >= 2: {value.ndim}")
    full_x, full_y = x.shape, y.shape
    if node.attrs.get("adj_x"):
        x = x.swapaxes(-1, -2).conj()
    if node.attrs.get("adj_y"):
        y = y.swapaxes(-1, -2).conj()
    if x.shape[-1] != y.shape[-2]:
        raise _size_error(full_x, full_y, node.attrs.get("adj_x"), node.attrs.get("adj_y"))
    out = _product(x, y)
    wanted = node.attrs.get("Tout")
    return [out.astype(wanted.as_numpy_dtype, copy=False) if wanted is not None else out]
