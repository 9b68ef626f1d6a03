"""Build scatters into the rows of variables.

The variable's buffer, input 0, is updated in place. A faulty index is reported before any row
changes, as the reference does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from tfjit.framework.types import dtypes as d
from tfjit.framework.types.dtypes import DType
from tfjit.framework.types.shape import format_shape
from tfjit.kernels.codegen import expressions
from tfjit.kernels.cpu.data_movement.scatter import combined, refuse_policies
from tfjit.kernels.cpu.template import typed_pointers
from tfjit.kernels.cpu.template.indexed_rows import (
    each_row,
    rows_call,
    write_head,
    write_imports,
    write_share,
)
from tfjit.kernels.registry import NativeCall, NodeSpec, Pointer, Unsupported, native
from tfjit.kernels.source import KernelSource, Source

_BY_ZERO: Final = 2
_MOVED: Final = {1: d.uint8, 2: d.uint16, 4: d.uint32, 8: d.uint64, 16: d.complex128}
"""Types for elements of a size that are only moved."""


def variable_scatter_source(
    kind: str,
    dtype: DType,
    index: str,
    depth: int,
    single: bool,
    one_value: bool = False,
    refuses_zeros: bool = False,
) -> KernelSource:
    """Write a scatter into a variable.

    Words: those of `write_head`; the arrays are the variable and the updates. single: a row is one
    element. one_value: the updates are a scalar. refuses_zeros: an update of 0 is an error.
    """
    s = Source()
    of = "one value" if one_value else "single elements" if single else "rows"
    write_imports(s, f"{kind} of {dtype.name} {of} by vectors of {depth} {index} into a variable")
    with s.block("def kernel(args, chunk, nchunks):"):
        write_head(s, index, depth, ("variable", "updates"))
        s.line(f"all_p = {typed_pointers.pointer(dtype, 'updates_at')}")
        if refuses_zeros:
            s.line("zeros = 0")
            with s.block(f"for i in range({'1' if one_value else 'total * inner'}):"):
                s.line(f"v = {expressions.loaded(dtype, 'ld(all_p, i)')}")
                s.line("zeros |= int(v == 0)")
            with s.block("if zeros != 0:"):
                s.line(f"fail(args, {_BY_ZERO}, 0)")
                s.line("return")
        with s.block("if stop < total:"):
            s.line("fail(args, 1, report)")
            s.line("return")
        if one_value:
            s.line(f"v = {expressions.loaded(dtype, 'ld(all_p, 0)')}")
        write_share(s)
        at_index = () if one_value else (("updates", dtype),)
        with each_row(s, depth, (("variable", dtype),), at_index, single):
            if not one_value:
                s.line(f"v = {expressions.loaded(dtype, 'ld(updates_p, i)')}")
            if kind == "Update":
                value = "v"
            else:
                s.line(f"t = {expressions.loaded(dtype, 'ld_out(variable_p, i, 0)')}")
                value = combined(kind, dtype)
            s.line(f"st_out(variable_p, i, {expressions.stored(dtype, value)}, 0)")
    return KernelSource(s.text(), title=f"variable scatter {kind.lower()}", module=__name__)


@dataclass(frozen=True, slots=True)
class VariableScatter:
    """Describe a scatter into a variable.

    kind: of `combined`. dtype: of the elements that kernels see. vectors: the last axis of the
    indices holds index vectors, of `depth`. one_value: the updates are a scalar. refuses_zeros: an
    update of 0 is an error.
    """

    kind: str
    dtype: DType
    vectors: bool
    depth: int
    one_value: bool
    refuses_zeros: bool


def scatter_into_variable(spec: NodeSpec) -> VariableScatter:
    """Return the parts of a node that scatters into a variable.

    Raises Unsupported for types and shapes that do not fit.
    """
    variable, indices, updates = spec.inputs
    name = spec.op.removeprefix("Resource").removeprefix("Scatter")
    kind, vectors = name.removeprefix("Nd"), name.startswith("Nd")
    if not variable.shape or (vectors and not indices.shape):
        raise Unsupported("a scalar has no rows")
    dtype = variable.dtype
    if kind == "Update":
        if not dtype.is_numpy_compatible or np.dtype(dtype.as_numpy_dtype).hasobject:
            raise Unsupported(f"elements of {dtype.name} are no plain bytes")
        dtype = _MOVED.get(dtype.size, dtype)
    if not typed_pointers.is_supported(dtype) or updates.dtype is not variable.dtype:
        raise Unsupported(f"{updates.dtype.name} into {variable.dtype.name}")
    one_value = not vectors and updates.shape == ()
    places = indices.shape[:-1] if vectors else indices.shape
    depth = int(indices.shape[-1]) if vectors else 1
    if not one_value and updates.shape != places + variable.shape[depth:]:
        raise Unsupported("shapes do not fit")
    is_resource = spec.op.startswith("Resource")
    refuses_zeros = kind == "Div" and (is_resource or dtype.is_integer)
    return VariableScatter(kind, dtype, vectors, depth, one_value, refuses_zeros)


def _scatter(spec: NodeSpec) -> NativeCall:
    variable, indices, _ = spec.inputs
    scatter = scatter_into_variable(spec)
    if scatter.vectors:
        refuse_policies(spec)
        into = format_shape(variable.shape)
        text = f"indices[{{place}}] = [{{value}}] does not index into shape {into}"
    else:
        text = f"indices{{at}} = {{value}} is not in [0, {variable.shape[0]})"

    def write(index: str, single: bool) -> KernelSource:
        return variable_scatter_source(
            scatter.kind, scatter.dtype, index, scatter.depth, single, scatter.one_value,
            scatter.refuses_zeros,
        )  # fmt: skip

    is_resource = spec.op.startswith("Resource")
    by_zero = "updates must not contain 0" if is_resource else "Integer division by zero"
    arrays = (Pointer("in", 0), Pointer("in", 2))
    more = ((_BY_ZERO, by_zero),)
    padded = bool(spec.attrs.get("_padded"))
    return rows_call(
        write, variable, indices, 1, arrays, text, vectors=scatter.vectors, padded=padded, more=more
    )


OPS: Final = tuple(
    f"{prefix}Scatter{name}"
    for prefix in ("", "Resource")
    for name in (
        *("Add", "Sub", "Mul", "Div", "Max", "Min", "Update"),
        *("NdAdd", "NdSub", "NdMax", "NdMin", "NdUpdate"),
    )
)
"""Op types of scatters into variables."""

native(*OPS)(_scatter)
