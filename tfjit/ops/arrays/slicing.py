"""Define slices by begin and size, by Python's subscript, and by mask."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any

import numpy as np

from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.framework.types import dtypes
from tfjit.framework.types.dtypes import as_dtype
from tfjit.framework.types.shape import Shape
from tfjit.framework.types.strided_slice import resolve
from tfjit.ops.arrays.array import shape
from tfjit.ops.arrays.creation import ones_like
from tfjit.ops.arrays.indexing_functions import gather, where
from tfjit.ops.arrays.movement_functions import concat
from tfjit.ops.core.apply import create, tensor
from tfjit.ops.core.convert import constant, convert_to_tensor
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import Shapes, fail, int_list_constant, nothing, unchanged
from tfjit.ops.core.type_lists import INDEX

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import TensorLike


def _slice(c: ShapeContext) -> Shapes:
    shape = c.inputs[0]
    (n_begin,) = c.with_rank(1, 1)
    (n_size,) = c.with_rank(2, 1)
    n = c.merge_dim(n_begin, n_size)
    begin, sizes = int_list_constant(c, 1), int_list_constant(c, 2)
    partial = None if sizes is not None else c.constant_as_shape(2)
    if n is not None:
        shape = c.with_rank(shape, n)
    elif shape is not None:
        n = len(shape)
    if sizes is not None and begin is not None and shape is not None:
        c.with_rank(shape, len(begin))
        out: list[int | None] = []
        for size, start, wanted in zip(shape, begin, sizes):
            if wanted == -1:
                out.append(c.subtract(size, start))
            else:
                if wanted < 0:
                    raise fail(f"Expected size[{len(out)}] >= 0 or -1, but got {wanted}")
                out.append(wanted)
        return [tuple(out)]
    if sizes is not None:
        return [tuple(None if s == -1 else s for s in sizes)]
    if partial is not None:
        return [partial]
    return [None if n is None else (None,) * n]


def _strided_slice(c: ShapeContext) -> Shapes:
    shape = c.inputs[0]
    given: Shape = None
    for i in (1, 2, 3):
        given = c.merge(given, c.with_rank(i, 1))
    strides = int_list_constant(c, 3)
    if shape is None or given is None or given[0] is None or strides is None:
        return [None]
    masks = [
        c.attr(name)
        for name in ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
    ]
    return [
        resolve(
            shape, int_list_constant(c, 1), int_list_constant(c, 2), strides, *masks
        ).final_shape
    ]


def _strided_slice_grad(c: ShapeContext) -> Shapes:
    return [c.constant_as_shape(0)]


def _tensor_strided_slice_update(c: ShapeContext) -> Shapes:
    return [c.inputs[0]]


register_op(
    "Slice",
    inputs=("input: T", "begin: Index", "size: Index"),
    outputs=("output: T",),
    attrs=("T: type", f"Index: {INDEX}"),
    shape=_slice,
)
register_op(
    "StridedSlice",
    inputs=("input: T", "begin: Index", "end: Index", "strides: Index"),
    outputs=("output: T",),
    attrs=(
        "T: type",
        "Index: {int16, int32, int64}",
        "begin_mask: int = 0",
        "end_mask: int = 0",
        "ellipsis_mask: int = 0",
        "new_axis_mask: int = 0",
        "shrink_axis_mask: int = 0",
    ),
    shape=_strided_slice,
)
register_op(
    "StridedSliceGrad",
    inputs=("shape: Index", "begin: Index", "end: Index", "strides: Index", "dy: T"),
    outputs=("output: T",),
    attrs=(
        "T: type",
        f"Index: {INDEX}",
        "begin_mask: int = 0",
        "end_mask: int = 0",
        "ellipsis_mask: int = 0",
        "new_axis_mask: int = 0",
        "shrink_axis_mask: int = 0",
    ),
    shape=_strided_slice_grad,
)
register_op(
    "TensorStridedSliceUpdate",
    inputs=("input: T", "begin: Index", "end: Index", "strides: Index", "value: T"),
    outputs=("output: T",),
    attrs=(
        "T: type",
        f"Index: {INDEX}",
        "begin_mask: int = 0",
        "end_mask: int = 0",
        "ellipsis_mask: int = 0",
        "new_axis_mask: int = 0",
        "shrink_axis_mask: int = 0",
    ),
    shape=_tensor_strided_slice_update,
)


def slice(
    input_: TensorLike, begin: TensorLike, size: TensorLike, name: str | None = None
) -> Tensor:
    """Return size[i] elements from begin[i] on along each axis.

    A size of -1 reaches to the end.
    """
    return tensor("Slice", name, input=input_, begin=begin, size=size)


def strided_slice(
    input_: object,
    begin: TensorLike,
    end: object,
    strides: object = None,
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
    var: Any = None,
    name: str | None = None,
) -> Tensor:
    """Return a NumPy-like slice.

    Bit k of a mask applies to entry k. var: a variable that `assign` of the slice writes.
    """
    if strides is None:
        strides = ones_like(begin)
    out = tensor(
        "StridedSlice",
        name,
        input=input_,
        begin=begin,
        end=end,
        strides=strides,
        begin_mask=begin_mask,
        end_mask=end_mask,
        ellipsis_mask=ellipsis_mask,
        new_axis_mask=new_axis_mask,
        shrink_axis_mask=shrink_axis_mask,
    )
    if var is not None:
        masks = {
            "begin_mask": begin_mask,
            "end_mask": end_mask,
            "ellipsis_mask": ellipsis_mask,
            "new_axis_mask": new_axis_mask,
            "shrink_axis_mask": shrink_axis_mask,
        }

        def assign(val: TensorLike, name: str | None = None) -> Any:
            """Write a value into this slice of the variable; gives the variable."""
            made = var._strided_slice_assign(
                val, name or f"{out.op.name}_assign", begin=begin, end=end, strides=strides, **masks
            )
            return made

        out.assign = assign
    return out


_INDEX_TYPES = (dtypes.int16, dtypes.int32, dtypes.int64)


def _check_index(index: TensorLike) -> None:
    if isinstance(index, (int, np.integer)) and not isinstance(index, (bool, np.bool_)):
        return
    if isinstance(index, Tensor) and index.dtype.base_dtype in _INDEX_TYPES:
        return
    dimension = getattr(index, "__index__", None)
    if dimension is not None and not isinstance(index, (bool, np.bool_, Tensor)):
        return
    raise TypeError(
        "Only integers, slices (`:`), ellipsis (`...`), tf.newaxis (`None`) and scalar "
        "tf.int32/tf.int64 tensors are valid indices, "
        f"got {index!r}"
    )


def slice_helper(value: Tensor, entries: object, var: TensorLike | None = None) -> Tensor:
    """Return `value[entries]`.

    entries: integers, slices, `...`, None and scalar tensors; a boolean tensor selects as
    `boolean_mask`.

    var: the variable that holds the value; `assign` of the slice writes it.
    """
    if (
        isinstance(entries, (Tensor, np.ndarray))
        and as_dtype(entries.dtype).base_dtype is dtypes.bool
    ):
        return boolean_mask(value, entries)
    if not isinstance(entries, (list, tuple)):
        entries = (entries,)
    begin: list[Any] = []
    end: list[object] = []
    strides: list[Any] = []
    begin_mask = end_mask = ellipsis_mask = new_axis_mask = shrink_axis_mask = 0
    for i, entry in enumerate(entries):
        bit = 1 << i
        if isinstance(entry, builtins.slice):
            for part in (entry.start, entry.stop, entry.step):
                if part is not None:
                    _check_index(part)
            begin.append(0 if entry.start is None else entry.start)
            end.append(0 if entry.stop is None else entry.stop)
            strides.append(1 if entry.step is None else entry.step)
            begin_mask |= bit if entry.start is None else 0
            end_mask |= bit if entry.stop is None else 0
        elif entry is Ellipsis:
            begin.append(0)
            end.append(0)
            strides.append(1)
            ellipsis_mask |= bit
        elif entry is None:
            begin.append(0)
            end.append(0)
            strides.append(1)
            new_axis_mask |= bit
        else:
            _check_index(entry)
            begin.append(entry)
            end.append(entry + 1)
            strides.append(1)
            shrink_axis_mask |= bit
    with name_scope(None, "strided_slice", [value, *begin, *end, *strides]) as scope:
        packed = [
            _pack_indices(part, name)
            for part, name in ((begin, "stack"), (end, "stack_1"), (strides, "stack_2"))
        ]
        if any(part.dtype is dtypes.int64 for part in packed):
            packed = [
                part if part.dtype is dtypes.int64 else tensor("Cast", None, x=part, DstT="int64")
                for part in packed
            ]
        return strided_slice(
            value,
            packed[0],
            packed[1],
            packed[2],
            begin_mask,
            end_mask,
            ellipsis_mask,
            new_axis_mask,
            shrink_axis_mask,
            var,
            scope,
        )


def _pack_indices(parts: list[Any], name: str) -> Tensor:
    kinds = {p.dtype.base_dtype for p in parts if isinstance(p, Tensor)}
    if not kinds:
        numbers = [int(p) for p in parts]
        wide = any(not -(2**31) <= n < 2**31 for n in numbers)
        return constant(np.array(numbers, np.int64 if wide else np.int32), name=name)
    kind = dtypes.int64 if dtypes.int64 in kinds else next(iter(kinds))
    values = [
        tensor("Cast", None, x=p, DstT=kind)
        if isinstance(p, Tensor) and p.dtype.base_dtype is not kind
        else p
        for p in parts
    ]
    return tensor("Pack", name, values=values, T=kind, axis=0)


def boolean_mask(
    tensor: TensorLike, mask: TensorLike, name: str = "boolean_mask", axis: int | None = None
) -> Tensor:
    """Return the elements where a mask is true.

    tensor [before..., mask shape..., rest...] -> [before..., number of true, rest...].
    """
    with name_scope(name, "boolean_mask", [tensor, mask]):
        value, chosen = (
            convert_to_tensor(tensor, name="tensor"),
            convert_to_tensor(mask, name="mask"),
        )
        rank = chosen.shape.rank
        if rank == 0:
            raise ValueError("mask cannot be scalar.")
        if rank is None:
            raise ValueError(
                "Number of mask dimensions must be specified, even if some dimensions are None.  "
                "E.g. shape=[None] is ok, but shape=None is not."
            )
        axis = 0 if axis is None else axis
        given = value.shape_tuple
        if given is not None:
            value.shape[axis : axis + rank].assert_is_compatible_with(chosen.shape)
        lead = create(
            "Prod",
            None,
            input=slice_helper(shape(value), builtins.slice(axis, axis + rank)),
            reduction_indices=[0],
        ).outputs[0]
        before = slice_helper(shape(value), builtins.slice(None, axis))
        after = slice_helper(shape(value), builtins.slice(axis + rank, None))
        merged = concat([before, [lead], after], 0)
        flat = create("Reshape", None, tensor=value, shape=merged).outputs[0]
        if given is not None:
            flat.set_shape([*given[:axis], None, *given[axis + rank :]])
        places = create(
            "Squeeze",
            None,
            input=where(create("Reshape", None, tensor=chosen, shape=[-1]).outputs[0]),
            squeeze_dims=[1],
        ).outputs[0]
        return gather(flat, places, axis=axis)


register_op(
    "ResourceStridedSliceAssign",
    inputs=("ref: resource", "begin: Index", "end: Index", "strides: Index", "value: T"),
    attrs=(
        "T: type",
        f"Index: {INDEX}",
        "begin_mask: int = 0",
        "end_mask: int = 0",
        "ellipsis_mask: int = 0",
        "new_axis_mask: int = 0",
        "shrink_axis_mask: int = 0",
    ),
    stateful=True,
    shape=nothing,
)
register_op(
    "StridedSliceAssign",
    inputs=("ref: Ref(T)", "begin: Index", "end: Index", "strides: Index", "value: T"),
    outputs=("output_ref: Ref(T)",),
    attrs=(
        "T: type",
        f"Index: {INDEX}",
        "begin_mask: int = 0",
        "end_mask: int = 0",
        "ellipsis_mask: int = 0",
        "new_axis_mask: int = 0",
        "shrink_axis_mask: int = 0",
    ),
    shape=unchanged,
)
