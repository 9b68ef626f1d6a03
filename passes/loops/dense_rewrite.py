"""Rewrite the ops of lists and arrays to ops of dense arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tfjit.framework.op_defs.op_traits import WHILE
from tfjit.framework.types.dtypes import as_dtype
from tfjit.passes.analysis.region_tree import is_structured
from tfjit.passes.loops.list_aliases import INDEXED
from tfjit.passes.manager.pass_registry import SHAPES
from tfjit.passes.manager.rewriter import insert_constant

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tfjit.passes.analysis.region_tree import Scope, ScopedTensor
    from tfjit.passes.ir.dataflow_graph import DataflowGraph, Node
    from tfjit.passes.loops.dense_shapes import Dense
    from tfjit.passes.loops.list_aliases import ListAliases
    from tfjit.passes.manager.pass_context import PassContext


class DenseRewrite:
    """Rewrites the ops of the alias classes that became arrays.

    found: the array of each class, by root.
    """

    def __init__(
        self, aliases: ListAliases, found: Mapping[ScopedTensor, Dense], ctx: PassContext
    ) -> None:
        self._aliases, self._found, self._ctx = aliases, found, ctx

    def _of(self, scope: Scope, tensor: tuple[str, int]) -> Dense | None:
        return self._found.get(self._aliases.find(scope, *tensor))

    def rewrite(self, scope: Scope) -> None:
        """Change the types of carriers of alias classes first, then the ops.

        Every tensor has its type before its users are made.
        """
        graph = scope.graph
        nodes = [
            graph.node(name)
            for name in graph.topological_order()
            if name not in ("_SOURCE", "_SINK")
        ]
        planned = [self._plan(scope, node) for node in nodes]
        for plan in planned:
            if plan is not None:
                scope.changed = True
                plan()
                self._ctx.invalidate(SHAPES)
        if scope.changed:
            graph.forget_order()

    def _plan(self, scope: Scope, node: Node) -> Any:
        graph, op = scope.graph, node.op
        inputs = graph.inputs(node.name)
        taken = [self._of(scope, tensor) for tensor in inputs]
        given = [self._of(scope, (node.name, output)) for output in range(len(node.output_dtypes))]
        if not any(taken) and not any(given):
            return None
        if op == "_Arg" and given[0] is not None:
            dense = given[0]
            return lambda: self._shaped(
                graph.change_op(node.name, op, [], {**node.attrs, "T": dense.dtype}), dense
            )
        if op in ("_Retval", "Identity") and taken[0] is not None:
            dense = taken[0]
            return lambda: self._shaped(
                graph.change_op(
                    node.name, op, graph.inputs(node.name), {**node.attrs, "T": dense.dtype}
                ),
                dense,
            )
        if is_structured(node):
            return lambda: self._carry(graph, node, taken, given)
        return lambda: self._op(scope.graph, node, taken, given)

    def _shaped(self, node: Node, dense: Dense) -> None:
        node.output_shapes = (dense.shape,) * len(node.output_dtypes)

    def _carry(
        self,
        graph: DataflowGraph,
        node: Node,
        taken: list[Dense | None],
        given: list[Dense | None],
    ) -> None:
        attrs, shapes = dict(node.attrs), list(node.output_shapes)
        if "output_shapes" in attrs:
            attrs["output_shapes"] = ()
        if node.has_trait(WHILE):
            attrs["T"] = tuple(
                old if dense is None else dense.dtype
                for old, dense in zip(attrs["T"], taken, strict=True)
            )
        else:
            attrs["Tin"] = tuple(
                old if dense is None else dense.dtype
                for old, dense in zip(attrs["Tin"], taken[1:], strict=True)
            )
            attrs["Tout"] = tuple(
                old if dense is None else dense.dtype
                for old, dense in zip(attrs["Tout"], given, strict=True)
            )
        made = graph.change_op(node.name, node.op, graph.inputs(node.name), attrs)
        made.output_shapes = tuple(
            old if dense is None else dense.shape for old, dense in zip(shapes, given, strict=True)
        )

    def _op(
        self,
        graph: DataflowGraph,
        node: Node,
        taken: list[Dense | None],
        given: list[Dense | None],
    ) -> None:
        op, name = node.op, node.name
        inputs = graph.inputs(name)  # the inputs at this point of the rewrite
        if op == "TensorArrayV3":
            assert given[1] is not None
            flow = self._zeros(graph, graph.new_name(f"{name}/rows"), given[1], node)
            graph.redirect_output(name, 1, flow, 0)
            number = np.zeros((), np.float32)
            number.setflags(write=False)
            graph.change_op(
                name, "Const", [], {"dtype": as_dtype(number.dtype), "value": number}
            ).output_shapes = ((),)
            return
        if op == "TensorArrayCloseV3":
            graph.change_op(name, "NoOp", [], {})
            return
        dense = next(d for d in (*taken, *given) if d is not None and not d.is_handle)
        lists = {
            "TensorListGetItem": (0, 1),
            "TensorListSetItem": (0, 1, 2),
            "TensorArrayReadV3": (2, 1),
            "TensorArrayWriteV3": (3, 1, 2),
        }
        if op in INDEXED:
            new, message = INDEXED[op]
            attrs = {"T": dense.dtype, "message": message.format(count=dense.shape[0]).encode()}
            made = graph.change_op(name, new, [inputs[k] for k in lists[op]], attrs)
            made.output_shapes = (dense.shape if new == "_SetRow" else dense.shape[1:],)
        elif op == "TensorListReserve":
            dims = insert_constant(graph, node, np.array(dense.shape, np.int32))
            zero = insert_constant(graph, node, np.zeros((), dense.dtype.as_numpy_dtype))
            self._shaped(graph.change_op(name, "Fill", [dims, zero], {"T": dense.dtype}), dense)
        elif op in ("TensorListLength", "TensorArraySizeV3"):
            value = np.array(dense.shape[0], np.int32)
            value.setflags(write=False)
            graph.change_op(
                name, "Const", [], {"dtype": as_dtype(value.dtype), "value": value}
            ).output_shapes = ((),)
        else:  # an op on the whole array
            source = {
                "TensorListFromTensor": 0,
                "TensorListStack": 0,
                "TensorArrayScatterV3": 2,
                "TensorArrayGatherV3": 2,
            }[op]
            self._shaped(
                graph.change_op(name, "Identity", [inputs[source]], {"T": dense.dtype}), dense
            )

    def _zeros(self, graph: DataflowGraph, name: str, dense: Dense, like: Node) -> str:
        dims = insert_constant(graph, like, np.array(dense.shape, np.int32))
        zero = insert_constant(graph, like, np.zeros((), dense.dtype.as_numpy_dtype))
        made = graph.add_node_op(name, "Fill", [dims, zero], {"T": dense.dtype}, like=like)
        made.output_shapes = (dense.shape,)
        return made.name
