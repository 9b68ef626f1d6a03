"""Build diagonals and bands of matrices for GPUs.

A diagonal is a view of its matrix, so each is one strided copy; a band of a matrix is a choice by
positions.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tfjit.kernels.cpu.conv.window import attr_text
from tfjit.kernels.cpu.data_movement.strided_copy import Layout, View
from tfjit.kernels.cuda.data_movement.strided_copy import copy_launch, fill_launch
from tfjit.kernels.cuda.template import element_kinds
from tfjit.kernels.cuda.template.kernel_text import KernelText, fits_32_bits, grid_stride
from tfjit.kernels.cuda.template.launches import CudaLaunch, grid_for
from tfjit.kernels.cuda.template.registry import device_native
from tfjit.kernels.registry import NativeCall, NodeSpec, Pointer, TensorSpec, Unsupported

_MOST: Final = 64
"""Diagonals of a band that are copied one by one."""


def _bounds(spec: NodeSpec, k: int) -> tuple[int, int]:
    """Return the lowest and highest diagonal in input `k`. Raises Unsupported."""
    if k not in spec.constants:
        raise Unsupported("the diagonals are not known while planning")
    numbers = np.asarray(spec.constants[k]).reshape(-1)
    if numbers.size not in (1, 2) or numbers[0] > numbers[-1]:
        raise Unsupported("no diagonals: the reference tells")
    low, high = int(numbers[0]), int(numbers[-1])
    if high - low >= _MOST:
        raise Unsupported(f"{high - low + 1} diagonals")
    return low, high


def _layout(tensor: TensorSpec) -> Layout:
    return Layout(tensor.shape, tensor.dtype.size)


def _copies(
    spec: NodeSpec, matrix: Layout, packed: Layout, low: int, high: int, source: Pointer,
    into_matrix: bool,
) -> list[CudaLaunch | None]:  # fmt: skip
    """Return the copies between a matrix and rows that hold its diagonals.

    packed: [..., diagonals, width], without the first of these axes for one diagonal. source: of
    the copies, which write output 0.
    """
    rows, columns = matrix.array.shape[-2:]
    bands: Any = packed.array if high > low else packed.array[..., None, :]
    width = bands.shape[-1]
    if bands.shape[:-1] != (*matrix.array.shape[:-2], high - low + 1):
        raise Unsupported("shapes do not fit: the reference tells")
    align = attr_text(spec.attrs, "align", "LEFT_LEFT").split("_")
    found = []
    for number in range(high, low - 1, -1):
        length = min(rows + min(number, 0), columns - max(number, 0))
        if not 0 <= length <= width:
            raise Unsupported("shapes do not fit: the reference tells")
        start = width - length if align[number < 0] == "RIGHT" else 0
        line = packed.view(bands[..., high - number, start : start + length])
        whole = matrix.view(np.diagonal(matrix.array, number, -2, -1))
        ends = (line, whole) if into_matrix else (whole, line)
        size = spec.outputs[0].dtype.size
        found.append(copy_launch(size, *ends, source, Pointer("out", 0)))
    return found


def _finished(spec: NodeSpec, launches: list[CudaLaunch | None], *zero: np.ndarray) -> NativeCall:
    moved = spec.inputs[0].nbytes + spec.outputs[0].nbytes
    made = tuple(launch for launch in launches if launch is not None)
    return NativeCall(made, constants=zero, bytes_moved=moved)


def _filled(spec: NodeSpec, padding: int | None) -> tuple[list[CudaLaunch | None], np.ndarray]:
    """Return the fill of output 0, and a zero.

    padding: the input with the number; None for zeros.
    """
    out = spec.outputs[0]
    at = Pointer("const", 0) if padding is None else Pointer("in", padding)
    zero = np.zeros(1, np.dtype(out.dtype.as_numpy_dtype))
    return [fill_launch(out.dtype, out.size, at, Pointer("out", 0))], zero


def _square(spec: NodeSpec) -> tuple[TensorSpec, TensorSpec]:
    """Return input and output of Diag or DiagPart as diagonal and matrix."""
    x, out = spec.inputs[0], spec.outputs[0]
    small = x if spec.op == "Diag" else out
    return TensorSpec(x.dtype, (small.size,)), TensorSpec(x.dtype, (small.size,) * 2)


@device_native("MatrixDiag", "BatchMatrixDiag", "Diag")
def _diagonal_matrix(spec: NodeSpec) -> NativeCall:
    packed, matrix = spec.inputs[0], spec.outputs[0]
    if spec.op == "Diag":
        packed, matrix = _square(spec)
    launches, zero = _filled(spec, None)
    source = Pointer("in", 0)
    launches += _copies(spec, _layout(matrix), _layout(packed), 0, 0, source, True)
    return _finished(spec, launches, zero)


@device_native("MatrixDiagV2", "MatrixDiagV3")
def _band_matrix(spec: NodeSpec) -> NativeCall:
    low, high = _bounds(spec, 1)
    launches, zero = _filled(spec, 4)
    matrix, packed = _layout(spec.outputs[0]), _layout(spec.inputs[0])
    launches += _copies(spec, matrix, packed, low, high, Pointer("in", 0), True)
    return _finished(spec, launches, zero)


@device_native("MatrixDiagPart", "BatchMatrixDiagPart", "DiagPart")
def _diagonal(spec: NodeSpec) -> NativeCall:
    packed, matrix = spec.outputs[0], spec.inputs[0]
    if spec.op == "DiagPart":
        packed, matrix = _square(spec)
    source = Pointer("in", 0)
    return _finished(spec, _copies(spec, _layout(matrix), _layout(packed), 0, 0, source, False))


@device_native("MatrixDiagPartV2", "MatrixDiagPartV3")
def _diagonals(spec: NodeSpec) -> NativeCall:
    low, high = _bounds(spec, 1)
    launches, zero = _filled(spec, 2)
    matrix, packed = _layout(spec.inputs[0]), _layout(spec.outputs[0])
    launches += _copies(spec, matrix, packed, low, high, Pointer("in", 0), False)
    return _finished(spec, launches, zero)


@device_native("MatrixSetDiag", "BatchMatrixSetDiag", "MatrixSetDiagV2", "MatrixSetDiagV3")
def _with_diagonals(spec: NodeSpec) -> NativeCall:
    x, packed = spec.inputs[:2]
    low, high = _bounds(spec, 2) if len(spec.inputs) > 2 else (0, 0)
    flat = View((x.size,), (x.dtype.size,))
    launches = [copy_launch(x.dtype.size, flat, flat, Pointer("in", 0), Pointer("out", 0))]
    source = Pointer("in", 1)
    launches += _copies(spec, _layout(x), _layout(packed), low, high, source, True)
    return _finished(spec, launches)


@device_native("MatrixBandPart", "BatchMatrixBandPart")
def _band(spec: NodeSpec) -> NativeCall:
    """Return the launch that keeps the elements within a band.

    The numbers of diagonals may be values of the device.
    """
    x, lower, upper = spec.inputs
    if len(x.shape) < 2:
        raise Unsupported("no matrix: the reference tells")
    kinds = [{"int32": "i32", "int64": "i64"}.get(s.dtype.name, "") for s in (lower, upper)]
    if not all(kinds):
        raise Unsupported(f"numbers of diagonals as {lower.dtype.name}")
    if not x.size:
        return NativeCall(())
    size = x.dtype.size
    raw = element_kinds.raw_kind(size)
    text = KernelText(fits_32_bits([x.size]))
    for name, number in zip(("count", "rows", "columns"), (x.size, *x.shape[-2:])):
        text.argument(name, number)
    for k, (name, kind) in enumerate(zip(("below", "above"), kinds)):
        pointer = f"ptr_{kind}({text.argument(f'{name}_at', Pointer('in', 1 + k))})"
        text.line(f"{name} = int64(ld({pointer}, 0))")
    text.line(f"x_p = ptr_{raw}({text.argument('x', Pointer('in', 0))})")
    text.line(f"y_p = ptr_{raw}({text.argument('y', Pointer('out', 0))})")
    with grid_stride(text, "u", "count"):
        text.split("u", "rest", "column", "columns")
        text.split("rest", "rest", "row", "rows")
        text.line("left = below < 0 or row - column <= below")
        with text.block("if left and (above < 0 or column - row <= above):"):
            text.line("st(y_p, u, ld(x_p, u))")
        with text.block("else:"):
            zero = "complex128(0)" if size == 16 else f"uint{8 * size}(0)"
            text.line(f"st(y_p, u, {zero})")
    title = f"band of matrices of elements of {size} bytes by {' '.join(kinds)}"
    launch = text.launch(title, title, __name__, grid_for(x.size))
    return NativeCall((launch,), in_place=((0, 0),), bytes_moved=2 * x.nbytes)
