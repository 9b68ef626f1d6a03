"""Turn elementwise members of a group into one scalar program.

The program runs over an iteration space, with every operand as an affine view.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tfjit.framework.cooperative_yield import yield_interpreter
from tfjit.framework.errors import OpError
from tfjit.framework.op_defs.op_traits import IDENTITY, RESHAPE
from tfjit.framework.scalar import elementwise
from tfjit.framework.types import strided_slice
from tfjit.kernels.ir.fused_group import CONSTANT, INPUT, FusedGroup, Member, Ref
from tfjit.kernels.ir.op_forms import BIAS, PARAMETERS, SLICING
from tfjit.kernels.ir.scalar_program import Program, ScalarOp
from tfjit.kernels.registry import NodeSpec, Unsupported

if TYPE_CHECKING:
    from collections.abc import Hashable

    from tfjit.framework.types.dtypes import DType

# Index along one dimension of a value: start + sum(coefficient * index of iteration dim), the pairs
# ordered by dim.
Affine = tuple[int, tuple[tuple[int, int], ...]]
IndexMap = tuple[Affine, ...]
_ZERO: Final[Affine] = (0, ())


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor as a fused kernel reads or writes it.

    ref: the value (an external input, or a leaf the template makes itself); strides: bytes per step
    of each iteration dim, 0 where it is broadcast; offset: bytes.
    """

    ref: Ref
    dtype: DType
    strides: tuple[int, ...]
    offset: int = 0


@dataclass(frozen=True, slots=True)
class IterationSpace:
    """An iteration space with a program and its operands.

    shape: the iteration space. operands: one an input of `program`, in order.
    """

    shape: tuple[int, ...]
    operands: tuple[Operand, ...]
    program: Program


def c_strides(shape: Sequence[int], item: int = 1) -> tuple[int, ...]:
    """Return the strides of a C-contiguous array in units of `item`."""
    strides = [item] * len(shape)
    for d in range(len(shape) - 2, -1, -1):
        strides[d] = strides[d + 1] * shape[d + 1]
    return tuple(strides)


def identity_map(rank: int) -> IndexMap:
    """Return the map of a value with the iteration space's dimensions."""
    return tuple((0, ((d, 1),)) for d in range(rank))


def split_shape(shape: tuple[int, ...], others: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Return `shape` with dims cut where reshapes in the group cut them.

    Each of their dims is a run of whole dims then. Returns `shape` itself when the cuts do not
    nest.
    """
    size = 1
    for d in shape:
        size *= d
    if size == 0:
        return shape
    cuts: set[int] = set()
    for other in (shape, *others):
        n = 1
        for d in other:
            n *= d
        if n != size:
            continue
        n = 1
        for d in reversed(other):
            n *= d
            cuts.add(n)
    ordered = sorted(cuts | {1, size})
    dims: list[int] = []
    for low, high in itertools.pairwise(ordered):
        if high % low:
            return shape
        dims.append(high // low)
    return tuple(reversed(dims))


def reshape_map(
    index: IndexMap, source: Sequence[int], target: Sequence[int], space: Sequence[int]
) -> IndexMap | None:
    """Return the map of a reshape's source from its result's map.

    None means that some iteration dim would straddle dims of the source.
    """
    start = 0
    linear: dict[int, int] = {}
    for (first, terms), stride in zip(index, c_strides(target)):
        start += first * stride
        for dim, coefficient in terms:
            linear[dim] = linear.get(dim, 0) + coefficient * stride
    out: list[Affine] = []
    for size, stride in zip(source, c_strides(source)):
        first = (start // stride) % size if size else 0
        own: list[tuple[int, int]] = []
        reach = first
        for dim, coefficient in sorted(linear.items()):
            if coefficient < 0:
                return None
            # A step of this dim moves `coefficient` elements: it belongs to the one source dim that
            # this is a multiple of.
            if coefficient and coefficient % stride == 0 and coefficient // stride < max(size, 1):
                own.append((dim, coefficient // stride))
                reach += (coefficient // stride) * (space[dim] - 1)
                linear[dim] = 0
        if reach >= max(size, 1):
            return None
        out.append((first, tuple(own)))
    if any(coefficient and space[dim] > 1 for dim, coefficient in linear.items()):
        return None
    return tuple(out)


def broadcast_map(
    index: IndexMap, source: Sequence[int], target: Sequence[int], align_left: bool = False
) -> IndexMap:
    """Return the map of an operand from the result's map.

    The operand has shape `source`, the result `target`; dims align on the right, as NumPy's do.
    Raises Unsupported for an operand of more dims than the result: an unknown rank that the
    result's shape was not inferred from.
    """
    if len(source) > len(target):
        raise Unsupported(
            f"an operand of shape {list(source)} has more dims than the result of shape "
            f"{list(target)}"
        )
    lead = 0 if align_left else len(target) - len(source)
    return tuple(
        _ZERO if s == 1 and target[lead + d] != 1 else index[lead + d] for d, s in enumerate(source)
    )


def widened_map(index: IndexMap, source: Sequence[int], target: Sequence[int]) -> IndexMap:
    """Return the map of a value with dims of size 1 changed.

    source: the value's shape. target: the shape that `index` maps, with more or fewer dims of size
    1.
    """
    ways = iter(way for way, n in zip(index, target) if n != 1)
    return tuple(_ZERO if n == 1 else next(ways) for n in source)


def _stepped(way: Affine, start: int, step: int) -> Affine:
    """Return start + step * way."""
    return start + step * way[0], tuple((dim, step * coefficient) for dim, coefficient in way[1])


MAX_DEPTH: Final = 120
"""Members between a result and an operand.

Each takes some frames of Python's stack.
"""


class IterationSpaceBuilder:
    """Collector of the scalar ops that values of a group need.

    It follows the values back to external inputs and leaves. leaves: members whose results a
    template provides itself (the convolution under an epilogue, a row's sum).
    """

    def __init__(
        self,
        group: FusedGroup,
        space: tuple[int, ...],
        is_leaf: Callable[[Ref], bool] = lambda ref: False,
    ) -> None:
        self.group = group
        self.space = space
        self._is_leaf = is_leaf
        self._operands: dict[Operand, int] = {}
        self._ops: list[
            tuple[str, tuple[tuple[bool, int], ...], DType, tuple[tuple[str, Hashable], ...]]
        ] = []
        self._known: dict[tuple[Ref, IndexMap], tuple[bool, int]] = {}
        self._depth = 0  # members between the present one and a result

    def whole(self, shape: Sequence[int]) -> IndexMap:
        """Return the map of a value with the iteration space's elements.

        The value has them in the same order. Raises Unsupported when dims straddle.
        """
        index = reshape_map(identity_map(len(self.space)), shape, self.space, self.space)
        if index is None:
            raise Unsupported(
                f"shape {list(shape)} does not keep whole dimensions of the loop {list(self.space)}"
            )
        return index

    def value(self, ref: Ref, index: IndexMap) -> tuple[bool, int]:
        """Return (is an op, number) of a value read through `index`.

        Raises Unsupported for a member that is not elementwise, and behind MAX_DEPTH members.
        """
        found = self._known.get((ref, index))
        if found is None:
            if self._depth == MAX_DEPTH:
                raise Unsupported(f"more than {MAX_DEPTH} members one behind the other")
            self._depth += 1
            try:
                found = self._known[ref, index] = self._compute(ref, index)
            finally:
                self._depth -= 1
        return found

    def _compute(self, ref: Ref, index: IndexMap) -> tuple[bool, int]:
        yield_interpreter()
        if ref.member in (INPUT, CONSTANT) or self._is_leaf(ref):
            return False, self._operand(ref, index)
        member = self.group.members[ref.member]
        spec = member.spec
        op = spec.op
        shape = spec.outputs[ref.index].shape
        if spec.has_trait(IDENTITY):
            return self.value(member.inputs[0], index)
        if spec.has_trait(RESHAPE):
            through = reshape_map(
                index, self.group.tensor(member.inputs[0]).shape, shape, self.space
            )
            if through is None:
                raise Unsupported(
                    f"{op} {spec.name} does not keep whole dimensions of the loop "
                    f"{list(self.space)}"
                )
            return self.value(member.inputs[0], through)
        if op == "Transpose":
            order = self._constant(member, 1)
            through_list: list[Affine] = [_ZERO] * len(shape)
            for d, source in enumerate(np.asarray(order).tolist()):
                through_list[source % len(shape)] = index[d]
            return self.value(member.inputs[0], tuple(through_list))
        if op == "BroadcastTo":
            return self.value(
                member.inputs[0],
                broadcast_map(index, self.group.tensor(member.inputs[0]).shape, shape),
            )
        if op in SLICING:
            k = 1 if op == "Split" else 0
            return self.value(
                member.inputs[k],
                self._sliced(member, ref.index, index, self.group.tensor(member.inputs[k]).shape),
            )
        dtype = spec.outputs[ref.index].dtype
        if op in BIAS:
            channel = (
                1 if _data_format(spec).startswith("NC") and len(shape) > 1 else len(shape) - 1
            )
            left = self._argument(member, 0, index, shape)
            right = self.value(member.inputs[1], (index[channel],))
            return self._emit("AddV2", (left, right), dtype, ())
        if op == "AccumulateNV2":
            op = "AddN"
        if elementwise.lookup(op) is None:
            raise Unsupported(f"{op} {spec.name} is not computed element by element")
        arguments = tuple(
            self._argument(member, k, index, shape) for k in range(len(member.inputs))
        )
        return self._emit(op, arguments, dtype, scalar_attrs(spec))

    def _sliced(
        self, member: Member, number: int, index: IndexMap, source: Sequence[int]
    ) -> IndexMap:
        """Return the map of the array that is sliced.

        number: the output of the slicing member that is part of the array.
        """
        spec = member.spec
        shape = spec.outputs[number].shape
        if spec.op == "StridedSlice":
            known = {k: self._constant(member, k) for k in PARAMETERS["StridedSlice"]}
            dense = dense_slice(spec, source, known)
            sizes = [n or 0 for n in dense.sizes]
            kept = widened_map(index, sizes, shape)
            return tuple(
                _stepped(way, start, step)
                for way, start, step in zip(kept, dense.starts, dense.strides)
            )
        if spec.op == "Tile":
            if any(n not in (1, out) for n, out in zip(source, shape)):
                raise Unsupported(f"Tile {spec.name} repeats more than single elements")
            return broadcast_map(index, source, shape)
        if spec.op == "ReverseV2":
            axes = {int(a) % len(source) for a in np.asarray(self._constant(member, 1)).reshape(-1)}
            return tuple(
                _stepped(way, n - 1, -1) if d in axes else way
                for d, (way, n) in enumerate(zip(index, source))
            )
        if spec.op == "Slice":
            begin = np.asarray(self._constant(member, 1)).reshape(-1).tolist()
            if len(begin) != len(source) or any(
                b < 0 or b + n > size for b, n, size in zip(begin, shape, source)
            ):
                raise Unsupported(f"Slice {spec.name} leaves its input")
            return tuple(_stepped(way, b, 1) for way, b in zip(index, begin))
        if spec.op == "Unpack":
            axis = int(spec.attrs.get("axis", 0)) % len(source)
            return (*index[:axis], (number, ()), *index[axis:])
        axis = int(
            np.asarray(self._constant(member, 0 if spec.op == "Split" else 2)).reshape(-1)[0]
        ) % len(source)
        start = sum(out.shape[axis] for out in spec.outputs[:number])
        return tuple(_stepped(way, start, 1) if d == axis else way for d, way in enumerate(index))

    def _argument(
        self, member: Member, k: int, index: IndexMap, shape: tuple[int, ...]
    ) -> tuple[bool, int]:
        ref = member.inputs[k]
        source = self.group.tensor(ref).shape
        # Select takes a vector condition for rows: it aligns on the left.
        left = member.spec.op == "Select" and k == 0 and len(source) < len(shape)
        return self.value(ref, broadcast_map(index, source, shape, align_left=left))

    def _constant(self, member: Member, k: int) -> Any:
        ref = member.inputs[k]
        if ref.member == CONSTANT:
            return self.group.constants[ref.index]
        if k in member.spec.constants:
            return member.spec.constants[k]
        raise Unsupported(
            f"{member.spec.op} {member.spec.name}: input {k} is not known while planning"
        )

    def _operand(self, ref: Ref, index: IndexMap) -> int:
        tensor = self.group.tensor(ref)
        steps = [0] * len(self.space)
        offset = 0
        for (first, terms), stride in zip(index, c_strides(tensor.shape, tensor.dtype.size)):
            offset += first * stride
            for dim, coefficient in terms:
                steps[dim] += coefficient * stride
        strides = tuple(0 if n == 1 else s for n, s in zip(self.space, steps))
        return self._operands.setdefault(
            Operand(ref, tensor.dtype, strides, offset), len(self._operands)
        )

    def _emit(
        self,
        op: str,
        arguments: tuple[tuple[bool, int], ...],
        dtype: DType,
        attrs: tuple[tuple[str, Hashable], ...],
    ) -> tuple[bool, int]:
        self._ops.append((op, arguments, dtype, attrs))
        return True, len(self._ops) - 1

    def finish(self, outputs: Sequence[tuple[bool, int]]) -> IterationSpace:
        """Return the iteration space that computes `outputs` (results of `value`)."""
        base = len(self._operands)

        def number(value: tuple[bool, int]) -> int:
            return value[1] + base if value[0] else value[1]

        ops = tuple(
            ScalarOp(op, tuple(number(a) for a in arguments), dtype, attrs)
            for op, arguments, dtype, attrs in self._ops
        )
        program = Program(
            tuple(o.dtype for o in self._operands), ops, tuple(number(v) for v in outputs)
        )
        return IterationSpace(self.space, tuple(self._operands), program)


def dense_slice(
    spec: NodeSpec, shape: Sequence[int], known: Mapping[int, Any]
) -> strided_slice.DenseSlice:
    """Return the slice that a StridedSlice (or its gradient) takes.

    known: values of its inputs. Raises Unsupported for a faulty slice.
    """
    begin, end, strides = (np.asarray(known[k]) for k in PARAMETERS["StridedSlice"])
    if not (begin.ndim == end.ndim == strides.ndim == 1 and begin.size == end.size == strides.size):
        raise Unsupported("begin, end and strides are no vectors of one length")
    masks = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
    attrs: Any = spec.attrs
    try:
        return strided_slice.resolve(
            shape,
            begin.tolist(),
            end.tolist(),
            strides.tolist(),
            *(int(attrs.get(name, 0)) for name in masks),
        )
    except OpError as error:
        raise Unsupported(f"{spec.op} {spec.name}: {error}") from error


def _data_format(spec: NodeSpec) -> str:
    value = spec.attrs.get("data_format", b"NHWC")
    return value.decode() if isinstance(value, bytes) else str(value)


def scalar_attrs(spec: NodeSpec) -> tuple[tuple[str, Hashable], ...]:
    """Return the attrs that a row's expression needs, for a ScalarOp."""
    row = elementwise.lookup(spec.op)
    names = row.attrs if row is not None else ()
    return tuple((name, spec.attrs[name]) for name in names if name in spec.attrs)


def single(spec: NodeSpec) -> FusedGroup:
    """Return a group of one node.

    The builders of single nodes use the same templates as those of groups.
    """
    member = Member(spec, tuple(Ref(INPUT, k) for k in range(len(spec.inputs))))
    return FusedGroup(
        "loop",
        (member,),
        spec.inputs,
        tuple(Ref(0, k) for k in range(len(spec.outputs))),
        reason="unfused",
    )


def collapse(
    shape: Sequence[int], strides: Sequence[Sequence[int]]
) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """Drop dims of size 1 and merge neighbours.

    Neighbours merge if they are one dim for every operand. strides: one tuple an operand, over the
    dims of `shape`. Returns the merged shape (rank 0 for one element) and strides.
    """
    keep = [d for d, n in enumerate(shape) if n != 1]
    dims: list[int] = []
    out: list[list[int]] = [[] for _ in strides]
    for d in keep:
        if dims and all(o[-1] == s[d] * shape[d] for o, s in zip(out, strides)):
            dims[-1] *= shape[d]
            for o, s in zip(out, strides):
                o[-1] = s[d]
        else:
            dims.append(shape[d])
            for o, s in zip(out, strides):
                o.append(s[d])
    return tuple(dims), [tuple(o) for o in out]
