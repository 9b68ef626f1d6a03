"""Propagate batch axes through nodes that compute each row independently.

Rows are one axis of length `rows`, such as the batch. A tensor is *sharded* along one of its axes,
or *whole* (None): the same for all rows. A sharded axis has a multiple of `rows` elements; the
elements of one row are contiguous in it. Each rule holds for any part of the rows: a node that
receives some rows of its sharded operands, and the whole of the others, returns those rows of its
results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Final

import numpy as np

from tfjit.framework.op_defs.op_traits import REDUCTION, VIEW
from tfjit.framework.scalar import elementwise
from tfjit.kernels.ir.fused_group import CONSTANT, INPUT, FusedGroup, Member, Ref
from tfjit.kernels.registry import NodeSpec, TensorSpec
from tfjit.runtime.lowering.row_splits import Axis, Shard


class NotIndependent(Exception):
    """Signal that a row may depend on other rows.

    An op without a rule counts as dependent.
    """


@dataclass(frozen=True, slots=True)
class ShardSpec:
    """State the axes along which a node takes and gives rows.

    sizes: (input, position) pairs. The input is a known vector; its element at that position is the
    length of an output's sharded axis, and must be replaced by the shard's length.
    """

    inputs: tuple[Axis, ...]
    outputs: tuple[Axis, ...]
    sizes: tuple[tuple[int, int], ...] = ()


def reshaped_axis(shape: tuple[int, ...], axis: Axis, new: tuple[int, ...], rows: int) -> Axis:
    """Return the sharded axis of the same elements in another shape.

    Raises NotIndependent if rows are no longer a part of one axis.
    """
    if axis is None:
        return None
    before = prod(shape[:axis])
    count = 1
    for k, length in enumerate(new):
        if count == before and length % rows == 0 and length:
            return k
        count *= length
    raise NotIndependent(f"rows of {list(shape)} along axis {axis} are not one axis of {list(new)}")


def shard_spec(spec: NodeSpec, axes: Sequence[Axis], rows: int) -> ShardSpec:
    """Return a node's ShardSpec for inputs that are sharded along `axes`.

    The spec may require further inputs to be sharded. Raises NotIndependent when results of one row
    depend on other rows.
    """
    if all(axis is None for axis in axes):
        return ShardSpec(tuple(axes), (None,) * len(spec.outputs))
    rule = _RULES.get(spec.op)
    if rule is None and spec.has_trait(REDUCTION):
        rule = _reduction
    if rule is None and spec.has_trait(VIEW):
        rule = _view
    if rule is not None:
        return rule(spec, axes, rows)
    if elementwise.lookup(spec.op) is not None:
        return _elementwise(spec, axes, rows)
    raise NotIndependent(f"{spec.op} is not known to keep rows apart")


def shard_of(spec: NodeSpec, rule: ShardSpec, shard: Shard) -> NodeSpec:
    """Return the same node for a shard of the rows."""
    constants = _shards_of_known(spec.constants, rule, shard)
    for k, place in rule.sizes:
        constants[k] = _shard_of_sizes(constants[k], place, shard)
    attrs: Mapping[str, Any] = spec.attrs
    if spec.op == "_Fused":
        attrs = {**spec.attrs, "group": _shard_of_group(spec.attrs["group"], rule.inputs, shard)}
    return replace(
        spec,
        attrs=attrs,
        inputs=tuple(
            _shard_of_tensor(t, axis, shard)
            for t, axis in zip(spec.inputs, rule.inputs, strict=True)
        ),
        outputs=tuple(
            _shard_of_tensor(t, axis, shard)
            for t, axis in zip(spec.outputs, rule.outputs, strict=True)
        ),
        constants=constants,
    )


def _shards_of_known(
    constants: Mapping[int, np.ndarray], rule: ShardSpec, shard: Shard
) -> dict[int, np.ndarray]:
    found = {}
    for k, value in constants.items():
        axis = rule.inputs[k]
        found[k] = (
            value if axis is None else np.ascontiguousarray(value[shard.slices(value.shape, axis)])
        )
    return found


def _shard_of_sizes(sizes: np.ndarray, place: int, shard: Shard) -> np.ndarray:
    found = np.array(sizes)
    if found[place] != -1:  # -1 ("the remaining elements") holds for a shard, too
        found[place] = shard.length(int(found[place]))
    return found


def _shard_of_tensor(tensor: TensorSpec, axis: Axis, shard: Shard) -> TensorSpec:
    return TensorSpec(tensor.dtype, shard.shape(tensor.shape, axis))


def _positive(axis: Any, rank: int) -> int:
    found = int(axis)
    return found + rank if found < 0 else found


def _known(spec: NodeSpec, k: int) -> np.ndarray:
    if k not in spec.constants:
        raise NotIndependent(f"input {k} of {spec.name} is not known")
    return np.asarray(spec.constants[k])


def _only(axes: Sequence[Axis], *operands: int) -> None:
    """Raise NotIndependent if any other input is sharded."""
    if any(axis is not None for k, axis in enumerate(axes) if k not in operands):
        raise NotIndependent("an operand that all rows read is by rows")


def _elementwise(spec: NodeSpec, axes: Sequence[Axis], rows: int) -> ShardSpec:
    rank = max((len(t.shape) for t in spec.inputs), default=0)
    found = {rank - len(t.shape) + axis for t, axis in zip(spec.inputs, axes) if axis is not None}
    if len(found) != 1:
        raise NotIndependent(f"{spec.op} would put rows of different axes together")
    (axis,) = found
    if spec.op == "Select" and any(t.shape != spec.inputs[0].shape for t in spec.inputs):
        raise NotIndependent("Select by a vector")
    length = spec.outputs[0].shape[axis]
    needed: list[Axis] = []
    for t, own in zip(spec.inputs, axes):
        dim = axis - (rank - len(t.shape))
        if own is not None and t.shape[own] != length:
            raise NotIndependent(f"{spec.op} repeats rows")
        needed.append(dim if dim >= 0 and t.shape[dim] == length else None)
    return ShardSpec(tuple(needed), (axis,) * len(spec.outputs))


def _bias_add(spec: NodeSpec, axes: Sequence[Axis], rows: int) -> ShardSpec:
    rank = len(spec.inputs[0].shape)
    channels = (
        1 if bytes(spec.attrs.get("data_format", b"NHWC")) == b"NCHW" and rank > 2 else rank - 1
    )
    _only(axes, 0)
    if axes[0] == channels:
        raise NotIndependent("the channels are by rows")
    return ShardSpec((axes[0], None), (axes[0],))


def _product(spec: NodeSpec, axes: Sequence[Axis], rows: int) -> ShardSpec:
    transposed_a, transposed_b = (
        bool(spec.attrs.get("transpose_a", False)),
        bool(spec.attrs.get("transpose_b", False)),
    )
    row, column = (1 if transposed_a else 0), (0 if transposed_b else 1)
    if tuple(axes) == (row, None):
        return ShardSpec((row, None), (0,))
    if tuple(axes) == (None, column):
        return ShardSpec((None, column), (1,))
    raise NotIndependent("rows are summed over")


def _batch_product(spec: NodeSpec, axes: Sequence[Axis], rows: int) -> ShardSpec:
    x, y = spec.inputs
    rank = len(spec.outputs[0].shape)
    row = len(x.shape) - (1 if spec.attrs.get("adj_x", False) else 2)
    column = len(y.shape) - (2 if spec.attrs.get("adj_y", False) else 1)
    if axes[0] == row and axes[1] is None and (len(y.shape) == 2 or prod(y.shape[:-2]) == 1):
        return ShardSpec((row, None), (rank - 2,))
    if axes[1] == column and axes[0] is None and (len(x.shape) == 2 or prod(x.shape[:-2]) == 1):
        return ShardSpec((None, column), (rank - 1,))
    found = {rank - len(t.shape) + axis for t, axis in zip(spec.inputs, axes) if axis is not None}
    (dim, *others) = found
    if others or dim >= rank - 2:
        raise NotIndependent("rows are summed over")
    length = spec.outputs[0].shape[dim]
    needed: list[Axis] = []
    for t, own in zip(spec.inputs, axes):
        k = dim - (rank - len(t.shape))
        if own is not None and t.shape[own] != length:
            raise NotIndependent("a product repeats rows")
        needed.append(k if k >= 0 and t.shape[k] == length else None)
    return ShardSpec((needed[0], needed[1]), (dim,))


def _alike(axes: Sequence[Axis], operands: Sequence[int]) -> int:
    """Return the common axis of the sharded inputs among `operands`.

    All inputs in `at` must be sharded along this axis.
    """
    found = {axes[k] for k in operands} - {None}
    _only(axes, *operands)
    if len(found) != 1:
        raise NotIndependent("inputs are by rows along different axes")
    (axis,) = found
    assert axis is not None
    return axis


def _concat(spec: NodeSpec, axes: Sequence[Axis], rows: int) -> ShardSpec:
    count = len(spec.inputs) - 1
    values, axis_at = (range(count), count) if spec.op == "ConcatV2" else (range(1, count + 1), 0)
    joined = _positive(_known(spec, axis_at).reshape(-1)[0], len(spec.outputs[0].shape))
    axis = _alike(axes, values)
    if axis == joined:
        raise NotIndependent("rows are joined to others")
    return ShardSpec(tuple(axis if k in values else None for k in range(count + 1)), (axis,))


def _pack(spec: NodeSpec, axes: Sequence[Axis], rows: int) -> ShardSpec:
    dim = _positive(spec.attrs.get("axis", 0), len(spec.outputs[0].shape))
    axis = _alike(axes, range(len(axes)))
    return ShardSpec((axis,) * len(axes), (axis + (axis >= dim),))


def _unpack(spec: NodeSpec, axes: Sequence[Axis], rows: int) -> ShardSpec:
    dim = _positive(spec.attrs.get("axis", 0), len(spec.inputs[0].shape))
    axis = _alike(axes, (0,))
    if axis == dim:
        raise NotIndependent("rows become tensors of their own")
    return ShardSpec((axis,), (axis - (axis > dim),) * len(spec.outputs))


def _split(spec: NodeSpec, axes: Sequence[Axis], rows: int) -> ShardSpec:
    value, axis_at = (1, 0) if spec.op == "Split" else (0, 2)
    axis = _alike(axes, (value,))
    if axis == _positive(_known(spec, axis_at).reshape(-1)[0], len(spec.inputs[value].shape)):
        raise NotIndependent("rows are split")
    return ShardSpec(
        tuple(axis if k == value else None for k in range(len(axes))), (axis,) * len(spec.outputs)
    )


def _transpose(spec: NodeSpec, axes: Sequence[Axis], rows: int) -> ShardSpec:
    axis = _alike(axes, (0,))
    order = [_positive(k, len(spec.inputs[0].shape)) for k in _known(spec, 1).reshape(-1)]
    return ShardSpec((axis, None), (order.index(axis),))


def _slice(spec: NodeSpec, axes: Sequence[Axis], rows: int) -> ShardSpec:
    axis = _alike(axes, (0,))
    if int(_known(spec, 1)[axis]) != 0 or spec.outputs[0].shape[axis] != spec.inputs[0].shape[axis]:
        raise NotIndependent("some rows are left out")
    _known(spec, 2)
    return ShardSpec((axis, None, None), (axis,), ((2, axis),))


def _strided_slice(spec: NodeSpec, axes: Sequence[Axis], rows: int) -> ShardSpec:
    axis = _alike(axes, (0,))
    begin, end, strides = (_known(spec, k) for k in (1, 2, 3))
    masks = {
        name: int(spec.attrs.get(f"{name}_mask", 0))
        for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
    }
    if masks["ellipsis"] or masks["new_axis"]:
        raise NotIndependent("a slice with an ellipsis or new axes")
    length = spec.inputs[0].shape[axis]
    out = axis - sum(masks["shrink_axis"] >> k & 1 for k in range(axis))
    if axis >= len(begin):
        return ShardSpec((axis, None, None, None), (out,))
    bit = 1 << axis
    whole = (
        int(strides[axis]) == 1
        and (masks["begin"] & bit or int(begin[axis]) == 0)
        and not masks["shrink_axis"] & bit
    )
    if whole and masks["end"] & bit:
        return ShardSpec((axis, None, None, None), (out,))
    if whole and int(end[axis]) == length:
        return ShardSpec((axis, None, None, None), (out,), ((2, axis),))
    raise NotIndependent("some rows are left out")


def _reduction(spec: NodeSpec, axes: Sequence[Axis], rows: int) -> ShardSpec:
    axis = _alike(axes, (0,))
    rank = len(spec.inputs[0].shape)
    reduced = {_positive(k, rank) for k in _known(spec, 1).reshape(-1)}
    if axis in reduced:
        raise NotIndependent("rows are reduced")
    kept = bool(spec.attrs.get("keep_dims", False))
    return ShardSpec((axis, None), (axis if kept else axis - sum(k < axis for k in reduced),))


def _arg_reduction(spec: NodeSpec, axes: Sequence[Axis], rows: int) -> ShardSpec:
    axis = _alike(axes, (0,))
    reduced = _positive(_known(spec, 1).reshape(-1)[0], len(spec.inputs[0].shape))
    if axis == reduced:
        raise NotIndependent("rows are reduced")
    return ShardSpec((axis, None), (axis - (axis > reduced),))


def _last_axis(spec: NodeSpec, axes: Sequence[Axis], rows: int) -> ShardSpec:
    axis = _alike(axes, (0,))
    if axis == len(spec.inputs[0].shape) - 1:
        raise NotIndependent("rows are normalized")
    return ShardSpec((axis,), (axis,))


def _view(spec: NodeSpec, axes: Sequence[Axis], rows: int) -> ShardSpec:
    _only(axes, 0)
    axis = reshaped_axis(spec.inputs[0].shape, axes[0], spec.outputs[0].shape, rows)
    sizes: tuple[tuple[int, int], ...] = ()
    if spec.op == "Reshape":
        _known(spec, 1)
        assert axis is not None
        sizes = ((1, axis),)
    return ShardSpec((axes[0], *(None,) * (len(axes) - 1)), (axis,), sizes)


def _same(spec: NodeSpec, axes: Sequence[Axis], rows: int) -> ShardSpec:
    axis = _alike(axes, range(len(axes)))
    return ShardSpec((axis,) * len(axes), (axis,) * len(spec.outputs))


def _get_row(spec: NodeSpec, axes: Sequence[Axis], rows: int) -> ShardSpec:
    axis = _alike(axes, (0,))
    if axis == 0:
        raise NotIndependent("an element of what is by rows")
    return ShardSpec((axis, None), (axis - 1,))


def _set_row(spec: NodeSpec, axes: Sequence[Axis], rows: int) -> ShardSpec:
    _only(axes, 0, 2)
    found = ({axes[0]} if axes[0] is not None else set()) | (
        {axes[2] + 1} if axes[2] is not None else set()
    )
    if len(found) != 1 or 0 in found:
        raise NotIndependent("an element is set of what is by rows")
    (axis,) = found
    return ShardSpec((axis, None, axis - 1), (axis,))


def _fused(spec: NodeSpec, axes: Sequence[Axis], rows: int) -> ShardSpec:
    group: FusedGroup = spec.attrs["group"]
    inputs, _, rules = _group_rules(group, axes, rows)
    return ShardSpec(
        tuple(inputs), tuple(_axis_of(ref, inputs, {}, rules) for ref in group.outputs)
    )


def _axis_of(
    ref: Ref, inputs: Sequence[Axis], constants: Mapping[int, Axis], rules: Sequence[ShardSpec]
) -> Axis:
    if ref.member == INPUT:
        return inputs[ref.index]
    if ref.member == CONSTANT:
        return constants.get(ref.index)
    return rules[ref.member].outputs[ref.index]


def _group_rules(
    group: FusedGroup, axes: Sequence[Axis], rows: int
) -> tuple[list[Axis], dict[int, Axis], list[ShardSpec]]:
    """Return the axes of a group's inputs and constants, and its rules.

    The rules are the ShardSpecs of the members. The requirements of a member may change the axes of
    inputs and constants.
    """
    inputs, constants = list(axes), dict[int, Axis]()
    while True:
        rules: list[ShardSpec] = []
        asked = False
        for member in group.members:
            found = [_axis_of(ref, inputs, constants, rules) for ref in member.inputs]
            rule = shard_spec(member.spec, found, rows)
            for ref, have, needed in zip(member.inputs, found, rule.inputs, strict=True):
                if have == needed:
                    continue
                if have is not None or needed is None or ref.member not in (INPUT, CONSTANT):
                    raise NotIndependent(f"{member.spec.name} takes a value by rows and whole")
                (inputs if ref.member == INPUT else constants)[ref.index] = needed
                asked = True
            rules.append(rule)
        if not asked:
            return inputs, constants, rules


def _shard_of_group(group: FusedGroup, axes: Sequence[Axis], shard: Shard) -> FusedGroup:
    inputs, constants, rules = _group_rules(group, axes, shard.rows)
    values = list(group.constants)
    for k, axis in constants.items():
        if axis is not None:
            values[k] = np.ascontiguousarray(values[k][shard.slices(values[k].shape, axis)])
    members = []
    for member, rule in zip(group.members, rules, strict=True):
        made = shard_of(replace(member.spec, constants={}), replace(rule, sizes=()), shard)
        made = replace(made, constants=_member_constants(member, rule, values, shard))
        members.append(Member(made, member.inputs))
    return replace(
        group,
        inputs=tuple(
            _shard_of_tensor(t, axis, shard) for t, axis in zip(group.inputs, inputs, strict=True)
        ),
        members=tuple(members),
        constants=tuple(values),
    )


def _member_constants(
    member: Member, rule: ShardSpec, values: list[np.ndarray], shard: Shard
) -> dict[int, np.ndarray]:
    """Return a shard's known inputs of a member.

    Sizes change among the group's own constants, too.
    """
    found = _shards_of_known(member.spec.constants, rule, shard)
    for k, place in rule.sizes:
        found[k] = _shard_of_sizes(found[k], place, shard)
        if member.inputs[k].member == CONSTANT:
            values[member.inputs[k].index] = found[k]
    return found


_RULES: Final[Mapping[str, Callable[[NodeSpec, Sequence[Axis], int], ShardSpec]]] = {
    "BiasAdd": _bias_add,
    "MatMul": _product,
    **dict.fromkeys(("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"), _batch_product),
    **dict.fromkeys(("Concat", "ConcatV2"), _concat),
    "Pack": _pack,
    "Unpack": _unpack,
    **dict.fromkeys(("Split", "SplitV"), _split),
    "Transpose": _transpose,
    "Slice": _slice,
    "StridedSlice": _strided_slice,
    **dict.fromkeys(("ArgMax", "ArgMin"), _arg_reduction),
    **dict.fromkeys(("Softmax", "LogSoftmax"), _last_axis),
    "DeepCopy": _view,
    **dict.fromkeys(("AddN",), _same),
    "_GetRow": _get_row,
    "_SetRow": _set_row,
    "_Fused": _fused,
}


__all__ = ["ShardSpec", "NotIndependent", "shard_spec", "shard_of", "reshaped_axis"]
