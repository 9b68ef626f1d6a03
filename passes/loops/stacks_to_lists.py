"""Turn stacks that one loop fills and another empties into tensor lists.

Lists are values and need no order of effects.
"""

from __future__ import annotations

import numpy as np

from tfjit.framework.op_defs.op_traits import WHILE
from tfjit.passes.analysis.induction_variables import argument, value_of
from tfjit.passes.analysis.region_tree import Scope
from tfjit.passes.ir.dataflow_graph import Node
from tfjit.passes.ir.declined import Declined
from tfjit.passes.ir.subgraph import ancestors
from tfjit.passes.manager.pass_context import PassContext
from tfjit.passes.manager.rewriter import insert_constant


def stacks_to_lists(top: Scope, ctx: PassContext) -> None:
    """Rewrite the stacks that store values for gradients of v1 loops.

    Before: s = StackV2; w = While(s: StackPushV2(s, x)); g = While(s: StackPopV2(s) -> x)
    After:  s = EmptyTensorList; w = While(s: TensorListPushBack(s, x));
            g = While(w: TensorListPopBack(w) -> x)
    Keeps: values; control edges at pushes and pops.

    The stack has no size limit. One loop pushes to the stack once in an iteration, and another loop
    behind that one pops once in an iteration. The scopes are changed; the caller closes them.
    """
    for node in [node for node in top.graph.op_nodes() if node.op == "StackV2"]:
        if not ctx.may_rewrite():
            break
        try:
            _Stack(top, node).rewrite()
        except Declined as why:
            ctx.log(node.name, f"stays a stack: {why}")
        else:
            ctx.rewrote(node.name, "is a list")


class _Stack:
    """One stack."""

    def __init__(self, top: Scope, node: Node) -> None:
        self.top, self.node = top, node

    def rewrite(self) -> None:
        """Turn the stack into a list.

        Raises Declined before anything is changed.
        """
        graph, node = self.top.graph, self.node
        dtype = node.attrs["elem_type"]
        size = value_of(self.top, graph.inputs(node.name)[0])
        if size is None or size.ndim or size >= 0:
            raise Declined("its size is limited")
        if not dtype.is_numpy_compatible:
            raise Declined(f"its elements are of type {dtype.name}")
        found = [self._use(name, k) for name, k in graph.consumers(node.name)]
        pushes = [use for use in found if use[2].op == "StackPushV2"]
        pops = [use for use in found if use[2].op == "StackPopV2"]
        if len(pushes) != 1 or len(pops) != 1:
            raise Declined(f"{len(pushes)} loops push to it and {len(pops)} pop from it")
        (filler, into, push), (emptier, out_of, pop) = pushes[0], pops[0]
        if filler not in ancestors(graph, [emptier]):
            raise Declined(f"'{emptier}' may run before '{filler}'")
        shape = insert_constant(graph, node, np.array(-1, np.int32))
        graph.change_op(
            node.name,
            "EmptyTensorList",
            [shape, graph.inputs(node.name)[0]],
            {"element_dtype": dtype},
        )
        variant = graph.node(node.name).output_dtypes[0]
        for name, k in ((filler, into), (emptier, out_of)):
            self._retype(name, k, variant)
        graph.replace_input(emptier, out_of, filler, into)
        self._push(self.top.children[filler][1], push, into)
        self._pop(self.top.children[emptier][1], pop, out_of)

    def _use(self, name: str, k: int) -> tuple[str, int, Node]:
        """Return (loop, variable, the one node that uses the variable)."""
        node = self.top.graph.node(name)
        if not node.has_trait(WHILE):
            raise Declined(f"{node.op} '{name}' uses it")
        if self.top.graph.consumers(name, k):
            raise Declined(f"'{name}:{k}' is used")
        cond, body = self.top.children[name]
        users: list[Node] = []
        for scope in (cond, body):
            arg = next(
                (n for n in scope.graph.op_nodes() if n.op == "_Arg" and n.attrs["index"] == k),
                None,
            )
            for user, dst_input in scope.graph.consumers(arg.name) if arg is not None else ():
                taker = scope.graph.node(user)
                if taker.op == "_Retval" and taker.attrs["index"] == k and scope is body:
                    continue
                if scope is cond or taker.op not in ("StackPushV2", "StackPopV2") or dst_input:
                    raise Declined(f"{taker.op} '{user}' uses it")
                users.append(taker)
        if len(users) != 1:
            raise Declined(f"it is used {len(users)} times in '{name}'")
        return name, k, users[0]

    def _retype(self, name: str, k: int, variant: object) -> None:
        """Make the loop variable a list."""
        graph = self.top.graph
        loop = graph.node(name)
        shapes = loop.output_shapes
        types = tuple(variant if i == k else old for i, old in enumerate(loop.attrs["T"]))
        attrs = {**loop.attrs, "T": types, "output_shapes": ()}
        for scope in self.top.children[name]:
            scope.changed = True
            for node in scope.graph.op_nodes():
                if node.op == "_Arg" and node.attrs["index"] == k:
                    scope.graph.change_op(node.name, "_Arg", [], {**node.attrs, "T": variant})
        inputs = list(graph.inputs(name))
        graph.change_op(name, loop.op, inputs, attrs)
        graph.node(name).output_shapes = tuple(
            () if i == k else shape for i, shape in enumerate(shapes)
        )

    def _push(self, body: Scope, push: Node, k: int) -> None:
        graph = body.graph
        handle, value = graph.inputs(push.name)
        graph.redirect_output(push.name, 0, *value)
        graph.change_op(
            push.name, "TensorListPushBack", [handle, value], {"element_dtype": push.attrs["T"]}
        )
        push.output_shapes = ((),)
        _give_back(body, k, push)

    def _pop(self, body: Scope, pop: Node, k: int) -> None:
        graph = body.graph
        handle = graph.inputs(pop.name)[0]
        shapes = pop.output_shapes
        attrs = {"element_dtype": pop.attrs["elem_type"]}
        graph.change_op(
            pop.name,
            "TensorListPopBack",
            [handle, insert_constant(graph, pop, np.array(-1, np.int32))],
            attrs,
        )
        pop.output_shapes = ((), shapes[0])
        graph.redirect_output(pop.name, 0, pop.name, 1)
        _give_back(body, k, pop)


def _give_back(body: Scope, k: int, node: Node) -> None:
    graph = body.graph
    result = next(n for n in graph.op_nodes() if n.op == "_Retval" and n.attrs["index"] == k)
    assert argument(body, graph.inputs(result.name)[0]) == k
    graph.change_op(
        result.name, "_Retval", [(node.name, 0)], {**result.attrs, "T": node.output_dtypes[0]}
    )


__all__ = ["stacks_to_lists"]
