"""Sink sums of products behind a loop, as one product.

Such a sum is the gradient of a weight that a loop uses in each iteration. The product is over all
iterations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from tfjit.framework.op_defs.op_traits import WHILE
from tfjit.passes.analysis.induction_variables import (
    Loop,
    Tensor,
    argument,
    behind_identities,
    read_loop,
    value_of,
)
from tfjit.passes.analysis.region_tree import Scope, close_scopes, open_scopes
from tfjit.passes.ir.constant_value import constant_value
from tfjit.passes.ir.dataflow_graph import DataflowGraph, Node
from tfjit.passes.ir.declined import Declined
from tfjit.passes.ir.function_library import indexed
from tfjit.passes.loops.arrays_to_lists import counts
from tfjit.passes.manager.pass_context import PassContext
from tfjit.passes.manager.rewriter import insert_constant, is_static, tensor_shape

_MIN_ROWS_IN_PLACE: Final = (
    256  # a product that sums over 256 rows in one iteration is as fast there
)
_MAX_BYTES: Final = 256 << 20  # of the values stored for all iterations
_SUMS: Final = frozenset({"AddV2", "Add", "AddN"})


@dataclass(frozen=True, slots=True)
class _Sum:
    """A variable that a body adds one term to.

    term: the node of the body that computes the term.
    """

    number: int
    added_by: Node
    term: Node


def loop_sums(graph: DataflowGraph, ctx: PassContext) -> None:
    """Sink sums of matrix products and of columns behind loops.

    Before: w = While(s: s + MatMul(_GetRow(a, i), g, transpose_a=True))
            a <n, rows, p>, g <rows, q>
    After:  w = While(t: _SetRow(t, i, g)); s + MatMul(reshape(a), reshape(w), transpose_a=True)
            t <n, rows, q>
    Keeps: values but for rounding.
    Needs: `dense_lists`.

    The loops have a known length. One product over all rows has no sum to read and write in each
    iteration, and the nodes left in the loop may not need other rows. BiasAddGrad(g) is a sum of
    columns and sinks too, once g is stored. The terms are added in another order, as in any two
    products of matrices.

    The pass accepts float32 and float64; an array a of n rows, each used in one iteration; products
    of few rows in an iteration; and sums that are used only to add the next term.
    """
    if not graph.has_trait(WHILE):
        return
    top = open_scopes(graph, ctx)
    changed = False
    for scope in list(top.all()):
        for name in [
            name
            for name in graph_loops(scope)
            if scope.children[name][1].graph.op_types & {"MatMul", "BatchMatMul"}
        ]:
            changed |= _Sums(scope, name, ctx).run()
    if not changed:
        return
    close_scopes(top)
    ctx.run(graph, "trim_loops")


def graph_loops(scope: Scope) -> list[str]:
    """Return the While nodes of a scope, in order."""
    return [
        name for name in scope.graph.topological_order() if scope.graph.node(name).has_trait(WHILE)
    ]


class _Sums:
    """The sums of one loop."""

    def __init__(self, scope: Scope, name: str, ctx: PassContext) -> None:
        self.scope, self.ctx = scope, ctx
        self.loop: Loop = read_loop(scope, name)
        self.body: DataflowGraph = self.loop.body.graph
        # tensor of the body -> (its rows in the outer graph, their number in an iteration)
        self.kept: dict[Tensor, tuple[Tensor, int]] = {}

    def run(self) -> bool:
        """Sink the sums that qualify; return whether there was one."""
        loop = self.loop
        if loop.trips is None or loop.trips < 2:
            return False
        sums = [
            found
            for k in sorted(indexed(self.body, "_Retval"))
            if (found := self._sum(k)) is not None
        ]
        changed = False
        for found in sums:
            if found.term.op == "MatMul":
                changed |= self._try(found, self._product)
        for found in sums:
            if found.term.op == "BiasAddGrad" and changed:
                changed |= self._try(found, self._columns)
        return changed

    def _try(self, found: _Sum, rewrite: object) -> bool:
        if not self.ctx.may_rewrite():
            return False
        try:
            rewrite(found)  # type: ignore[operator]
        except Declined as why:
            self.ctx.log(found.term.name, f"stays in its loop: {why}")
            return False
        self.ctx.rewrote(found.term.name, f"comes once behind '{self.loop.name}'")
        return True

    def _sum(self, k: int) -> _Sum | None:
        """Return the sum that variable k is."""
        loop, body = self.loop, self.body
        if not self.scope.graph.consumers(loop.name, k):
            return None
        result = indexed(body, "_Retval")[k]
        added_by = body.node(behind_identities(loop.body, body.inputs(result.name)[0])[0])
        if added_by.op not in _SUMS or added_by.output_dtypes[0].name not in ("float32", "float64"):
            return None
        terms = body.inputs(added_by.name)
        if len(terms) != 2:
            return None
        mine = [argument(loop.body, term) == k for term in terms]
        if sum(mine) != 1:
            return None
        term = behind_identities(loop.body, terms[mine.index(False)])
        arg = indexed(body, "_Arg")[k].name
        if self._users(loop.body, arg) != [added_by.name] or self._users(
            loop.body, added_by.name
        ) != [result.name]:
            return None
        cond = indexed(loop.cond.graph, "_Arg").get(k)
        if cond is not None and self._users(loop.cond, cond.name):
            return None
        return (
            _Sum(k, added_by, body.node(term[0]))
            if self._users(loop.body, term[0]) == [added_by.name]
            else None
        )

    def _users(self, scope: Scope, name: str) -> list[str]:
        """Return the users of a tensor, through Identity nodes."""
        found = []
        for user, _ in scope.graph.consumers(name, 0):
            found += self._users(scope, user) if scope.graph.node(user).op == "Identity" else [user]
        return found

    # ---- the two kinds

    def _product(self, found: _Sum) -> None:
        term, body = found.term, self.body
        if not term.attrs.get("transpose_a") or term.attrs.get("transpose_b"):
            raise Declined("it does not sum over the rows of its factors")
        factors = [behind_identities(self.loop.body, tensor) for tensor in body.inputs(term.name)]
        shapes = [tensor_shape(body, *factor) for factor in factors]
        total = tensor_shape(body, found.added_by.name, 0)
        if not all(is_static(shape) for shape in (*shapes, total)) or total != tensor_shape(
            body, term.name, 0
        ):
            raise Declined("shapes are not known")
        if (shapes[0] or (0,))[0] >= _MIN_ROWS_IN_PLACE:  # type: ignore[operator]
            raise Declined(f"it sums over {_MIN_ROWS_IN_PLACE} rows or more at once")
        position = next(
            (row for factor in factors if (row := self._row_of(factor)) is not None), None
        )
        if position is None:
            raise Declined("no factor is a row of an array that the loop reads unchanged")
        stored = [
            factor
            for factor in factors
            if factor not in self.kept and self._row_of(factor, position[1]) is None
        ]
        if len(stored) > 1:
            raise Declined("both factors are made in the loop")
        rows = []
        for factor in factors:
            if factor in self.kept:
                rows.append(self.kept[factor][0])
            elif factor in stored:
                rows.append(self._keep(found, factor, position[1]))
            else:
                rows.append(self._whole(found, factor))
        made = self._node("MatMul", found, rows, {"transpose_a": True, "transpose_b": False}, total)
        self._replace(found, made, in_place=bool(stored))

    def _columns(self, found: _Sum) -> None:
        factor = behind_identities(self.loop.body, self.body.inputs(found.term.name)[0])
        if factor not in self.kept or found.term.attrs.get("data_format", b"NHWC") not in (
            b"NHWC",
            "NHWC",
        ):
            raise Declined("the terms of the sum are not stored")
        made = self._node(
            "BiasAddGrad",
            found,
            [self.kept[factor][0]],
            {},
            tensor_shape(self.body, found.added_by.name, 0),
        )
        self._replace(found, made, in_place=False)

    # ---- rows of arrays

    def _row_of(self, factor: Tensor, index: Tensor | None = None) -> tuple[int, Tensor] | None:
        """Return (number of the array variable, index) of a row.

        The loop does not change the array and uses all of its rows. index: the index that the row
        must have.
        """
        node = self.body.node(factor[0])
        if node.op != "_GetRow":
            return None
        array, row_index = self.body.inputs(node.name)
        row_index = behind_identities(self.loop.body, row_index)
        k = argument(self.loop.body, array)
        shape = tensor_shape(self.body, *array)
        if (
            k is None
            or k not in self.loop.unchanged
            or not is_static(shape)
            or len(shape or ()) != 3
        ):
            return None
        if (
            (shape or (0,))[0] != self.loop.trips
            or (index is not None and row_index != index)
            or not counts(self.loop, row_index)
        ):
            return None
        return (k, row_index) if self._stays_inside(row_index) else None

    def _stays_inside(self, index: Tensor) -> bool:
        """Return whether an induction index has values 0 to trips - 1."""
        ends = sorted(self._index_at(index, trip) for trip in (0, (self.loop.trips or 1) - 1))
        return ends == [0, (self.loop.trips or 1) - 1]

    def _index_at(self, index: Tensor, trip: int) -> int:
        """Return the value of an induction index in one iteration."""
        index = behind_identities(self.loop.body, index)
        k = argument(self.loop.body, index)
        if k is not None:
            variable = self.loop.induction_variables[k]
            return variable.start + variable.step * trip
        node = self.body.node(index[0])
        left, right = self.body.inputs(node.name)
        sides = []
        for side in (left, right):
            value = value_of(self.loop.body, side)
            sides.append(int(value) if value is not None else self._index_at(side, trip))
        return sides[0] - sides[1] if node.op == "Sub" else sides[0] + sides[1]

    def _whole(self, found: _Sum, factor: Tensor) -> Tensor:
        """Return the rows of an array of which each iteration uses one."""
        array = self.body.inputs(factor[0])[0]
        k = argument(self.loop.body, array)
        assert k is not None
        return self._flat(found, self.loop.inputs[k], tensor_shape(self.body, *array) or ())  # type: ignore[arg-type]

    def _keep(self, found: _Sum, factor: Tensor, index: Tensor) -> Tensor:
        """Store a value of each iteration as rows of an array.

        The variable of the sum becomes that array. Returns the array as a matrix.
        """
        loop, body, graph = self.loop, self.body, self.scope.graph
        rows = tensor_shape(body, *factor)
        assert rows is not None
        shape = (loop.trips or 0, *(size or 0 for size in rows))
        dtype = body.node(factor[0]).output_dtypes[factor[1]]
        if int(np.prod(shape)) * dtype.size > _MAX_BYTES:
            raise Declined(
                f"{int(np.prod(shape)) * dtype.size} bytes of all iterations are too many to keep"
            )
        k, node = found.number, graph.node(loop.name)
        dims = insert_constant(graph, node, np.array(shape, np.int32))
        zero = insert_constant(graph, node, np.zeros((), dtype.as_numpy_dtype))
        start = graph.add_node_op(
            graph.new_name(f"{found.term.name}/rows"), "Fill", [dims, zero], {"T": dtype}, like=node
        )
        start.output_shapes = (shape,)
        arg = indexed(body, "_Arg")[k]
        for scope in (loop.cond, loop.body):
            carried = indexed(scope.graph, "_Arg").get(k)
            if carried is not None:
                carried.output_shapes = (shape,)
            scope.changed = True
        message = f"index {{detail}} of {shape[0]} iterations".encode()
        name = body.new_name(f"{found.term.name}/row")
        made = body.add_node_op(
            name,
            "_SetRow",
            [(arg.name, 0), index, factor],
            {"T": dtype, "message": message},
            like=found.term,
        )
        made.output_shapes = (shape,)
        shapes = tuple(shape if i == k else old for i, old in enumerate(node.output_shapes))
        inputs = [(start.name, 0) if i == k else tensor for i, tensor in enumerate(loop.inputs)]
        self._init = loop.inputs[k]
        self._row = made.name
        graph.change_op(
            loop.name, node.op, inputs, {**node.attrs, "output_shapes": ()}
        ).output_shapes = shapes
        flat = self._flat(found, (loop.name, k), shape)
        self.kept[factor] = flat, shape[1]
        return flat

    def _flat(self, found: _Sum, array: Tensor, shape: tuple[int, ...]) -> Tensor:
        graph = self.scope.graph
        dims = insert_constant(
            graph, graph.node(self.loop.name), np.array([shape[0] * shape[1], shape[2]], np.int32)
        )
        name = graph.new_name(f"{found.term.name}/flat")
        made = graph.add_node_op(
            name, "Reshape", [array, dims], {}, like=graph.node(self.loop.name)
        )
        made.output_shapes = ((shape[0] * shape[1], shape[2]),)
        return made.name, 0

    def _node(
        self, op: str, found: _Sum, inputs: list[Tensor], attrs: dict[str, object], shape: object
    ) -> Tensor:
        graph = self.scope.graph
        made = graph.add_node_op(
            graph.new_name(f"{found.term.name}/all"),
            op,
            inputs,
            attrs,
            like=graph.node(self.loop.name),
        )
        made.output_shapes = (shape,)
        return made.name, 0

    def _replace(self, found: _Sum, total: Tensor, in_place: bool) -> None:
        """Replace the sum behind the loop by `total`.

        in_place: the variable of the sum has become an array.
        """
        loop, body, graph, k = self.loop, self.body, self.scope.graph, found.number
        start = self._init if in_place else loop.inputs[k]
        if not _is_zero(graph, start):
            name = graph.new_name(f"{found.term.name}/sum")
            made = graph.add_node_op(name, "AddV2", [start, total], {}, like=graph.node(loop.name))
            made.output_shapes = (tensor_shape(graph, *total),)
            total = made.name, 0
        own = {total[0], *(flat[0] for flat, _ in self.kept.values())}
        for consumer, dst_input in list(graph.consumers(loop.name, k)):
            if consumer not in own:
                graph.replace_input(consumer, dst_input, *total)
        result, arg = indexed(body, "_Retval")[k], indexed(body, "_Arg")[k]
        body.replace_input(result.name, 0, self._row if in_place else arg.name, 0)
        loop.body.changed = self.scope.changed = True


def _is_zero(graph: DataflowGraph, tensor: Tensor) -> bool:
    """Return whether a tensor is known to contain only zeros."""
    node = graph.node(tensor[0])
    if node.op in ("ZerosLike", "Identity"):
        return node.op == "ZerosLike" or _is_zero(graph, graph.inputs(node.name)[0])
    value = constant_value(graph, *(graph.inputs(node.name)[1] if node.op == "Fill" else tensor))
    return value is not None and not value.any()


__all__ = ["loop_sums"]
