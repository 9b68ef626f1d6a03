"""Build products of a sparse and a dense matrix.

Products are added to zeros by atomics: those of one element have any order, as on TensorFlow's
GPUs. An entry outside the sparse matrix adds nothing.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tfjit.kernels.codegen import expressions
from tfjit.kernels.cpu.template.indexed_rows import index_kind
from tfjit.kernels.cuda.data_movement.strided_copy import fill_launch
from tfjit.kernels.cuda.template import element_kinds
from tfjit.kernels.cuda.template.kernel_text import KernelText, fits_32_bits, grid_stride
from tfjit.kernels.cuda.template.launches import CudaLaunch, grid_for
from tfjit.kernels.cuda.template.registry import device_native
from tfjit.kernels.registry import NativeCall, NodeSpec, Pointer, Unsupported

_TYPES: Final = frozenset({"float32", "float64", "int32", "int64"})
_WITHOUT: Final = ("float16", "bfloat16", "complex64", "complex128")


@device_native("SparseTensorDenseMatMul", without=_WITHOUT)
def _product(spec: NodeSpec) -> NativeCall:
    indices, values, _, dense = spec.inputs
    out = spec.outputs[0]
    if values.dtype.name not in _TYPES:
        raise Unsupported(f"sparse products of {values.dtype.name}")
    inner_axis, column_axis = (1, 0) if spec.attrs.get("adjoint_b") else (0, 1)
    if (
        indices.shape != (*values.shape, 2)
        or len(dense.shape) != 2
        or len(out.shape) != 2
        or out.shape[1] != dense.shape[column_axis]
    ):
        raise Unsupported("shapes do not fit: the reference tells")
    launches = [fill_launch(out.dtype, out.size, Pointer("const", 0), Pointer("out", 0))]
    if values.size and out.size:
        launches.append(_products_launch(spec, dense.shape[inner_axis]))
    return NativeCall(
        tuple(launch for launch in launches if launch is not None),
        constants=(np.zeros(1, out.dtype.as_numpy_dtype),),
        bytes_moved=out.nbytes + indices.nbytes + 3 * values.size * out.shape[1] * out.dtype.size,
        flops=2 * values.size * out.shape[1],
    )


def _products_launch(spec: NodeSpec, inner: int) -> CudaLaunch:
    """Return the launch of one product a thread.

    inner: the terms of an element at most.
    """
    indices, values, _, dense = spec.inputs
    out, dtype = spec.outputs[0], values.dtype
    kind = index_kind(indices)
    adjoint, transposed = bool(spec.attrs.get("adjoint_a")), bool(spec.attrs.get("adjoint_b"))
    count = values.size * out.shape[1]
    text = KernelText(fits_32_bits([count, dense.size, out.size]))
    for name, size in zip(("count", "rows", "columns", "inner"), (count, *out.shape, inner)):
        text.argument(name, size)
    text.line(f"index_p = ptr_{kind}({text.argument('indices', Pointer('in', 0))})")
    for name, place in (
        ("value", Pointer("in", 1)), ("dense", Pointer("in", 3)), ("out", Pointer("out", 0)),
    ):  # fmt: skip
        address = text.argument(f"{name}_at", place)
        text.line(f"{name}_p = {element_kinds.pointer(dtype, address)}")
    row, column = (1, 0) if adjoint else (0, 1)
    with grid_stride(text, "u", "count"):
        text.split("u", "entry", "column", "columns")
        text.line(f"m = int64(ld_ro(index_p, entry * 2 + {row}))")
        text.line(f"k = int64(ld_ro(index_p, entry * 2 + {column}))")
        with text.block("if m >= 0 and m < rows and k >= 0 and k < inner:"):
            at = "column * inner + k" if transposed else "k * columns + column"
            text.line("scale = ld_ro(value_p, entry)")
            text.line(f"v = ld_ro(dense_p, {at})")
            product = expressions.emit_op("Mul", ("scale", "v"), (dtype, dtype), dtype)
            text.line(f"atomic_add(out_p, m * columns + column, {product})")
    title = f"sparse product of {dtype.name} by {kind}"
    title += f"{', adjoint' if adjoint else ''}{', dense adjoint' if transposed else ''}"
    return text.launch(title, title, __name__, grid_for(count))
