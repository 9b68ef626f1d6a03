"""Infer shapes for the op types of the family `array`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.framework.types.dtypes import as_dtype, short_name
from tfjit.framework.types.shape import format_shape
from tfjit.ops.core.shape_rules import (
    Shapes,
    fail,
)

if TYPE_CHECKING:
    pass


def shape_vector(c: ShapeContext) -> Shapes:
    """Infer the shape of a shape: a vector of the rank's length."""
    return [(None,) if shape is None else (len(shape),) for shape in c.inputs]


def squeeze_shape(c: ShapeContext) -> Shapes:
    """Infer the shape without axes of size 1."""
    shape = c.inputs[0]
    if shape is None:
        return [None]
    dims = c.attr("squeeze_dims")
    rank = len(shape)
    for d in dims:
        if not -rank <= d < rank:
            raise fail(f"squeeze_dims[{dims.index(d)}] not in [{-rank},{rank}).")
    wanted = {d % rank for d in dims}
    out = []
    for i, size in enumerate(shape):
        if i in wanted:
            if size is not None and size != 1:
                raise fail(f"Can not squeeze dim[{i}], expected a dimension of 1, got {size}")
        elif wanted:
            out.append(size)
        elif size is None:
            return [None]  # only the run shows whether this axis is dropped
        elif size != 1:
            out.append(size)
    return [tuple(out)]


def expand_dims_shape(c: ShapeContext) -> Shapes:
    """Infer the shape with an axis of size 1 more."""
    shape = c.inputs[0]
    dim = c.constant(1)
    n = c.num_elements(c.inputs[1])
    if dim is not None and dim.size != 1:
        raise fail(
            "'dim' input must be a tensor with a single value, but got "
            f"{n if n is not None else dim.size} elements"
        )
    if n is not None and n != 1:
        raise fail("'dim' input must be a tensor with a single value")
    if shape is None:
        return [None]
    rank = len(shape)
    if dim is None:
        return [None]
    axis = int(dim.reshape(()))
    if not -rank - 1 <= axis <= rank:
        raise fail(f"dim {axis} not in the interval [{-rank - 1}, {rank}].")
    axis = axis + rank + 1 if axis < 0 else axis
    return [(*shape[:axis], 1, *shape[axis:])]


def fill_shape(c: ShapeContext) -> Shapes:
    """Infer the shape that a constant asks for."""
    c.with_rank(0, 1)
    c.with_rank(1, 0)
    dims = c.constant(0)
    if dims is not None and (dims < 0).any():
        raise fail(f"Fill dimensions must be >= 0, got {[int(d) for d in dims]}")
    return [c.constant_as_shape(0)]


def broadcast_to_shape(c: ShapeContext) -> Shapes:
    """Infer the wanted shape, which the input must broadcast to."""
    c.with_rank(1, 1)
    given, wanted = c.inputs[0], c.constant_as_shape(1)
    if wanted is None:
        n = c.dim(c.inputs[1], 0)
        return [None if n is None else (None,) * n]
    if given is None:
        return [wanted]
    if len(given) > len(wanted):
        raise fail(
            f"Rank of input ({len(given)}) must be no greater than rank of output shape "
            f"({len(wanted)})."
        )
    for x, y in zip(reversed(given), reversed(wanted)):
        if x is not None and y is not None and x != y and x != 1:
            raise fail(f"Incompatible shapes: {format_shape(given)} vs. {format_shape(wanted)}")
    return [wanted]


def broadcast_args_shape(c: ShapeContext) -> Shapes:
    """Infer the length of two shapes broadcast: the longer one's."""
    sizes = []
    for i in (0, 1):
        (size,) = c.with_rank(i, 1)
        sizes.append(size)
    if None in sizes:
        return [(None,)]
    return [(max(s for s in sizes if s is not None),)]


def broadcast_gradient_args_shape(c: ShapeContext) -> Shapes:
    """Infer two vectors of unknown lengths: the axes to sum over."""
    c.with_rank(0, 1)
    c.with_rank(1, 1)
    return [(None,), (None,)]


def range_shape(c: ShapeContext) -> Shapes:
    """Infer a vector; its length follows from constant ends."""
    for i in range(3):
        c.with_rank(i, 0)
    values = [c.constant(i) for i in range(3)]
    start, limit, delta = values
    if start is None or limit is None or delta is None:
        return [(None,)]
    first, last, step = start.item(), limit.item(), delta.item()
    if step == 0:
        raise fail("Requires delta != 0")
    if first > last and step > 0:
        raise fail(f"Requires start <= limit when delta > 0: {first}/{last}")
    if first < last and step < 0:
        raise fail(f"Requires start >= limit when delta < 0: {first}/{last}")
    if start.dtype.kind in "iu":
        return [(-(-abs(last - first) // abs(step)),)]
    return [(math.ceil(abs((float(last) - float(first)) / float(step))),)]


def linspace_shape(c: ShapeContext) -> Shapes:
    """Infer a vector of a constant length."""
    for i in range(3):
        c.with_rank(i, 0)
    num = c.constant(2)
    if num is None:
        return [(None,)]
    if int(num) <= 0:
        raise fail(f"Requires num > 0: {int(num)}")
    return [(int(num),)]


def concat_offset_shape(c: ShapeContext) -> Shapes:
    """Infer the shapes of the offsets: those of the shapes."""
    return list(c.inputs[1:])


def invert_permutation_shape(c: ShapeContext) -> Shapes:
    """Infer the vector's own shape."""
    return [c.with_rank(0, 1)]


def bitcast_shape(c: ShapeContext) -> Shapes:
    """Infer the shape for elements of another size."""
    shape = c.inputs[0]
    size_in, size_out = c.input_dtypes[0].size, c.attr("type").size
    if not size_in or not size_out:
        raise fail("Cannot bitcast between types of unknown size")
    if shape is None or size_in == size_out:
        return [shape]
    if size_in < size_out:
        if not shape:
            raise fail("Shape must be at least rank 1 but is rank 0")
        ratio = size_out // size_in
        if shape[-1] is not None and shape[-1] != ratio:
            raise fail(f"Cannot bitcast due to shape. {shape[-1]} does not match {ratio}")
        return [shape[:-1]]
    return [(*shape, size_in // size_out)]


def fingerprint_shape(c: ShapeContext) -> Shapes:
    """Infer the bytes of a row's fingerprint."""
    shape = c.with_rank_at_least(0, 1)
    c.with_rank(1, 0)
    method = c.constant(1)
    size = None
    if method is not None:
        name = bytes(method.reshape(-1)[0])
        if name != b"farmhash64":
            raise fail(f"unsupported method: {name.decode(errors='replace')}")
        size = 8
    return [(c.dim(shape, 0), size)]


def ensured_shape(c: ShapeContext) -> Shapes:
    """Infer the input's shape merged with the wanted one."""
    return [c.merge(c.inputs[0], c.shape_attr("shape"))]


def const_shape(c: ShapeContext) -> Shapes:
    """Infer the shape of the attr `value`."""
    value, dtype = c.attr("value"), c.attr("dtype")
    found = value.dtype  # of NumPy, or a DType where no array holds it
    if found is not dtype and (not dtype.is_numpy_compatible or found != dtype.as_numpy_dtype):
        raise fail(
            f"Type mismatch between value ({short_name(as_dtype(found))}) and dtype "
            f"({short_name(dtype)})"
        )
    return [tuple(value.shape)]


def placeholder_shape(c: ShapeContext) -> Shapes:
    """Infer the attr `shape`."""
    # Graphs older than unknown_rank write an unknown rank as a scalar's shape; TensorFlow reads
    # both as unknown.
    return [c.shape_attr("shape")]


def placeholder_with_default_shape(c: ShapeContext) -> Shapes:
    """Infer the attr `shape`, which the default must agree with."""
    c.merge(c.inputs[0], c.shape_attr("shape"))
    return [c.shape_attr("shape")]


def diag_shape(c: ShapeContext) -> Shapes:
    """Infer a diagonal tensor's shape: the input's, twice."""
    shape = c.with_rank_at_least(0, 1)
    return [None if shape is None else shape * 2]


def diag_part_shape(c: ShapeContext) -> Shapes:
    """Infer the first half of the axes, merged with the second."""
    shape = c.inputs[0]
    if shape is None:
        return [None]
    rank = len(shape)
    if rank % 2 or rank <= 0:
        raise fail(f"Input must have even and non-zero rank, input rank is {rank}")
    return [tuple(c.merge_dim(shape[i], shape[i + rank // 2]) for i in range(rank // 2))]


def empty_shape(c: ShapeContext) -> Shapes:
    """Infer the shape that a constant asks for."""
    c.with_rank(0, 1)
    return [c.constant_as_shape(0)]
