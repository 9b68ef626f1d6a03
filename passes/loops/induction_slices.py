"""Find the static size of slices that move with an induction variable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from tfjit.framework.op_defs.op_traits import WHILE
from tfjit.framework.types import dtypes as d
from tfjit.passes.analysis.induction_variables import Loop, read_loop, value_of
from tfjit.passes.analysis.region_tree import Scope, close_scopes, is_structured, open_scopes
from tfjit.passes.ir.constant_value import constant_value
from tfjit.passes.ir.dataflow_graph import DataflowGraph, Node
from tfjit.passes.manager.pass_context import PassContext
from tfjit.passes.manager.rewriter import insert_constant, is_static, tensor_shape

Tensor = tuple[str, int]

_MASKS: Final = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
_DEEP: Final = 32


def size_slices(graph: DataflowGraph, ctx: PassContext) -> None:
    """Turn StridedSlice nodes in loops into Slice nodes of static size.

    Begin and end of such a slice move together and stay within the array.

    Before: While(k < 9: x<9,9>[k : k + 1])
    After: While(k < 9: Slice(x, [k, 0], [1, 9]))
    Keeps: every value.
    Needs: `infer_shapes`, and limits that are constants in the bodies (`trim_bodies`).

    Begin is an induction variable with a constant start, step and limit, times a constant and plus
    one. The shape of the slice is then known. No shape rule can infer that shape: a StridedSlice is
    shorter where it leaves the bounds of its array.
    """
    if not _has_candidates(graph):
        return
    top = open_scopes(graph, ctx)
    sizer = _Sizer(top, ctx)
    for scope in top.all():
        if scope is not top:
            sizer.visit(scope)
    if any(scope.changed for scope in top.all()):
        close_scopes(top)
        top.graph.tie_ends()


def _has_candidates(graph: DataflowGraph) -> bool:
    if not any(is_structured(node) for node in graph.op_nodes()):
        return False
    library = graph.functions
    bodies = [library.body(ref).graph for ref in library.reachable(graph)]
    return any(
        node.op == "StridedSlice" and _is_open(body, node)
        for body in bodies
        for node in body.op_nodes()
    )


def _is_open(graph: DataflowGraph, node: Node) -> bool:
    """Return whether begin, end and shape of a slice are not static."""
    begin, end = graph.inputs(node.name)[1:3]
    return (
        constant_value(graph, *begin) is None
        and constant_value(graph, *end) is None
        and not is_static(node.output_shapes[0])
    )


@dataclass(frozen=True)
class _Affine:
    """A form constant + sum of factor * place, of scoped tensors."""

    constant: int
    terms: Mapping[tuple[int, str, int], int] = field(default_factory=dict)

    def plus(self, other: _Affine, factor: int = 1) -> _Affine:
        terms = dict(self.terms)
        for place, f in other.terms.items():
            terms[place] = terms.get(place, 0) + factor * f
        return _Affine(
            self.constant + factor * other.constant, {place: f for place, f in terms.items() if f}
        )


class _Sizer:
    """Sizes the slices in one plan's bodies."""

    def __init__(self, top: Scope, ctx: PassContext) -> None:
        self.ctx = ctx
        self.parents = {
            id(child): scope
            for scope in top.all()
            for children in scope.children.values()
            for child in children
        }
        self.loops: dict[tuple[int, str], Loop] = {}
        # least and greatest value of an induction variable in its body
        self.ranges: dict[tuple[int, str, int], tuple[int, int]] = {}

    def visit(self, scope: Scope) -> None:
        """Size the slices of one body."""
        for node in [
            n for n in scope.graph.op_nodes() if n.op == "StridedSlice" and _is_open(scope.graph, n)
        ]:
            if not self.ctx.may_rewrite():
                return
            reason = self._sized(scope, node)
            if reason:
                self.ctx.log(node.name, reason)
            else:
                sizes = list(node.output_shapes[0] or ())
                self.ctx.rewrote(node.name, f"is a slice of {sizes}")

    def _loop(self, scope: Scope) -> Loop | None:
        """Return the loop of a scope that is a loop's body."""
        parent = self.parents.get(id(scope))
        if (
            parent is None
            or scope.key != "body"
            or not parent.graph.node(scope.node).has_trait(WHILE)
        ):
            return None
        key = (id(parent), scope.node)
        if key not in self.loops:
            self.loops[key] = read_loop(parent, scope.node)
        return self.loops[key]

    # ---- numbers

    def _affine(self, scope: Scope, tensor: Tensor, deep: int = 0) -> _Affine:
        """Return a scalar as an affine form of opaque tensors."""
        known = value_of(scope, tensor)
        if known is not None and known.size == 1:
            return _Affine(int(known.reshape(-1)[0]))
        node, inputs = scope.graph.node(tensor[0]), scope.graph.inputs(tensor[0])
        itself = _Affine(0, {(id(scope), *tensor): 1})
        if deep > _DEEP or node.output_dtypes[tensor[1]].name not in ("int32", "int64"):
            return itself
        if node.op in ("Identity", "Cast", "Reshape", "ExpandDims", "Squeeze"):
            return self._affine(scope, inputs[0], deep + 1)
        if node.op in ("Add", "AddV2", "Sub"):
            left, right = (self._affine(scope, side, deep + 1) for side in inputs)
            return left.plus(right, -1 if node.op == "Sub" else 1)
        if node.op == "Mul":
            left, right = (self._affine(scope, side, deep + 1) for side in inputs)
            if left.terms and right.terms:
                return itself
            factor, other = (right.constant, left) if left.terms else (left.constant, right)
            return _Affine(0).plus(other, factor)
        if node.op != "_Arg":
            return itself
        k = node.attrs["index"]
        parent = self.parents.get(id(scope))
        if parent is not None and not parent.graph.node(scope.node).has_trait(WHILE):  # a branch
            return self._affine(parent, parent.graph.inputs(scope.node)[k + 1], deep + 1)
        loop = self._loop(scope)
        if loop is None:
            return itself
        if k in loop.unchanged:
            return self._affine(loop.scope, loop.inputs[k], deep + 1)
        variable = loop.induction_variables.get(k)
        if variable is not None and loop.at_most:
            last = variable.after(loop.at_most - 1)
            if last is not None:
                self.ranges[(id(scope), *tensor)] = (
                    min(variable.start, last),
                    max(variable.start, last),
                )
        return itself

    def _least(self, value: _Affine, sign: int = 1) -> int | None:
        """Return the least value of sign * value."""
        found = sign * value.constant
        for place, factor in value.terms.items():
            bounds = self.ranges.get(place)
            if bounds is None:
                return None
            found += min(sign * factor * bound for bound in bounds)
        return found

    # ---- slices

    def _elements(
        self, scope: Scope, tensor: Tensor, count: int
    ) -> list[tuple[_Affine, Tensor | int]] | None:
        """Return the elements of a vector, each with its tensor or number."""
        known = value_of(scope, tensor)
        if known is not None:
            return [(_Affine(int(v)), int(v)) for v in known.reshape(-1)]
        node = scope.graph.node(tensor[0])
        while node.op == "Identity":
            node = scope.graph.node(scope.graph.inputs(node.name)[0][0])
        inputs = scope.graph.inputs(node.name)
        if node.op != "Pack" or len(inputs) != count:
            return None
        found: list[tuple[_Affine, Tensor | int]] = []
        for source in inputs:
            affine = self._affine(scope, source)
            found.append((affine, source if affine.terms else affine.constant))
        return found

    def _sized(self, scope: Scope, node: Node) -> str:
        """Rewrite a slice, or return the reason against that."""
        graph = scope.graph
        x, begin, end, strides = graph.inputs(node.name)
        shape, steps = tensor_shape(graph, *x), value_of(scope, strides)
        begin_mask, end_mask, ellipsis, new_axis, shrink = (
            int(node.attrs.get(name, 0)) for name in _MASKS
        )
        if steps is None or not np.all(steps == 1) or ellipsis or new_axis:
            return "stays: it has steps or new dimensions"
        if shape is None or None in shape or steps.size > len(shape):
            return "stays: the shape of its input is not known"
        first, behind = (
            self._elements(scope, begin, steps.size),
            self._elements(scope, end, steps.size),
        )
        if first is None or behind is None:
            return "stays: its begin or end is no vector of scalars"
        places: list[Tensor | int] = []
        sizes: list[int] = []
        for k, extent in enumerate(shape):
            assert extent is not None
            low, place = (
                first[k]
                if (k < len(first) and not begin_mask >> k & 1) or shrink >> k & 1
                else (_Affine(0), 0)
            )
            high = behind[k][0] if k < len(behind) and not end_mask >> k & 1 else _Affine(extent)
            if shrink >> k & 1:
                high = low.plus(_Affine(1))
            size = high.plus(low, -1)
            least, greatest = self._least(low), self._least(high, -1)
            if (
                size.terms
                or size.constant < 0
                or least is None
                or greatest is None
                or least < 0
                or -greatest > extent
            ):
                return (
                    f"stays: its part of dimension {k} is not known to stay within it and "
                    "to have one size"
                )
            places.append(place)
            sizes.append(size.constant)
        self._replace(
            scope, node, x, places, sizes, [n for k, n in enumerate(sizes) if not shrink >> k & 1]
        )
        return ""

    def _replace(
        self,
        scope: Scope,
        node: Node,
        x: Tensor,
        places: Sequence[Tensor | int],
        sizes: Sequence[int],
        out: Sequence[int],
    ) -> None:
        graph = scope.graph
        index = next(graph.node(p[0]).output_dtypes[p[1]] for p in places if not isinstance(p, int))
        scalars = [
            p
            if isinstance(p, tuple)
            else insert_constant(graph, node, np.array(p, index.as_numpy_dtype))
            for p in places
        ]
        begin = graph.add_node_op(
            graph.new_name(f"{node.name}/begin"),
            "Pack",
            scalars,
            {"T": index, "N": len(scalars), "axis": 0},
            like=node,
        )
        begin.output_shapes = ((len(scalars),),)
        size = insert_constant(graph, node, np.array(sizes, index.as_numpy_dtype))
        attrs = {"T": node.attrs["T"], "Index": index}
        scope.changed = True
        if len(out) == len(sizes):
            graph.change_op(node.name, "Slice", [x, (begin.name, 0), size], attrs).output_shapes = (
                tuple(out),
            )
            return
        made = graph.add_node_op(
            graph.new_name(f"{node.name}/slice"),
            "Slice",
            [x, (begin.name, 0), size],
            attrs,
            like=node,
        )
        made.output_shapes = (tuple(sizes),)
        final = insert_constant(graph, node, np.array(out, np.int32))
        graph.change_op(
            node.name, "Reshape", [(made.name, 0), final], {"T": node.attrs["T"], "Tshape": d.int32}
        )
        node.output_shapes = (tuple(out),)


__all__ = ["size_slices"]
