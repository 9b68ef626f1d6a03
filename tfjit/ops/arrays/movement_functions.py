"""Define the public functions of the family `movement`: `concat`, `split`, `transpose`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes
from tfjit.framework.types.shape import TensorShape
from tfjit.ops.core.apply import create, tensor
from tfjit.ops.core.convert import convert_to_tensor
from tfjit.ops.core.dispatch import dispatched

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import AxisLike, TensorLike


@dispatched
def concat(values: TensorLike, axis: AxisLike, name: str = "concat") -> Tensor:
    """Join tensors along an axis."""
    if not isinstance(values, (list, tuple)):
        values = [values]
    if len(values) == 1:
        with name_scope(name):
            convert_to_tensor(axis, dtype=dtypes.int32, name="concat_dim").shape.assert_has_rank(0)
            return tensor("Identity", name, input=values[0])
    return tensor("ConcatV2", name, values=list(values), axis=axis)


@dispatched
def stack(values: Any, axis: int = 0, name: str = "stack") -> Tensor:
    """Join tensors of one shape along a new axis.

    Raises ValueError for an axis out of range.
    """
    if axis == 0 and not isinstance(values, Tensor):
        try:
            if values and all(map(_is_tensor, values)):
                return tensor("Pack", name, values=list(values), axis=0)
            return convert_to_tensor(values, name=name)
        except (TypeError, ValueError):
            pass
    parts = list(values)
    first = convert_to_tensor(parts[0]).shape_tuple
    if first is not None and not -(len(first) + 1) <= axis < len(first) + 1:
        raise ValueError(
            f"Argument `axis` = {axis} not in range [{-(len(first) + 1)}, {len(first) + 1})"
        )
    return tensor("Pack", name, values=parts, axis=axis)


def _is_tensor(value: object) -> bool:
    return isinstance(value, Tensor) or hasattr(value, "_as_graph_element")


def parallel_stack(values: Any, name: str = "parallel_stack") -> Tensor:
    """Join tensors of known shapes as `stack` along axis 0."""
    with name_scope(name) as scope:
        parts = [convert_to_tensor(v) for v in values]
        inner = TensorShape(parts[0].shape_tuple)
        expanded = [tensor("ExpandDims", None, input=p, dim=0) for p in parts]
        return tensor(
            "ParallelConcat",
            scope,
            values=expanded,
            shape=TensorShape([len(parts)]).concatenate(inner),
        )


def unstack(
    value: TensorLike, num: int | None = None, axis: int = 0, name: str = "unstack"
) -> list[Tensor]:
    """Return the slices along an axis.

    Raises ValueError when their number is neither given nor known.
    """
    if num is None:
        value = convert_to_tensor(value)
        known = value.shape_tuple
        if known is not None:
            if not -len(known) <= axis < len(known):
                raise ValueError(
                    f"Argument `axis` = {axis} not in range [{-len(known)}, {len(known)})"
                )
            num = known[axis]
        if num is None:
            raise ValueError(f"Cannot infer argument `num` from shape {value.shape}")
    return list(create("Unpack", name, value=value, num=num, axis=axis).outputs)


@dispatched
def split(
    value: TensorLike,
    num_or_size_splits: object,
    axis: AxisLike = 0,
    num: int | None = None,
    name: str = "split",
) -> list[Tensor]:
    """Split `value` along an axis.

    The parts are equal, by their number, or have given sizes (one may be -1).
    """
    if isinstance(num_or_size_splits, (int, np.integer)):
        return list(
            create(
                "Split", name, split_dim=axis, value=value, num_split=int(num_or_size_splits)
            ).outputs
        )
    sizes = convert_to_tensor(num_or_size_splits)
    if num is None:
        known = sizes.shape_tuple
        if known is None or len(known) != 1 or known[0] is None:
            raise ValueError(f"Cannot infer argument `num` from shape {num_or_size_splits}")
        num = known[0]
    return list(
        create(
            "SplitV", name, value=value, size_splits=sizes, split_dim=axis, num_split=num
        ).outputs
    )


def transpose(
    a: TensorLike, perm: TensorLike | None = None, name: str = "transpose", conjugate: bool = False
) -> Tensor:
    """Reorder axes; without `perm` in reverse."""
    with name_scope(name, "transpose", [a]) as scope:
        op = "ConjugateTranspose" if conjugate else "Transpose"
        a = convert_to_tensor(a, name="a")
        if perm is None:
            if a.shape_tuple is not None:
                perm = np.arange(len(a.shape_tuple), dtype=np.int32)[::-1]
            else:
                rank = tensor("Rank", None, input=a)
                down = tensor("Sub", None, x=rank, y=1)
                perm = tensor(
                    "Sub", None, x=down, y=tensor("Range", None, start=0, limit=rank, delta=1)
                )
        return tensor(op, scope, x=a, perm=perm)


def matrix_transpose(
    a: TensorLike, name: str = "matrix_transpose", conjugate: bool = False
) -> Tensor:
    """Swap the last two axes.

    Raises ValueError when the rank is known and below 2.
    """
    with name_scope(name, "matrix_transpose", [a]):
        a = convert_to_tensor(a, name="a")
        known = a.shape_tuple
        if known is not None:
            if len(known) < 2:
                raise ValueError(
                    f"Argument `a` should be a (batch) matrix with rank >= 2.  Received `a` = {a} "
                    f"with shape: {a.shape}"
                )
            perm: Any = [*range(len(known) - 2), len(known) - 1, len(known) - 2]
        else:
            rank = tensor("Rank", None, input=a)
            front = tensor("Range", None, start=0, limit=tensor("Sub", None, x=rank, y=2), delta=1)
            last = tensor(
                "Pack",
                None,
                values=[tensor("Sub", None, x=rank, y=1), tensor("Sub", None, x=rank, y=2)],
                axis=0,
            )
            perm = tensor("ConcatV2", None, values=[front, last], axis=0)
        return transpose(a, perm, conjugate=conjugate)


@dispatched
def tile(input: TensorLike, multiples: TensorLike, name: str | None = None) -> Tensor:
    """Repeat `input` `multiples[i]` times along axis i."""
    return tensor("Tile", name, input=input, multiples=multiples)


def repeat(
    input: TensorLike, repeats: TensorLike, axis: int | None = None, name: str | None = None
) -> Tensor:
    """Repeat slices along an axis, or elements of the flattened tensor.

    repeats: one number for all slices, or one for each. Raises TypeError for an axis that is no
    integer.
    """
    if axis is not None and not isinstance(axis, int):
        raise TypeError(
            f"Argument `axis` must be an int. Received `axis` = {axis} of type "
            f"{type(axis).__name__}"
        )
    with name_scope(name, "Repeat", [input, repeats]):
        data = convert_to_tensor(input, name="data")
        counts = convert_to_tensor(repeats, name="repeats", preferred_dtype=dtypes.int32)
        if counts.dtype not in (dtypes.int32, dtypes.int64):
            counts = tensor("Cast", None, x=counts, DstT=dtypes.int32)
        if counts.shape.rank is not None and counts.shape.rank > 1:
            raise ValueError(f"Shape {counts.shape} must have rank at most 1")
        if axis is None or data.shape.rank == 0:
            data, axis = tensor("Reshape", None, tensor=data, shape=[-1]), 0
        known = data.shape.rank
        if known is not None and not -known <= axis < known:
            raise ValueError(f"axis={axis} out of bounds: expected {-known}<=axis<{known}")
        if known is not None and isinstance(repeats, (int, np.integer)):
            return _repeat_all(data, int(repeats), axis % known)
        size = tensor(
            "GatherV2",
            None,
            params=tensor("Shape", None, input=data, out_type=counts.dtype),
            indices=axis,
            axis=0,
        )
        if counts.shape.num_elements() == 1:
            counts = tensor("Reshape", None, tensor=counts, shape=[])
        counts = tensor(
            "BroadcastTo", None, input=counts, shape=tensor("Pack", None, values=[size])
        )
        total = tensor("Sum", None, input=counts, reduction_indices=[0])
        places = tensor(
            "Range",
            None,
            start=tensor("ZerosLike", None, x=total),
            limit=total,
            delta=tensor("OnesLike", None, x=total),
        )
        # place p takes the first slice with repetitions that end behind p
        ends = tensor("ExpandDims", None, input=tensor("Cumsum", None, x=counts, axis=0), dim=0)
        indices = tensor(
            "UpperBound",
            None,
            sorted_inputs=ends,
            values=tensor("ExpandDims", None, input=places, dim=0),
        )
        return tensor(
            "GatherV2",
            None,
            params=data,
            indices=tensor("Squeeze", None, input=indices, squeeze_dims=[0]),
            axis=axis,
        )


def _repeat_all(data: Tensor, repeats: int, axis: int) -> Tensor:
    """Repeat every slice along an axis the same number of times."""
    sizes = data.shape_tuple or ()
    multiples = [1] * (len(sizes) + 1)
    multiples[axis + 1] = repeats
    wide = tensor(
        "Tile",
        None,
        input=tensor("ExpandDims", None, input=data, dim=axis + 1),
        multiples=multiples,
    )
    if sizes.count(None) <= 1:
        size = sizes[axis]
        result: object = [
            -1 if s is None else s
            for s in (*sizes[:axis], None if size is None else size * repeats, *sizes[axis + 1 :])
        ]
        if repeats or None not in sizes:
            return tensor("Reshape", None, tensor=wide, shape=result)
    factors = [repeats if i == axis else 1 for i in range(len(sizes))]
    return tensor(
        "Reshape",
        None,
        tensor=wide,
        shape=tensor("Mul", None, x=tensor("Shape", None, input=data), y=factors),
    )


def pad(
    tensor: TensorLike,
    paddings: TensorLike,
    mode: str = "CONSTANT",
    name: str | None = None,
    constant_values: TensorLike = 0,
) -> Tensor:
    """Pad a tensor: paddings [rank, 2] before and after each axis.

    mode CONSTANT, REFLECT or SYMMETRIC. Raises ValueError for another mode.
    """
    mode = mode.upper()
    if mode == "CONSTANT":
        if not isinstance(constant_values, Tensor) and constant_values == 0:
            out = create("Pad", name, input=tensor, paddings=paddings).outputs[0]
        else:
            out = create(
                "PadV2", name, input=tensor, paddings=paddings, constant_values=constant_values
            ).outputs[0]
    elif mode in ("REFLECT", "SYMMETRIC"):
        out = create("MirrorPad", name, input=tensor, paddings=paddings, mode=mode).outputs[0]
    else:
        raise ValueError(
            "Value of argument `mode` expected to be one of 'CONSTANT', 'REFLECT', or "
            f"'SYMMETRIC', got {mode}"
        )
    return out


@dispatched
def reverse(tensor: TensorLike, axis: AxisLike, name: str | None = None) -> Tensor:
    """Reverse axes."""
    return create("ReverseV2", name, tensor=tensor, axis=axis).outputs[0]


reverse_v2 = reverse


def reverse_sequence(
    input: TensorLike,
    seq_lengths: TensorLike,
    seq_axis: int | None = None,
    batch_axis: int | None = None,
    name: str | None = None,
    seq_dim: int | None = None,
    batch_dim: int | None = None,
) -> Tensor:
    """Reverse the first seq_lengths[i] elements of each batch entry."""
    seq = seq_dim if seq_axis is None else seq_axis
    batch = batch_dim if batch_axis is None else batch_axis
    return tensor(
        "ReverseSequence",
        name,
        input=input,
        seq_lengths=seq_lengths,
        seq_dim=seq,
        batch_dim=batch or 0,
    )


def roll(input: TensorLike, shift: TensorLike, axis: AxisLike, name: str | None = None) -> Tensor:
    """Move elements along axes; those past the end enter in front."""
    return tensor("Roll", name, input=input, shift=shift, axis=axis)
