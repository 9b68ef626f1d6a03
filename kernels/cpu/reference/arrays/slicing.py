"""Compute and assign slices in NumPy."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from tfjit.framework.types import strided_slice
from tfjit.framework.types.shape import format_shape
from tfjit.kernels.cpu.reference.inputs import Arrays, contiguous, invalid, shape_text
from tfjit.kernels.memory_limits import check_fits_in_memory
from tfjit.kernels.registry import NodeSpec, reference


def _masks(node: NodeSpec) -> list[int]:
    names = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
    return [node.attrs.get(name, 0) for name in names]


def _dense(
    node: NodeSpec, shape: Sequence[int], begin: np.ndarray, end: np.ndarray, strides: np.ndarray
) -> strided_slice.DenseSlice:
    if not (begin.ndim == end.ndim == strides.ndim == 1 and begin.size == end.size == strides.size):
        invalid(
            "Expected begin, end, and strides to be 1D equal size tensors, but got shapes "
            f"{shape_text(begin)}, {shape_text(end)}, and {shape_text(strides)} instead."
        )
    bounds = (tuple(numbers.tolist()) for numbers in (begin, end, strides))
    return _resolved(tuple(shape), *bounds, *_masks(node))


_resolved = functools.lru_cache(maxsize=1024)(strided_slice.resolve)
"""The reading of slices that nodes ask for again in each run."""


@reference("StridedSlice")
def _strided_slice(node: NodeSpec, inputs: Arrays) -> Arrays:
    x = inputs[0]
    dense = _dense(node, x.shape, *inputs[1:4])
    return (contiguous(x[dense.index()]).reshape(dense.final_shape),)  # type: ignore[arg-type]


@reference("StridedSliceGrad")
def _strided_slice_grad(node: NodeSpec, inputs: Arrays) -> Arrays:
    shape = tuple(int(s) for s in inputs[0])
    dense = _dense(node, shape, *inputs[1:4])
    dy = inputs[4]
    if dy.shape != dense.final_shape:
        invalid(f"shape of dy was {shape_text(dy)} instead of {format_shape(dense.final_shape)}")
    check_fits_in_memory(shape, dy.dtype)
    out = np.zeros(shape, dy.dtype)
    out[dense.index()] = dy.reshape(dense.sizes)  # type: ignore[arg-type]
    return (out,)


@reference("StridedSliceAssign", "ResourceStridedSliceAssign", "TensorStridedSliceUpdate")
def _strided_slice_assign(node: NodeSpec, inputs: Arrays) -> Arrays:
    x, value = inputs[0], inputs[4]
    if node.op == "TensorStridedSliceUpdate":
        x = x.copy()
    dense = _dense(node, x.shape, *inputs[1:4])
    try:
        value = np.broadcast_to(value, dense.final_shape)  # type: ignore[arg-type]
    except ValueError:
        invalid(
            f"shape of value {shape_text(value)} does not fit the slice "
            f"{format_shape(dense.final_shape)}"
        )
    x[dense.index()] = value.reshape(dense.sizes)  # type: ignore[arg-type]
    return () if node.op == "ResourceStridedSliceAssign" else (x,)


@reference("Slice")
def _slice(node: NodeSpec, inputs: Arrays) -> Arrays:
    x, begin, size = inputs
    if not (begin.ndim == size.ndim == 1 and begin.size == size.size == x.ndim):
        invalid(
            f"Expected begin and size arguments to be 1-D tensors of size {x.ndim}, but got shapes "
            f"{shape_text(begin)} "
            f"and {shape_text(size)} instead."
        )
    index = []
    for i, (b, s, n) in enumerate(zip(begin.tolist(), size.tolist(), x.shape)):
        s = n - b if s == -1 else s
        if n == 0:
            if b != 0 or s != 0:
                invalid(
                    f"Expected begin[{i}] == 0 (got {b}) and size[{i}] == 0 (got {s}) when "
                    f"input.dim_size({i}) == 0"
                )
        elif not 0 <= b <= n:
            invalid(f"Expected begin[{i}] in [0, {n}], but got {b}")
        elif s < 0 or b + s > n:
            invalid(f"Expected size[{i}] in [0, {n - b}], but got {s}")
        index.append(slice(b, b + s))
    return (contiguous(x[tuple(index)]).reshape([s.stop - s.start for s in index]),)
