"""Describe a fused group: nodes of a graph that one kernel computes.

The fuse pass hands groups to the builders in this form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Any, Final, NamedTuple

import numpy as np

from tfjit.framework.errors import InvalidArgumentError, OpError
from tfjit.framework.scalar import elementwise
from tfjit.kernels.registry import NodeSpec, TensorSpec, Unsupported, find_reference

INPUT: Final = -1
"""`Ref.member` of an external input of the group."""
CONSTANT: Final = -2
"""`Ref.member` of a known value (the axes of a reduction).

The value was known when the group was made, and is no input of the group.
"""
# elements of one block, when the reference runs a big elementwise group block by block
_BLOCK: Final = 1 << 16


def node_suffix(name: str) -> str:
    """Return the mark of the failing node in a message.

    TensorFlow's runtime writes the same mark.
    """
    return f"\n\t [[{{{{node {name}}}}}]]"


class Ref(NamedTuple):
    """Name a value inside a group.

    It is output `index` of member `member`, or external input (INPUT) or constant (CONSTANT) number
    `index`.
    """

    member: int
    index: int = 0  # type: ignore[assignment]  # hides tuple.index


@dataclass(frozen=True, slots=True)
class Member:
    """Hold a node of the graph in a group.

    inputs: the source of each of its inputs, in the op's order.
    """

    spec: NodeSpec
    inputs: tuple[Ref, ...]


@dataclass(frozen=True)
class FusedGroup:
    """Nodes that run as one kernel.

    kind: the template that serves it: "loop", "reduce", "rows", "matmul", "attention", "conv2d",
    "depthwise", "pool_gradient". members: the original nodes in an order of execution. inputs: the
    external inputs. outputs: the group's results, as values. constants: values of CONSTANT refs.
    reason: why the nodes were fused. bytes_moved, flops: predicted, for the group. bytes_unfused:
    the sum over its members alone.
    """

    kind: str
    members: tuple[Member, ...]
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[Ref, ...]
    constants: tuple[np.ndarray, ...] = ()
    reason: str = ""
    bytes_moved: int = 0
    bytes_unfused: int = 0
    flops: int = 0
    _anchor: int = field(default=0, repr=False)

    @property
    def anchor(self) -> int:
        """Return the index of the member that decides the kind.

        It is the convolution, say; 0 for loops.
        """
        return self._anchor

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the members, in execution order."""
        return tuple(m.spec.name for m in self.members)

    @property
    def ops(self) -> tuple[str, ...]:
        """Return the op types of the members, in execution order."""
        return tuple(m.spec.op for m in self.members)

    def tensor(self, ref: Ref) -> TensorSpec:
        """Return dtype and shape of a value of the group."""
        if ref.member == INPUT:
            return self.inputs[ref.index]
        if ref.member == CONSTANT:
            from tfjit.framework.types.dtypes import as_dtype

            value = self.constants[ref.index]
            return TensorSpec(as_dtype(value.dtype), value.shape)
        return self.members[ref.member].spec.outputs[ref.index]

    def node_spec(self, name: str, constants: Mapping[int, np.ndarray] | None = None) -> NodeSpec:
        """Return the NodeSpec of a `_Fused` node that holds this group.

        constants: known values of external inputs.
        """
        return NodeSpec(
            name,
            "_Fused",
            {"group": self},
            self.inputs,
            tuple(self.tensor(r) for r in self.outputs),
            constants or {},
        )

    def explain(self) -> str:
        """Return a paragraph on the kernel's kind, members, reason and cost."""
        shapes = ", ".join(
            f"{self.tensor(r).dtype.name}{list(self.tensor(r).shape)}" for r in self.outputs
        )
        saved = self.bytes_unfused - self.bytes_moved
        lines = [f"{self.kind} group of {len(self.members)} nodes -> {shapes}: {self.reason}"]
        lines.append(
            f"  {self.bytes_moved} bytes moved ({saved} fewer than unfused), {self.flops} flops"
        )
        lines += [f"  {m.spec.op:<12} {m.spec.name}" for m in self.members]
        return "\n".join(lines)

    def run_reference(self, inputs: Sequence[Any]) -> list[Any]:
        """Compute every output by the members' own reference kernels.

        Tests compare fused kernels with these results. A big elementwise group runs block by block
        of the first axis, so that values between members stay in the cache instead of taking an
        array each. Raises LookupError when a member has no reference kernel. Errors of members name
        the member, not the group.
        """
        rows = self._rows_in_a_block(inputs)
        if not rows:
            return self._run_members(inputs)
        shape = self.tensor(self.outputs[0]).shape
        whole = [len(x.shape) < len(shape) or x.shape[0] != shape[0] for x in inputs]
        results = [np.empty(shape, self.tensor(ref).dtype.as_numpy_dtype) for ref in self.outputs]
        for first in range(0, shape[0], rows):
            block = slice(first, first + rows)
            for result, part in zip(
                results,
                self._run_members([x if keep else x[block] for x, keep in zip(inputs, whole)]),
            ):
                result[block] = part
        return results

    def _rows_in_a_block(self, inputs: Sequence[Any]) -> int:
        """Return the rows of one block of `run_reference`.

        0 means that the group must run whole.
        """
        shape = self.tensor(self.outputs[0]).shape
        count = prod(shape)
        if (
            self.kind != "loop"
            or count < 4 * _BLOCK
            or any(self.tensor(ref).shape != shape for ref in self.outputs)
        ):
            return 0
        for member in self.members:
            # Select is left out: its condition may choose rows.
            by_place = elementwise.lookup(member.spec.op) is not None and member.spec.op != "Select"
            if not by_place or any(
                ref.member == CONSTANT and self.constants[ref.index].size > 1
                for ref in member.inputs
            ):
                return 0
        if any(x.shape != t.shape for x, t in zip(inputs, self.inputs)):
            return 0
        return max(_BLOCK * shape[0] // count, 1)

    def __getstate__(self) -> dict[str, object]:
        """Return the fields, without `_last_uses`."""
        return {name: value for name, value in vars(self).items() if name != "_last_uses"}

    @cached_property
    def _last_uses(self) -> tuple[tuple[int, ...], ...]:
        """Return, for each member, the members without a later use."""
        last_use = {number: number for number in range(len(self.members))}
        for number, member in enumerate(self.members):
            last_use |= {ref.member: number for ref in member.inputs}
        last_use |= {ref.member: len(self.members) for ref in self.outputs}
        return tuple(
            tuple(used for used, last in last_use.items() if used >= 0 and last == number)
            for number in range(len(self.members))
        )

    def _run_members(self, inputs: Sequence[Any]) -> list[Any]:
        values: dict[int, Sequence[Any]] = {INPUT: inputs, CONSTANT: self.constants}
        for number, member in enumerate(self.members):
            kernel = find_reference(member.spec.op)
            if kernel is None:
                raise LookupError(f"{member.spec.op} ({member.spec.name}) has no reference kernel")
            arguments = [values[source][index] for source, index in member.inputs]
            try:
                values[number] = kernel(member.spec, arguments)
            except OpError as error:
                raise error.restated(error.message + node_suffix(member.spec.name)) from error
            except ValueError as error:
                shapes = " vs. ".join(f"[{','.join(map(str, np.shape(a)))}]" for a in arguments)
                raise InvalidArgumentError(
                    None, None, f"Incompatible shapes: {shapes}{node_suffix(member.spec.name)}"
                ) from error
            # Dead values are dropped, so that a first run takes no more memory than the live ones
            # need.
            for used in self._last_uses[number]:
                del values[used]
        return [values[source][index] for source, index in self.outputs]

    def for_inputs(self, inputs: Sequence[TensorSpec]) -> FusedGroup:
        """Return the group for inputs of these shapes.

        A group that was made for them is returned itself. Raises Unsupported for shapes that the
        group cannot have.
        """
        if all(own.shape == given.shape for own, given in zip(self.inputs, inputs)):
            return self
        try:
            return self.with_input_shapes([t.shape for t in inputs])
        except ValueError as error:  # the members' own kernels say it as TensorFlow does
            raise Unsupported(str(error)) from error

    def with_input_shapes(self, shapes: Sequence[tuple[int, ...]]) -> FusedGroup:
        """Return the same loop group for other input shapes.

        All members must be elementwise: their results have their inputs' broadcast shape. Raises
        ValueError for other kinds and where shapes do not broadcast.
        """
        if self.kind != "loop":
            raise ValueError(f"a {self.kind} group is bound to its shapes")
        inputs = tuple(TensorSpec(t.dtype, tuple(s)) for t, s in zip(self.inputs, shapes))
        members: list[Member] = []
        for member in self.members:
            operands = tuple(
                inputs[r.index]
                if r.member == INPUT
                else TensorSpec(self.tensor(r).dtype, self.constants[r.index].shape)
                if r.member == CONSTANT
                else members[r.member].spec.outputs[r.index]
                for r in member.inputs
            )
            shape = tuple(np.broadcast_shapes(*(t.shape for t in operands)))
            outputs = tuple(TensorSpec(t.dtype, shape) for t in member.spec.outputs)
            members.append(
                Member(replace(member.spec, inputs=operands, outputs=outputs), member.inputs)
            )
        return replace(self, inputs=inputs, members=tuple(members))
