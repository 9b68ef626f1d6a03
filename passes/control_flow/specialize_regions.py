"""Specialize bodies of loops and branches to be lowered with their graph.

The bodies are copies for the shapes and constants of one use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tfjit.framework.errors import OpError
from tfjit.framework.op_defs.attrs import FuncRef
from tfjit.framework.op_defs.op_traits import CASE, IF, WHILE
from tfjit.framework.types.device_spec import parse
from tfjit.framework.types.dtypes import as_dtype
from tfjit.passes.analysis.argument_info import ArgumentInfo
from tfjit.passes.ir.dataflow_graph import SOURCE, DataflowGraph, Node
from tfjit.passes.ir.declined import Declined
from tfjit.passes.ir.function_library import Function, passed_through
from tfjit.passes.ir.region_path import branch_part
from tfjit.passes.manager.pass_context import PassContext
from tfjit.passes.manager.rewriter import constant, is_static, tensor_shape


def specialize_bodies(graph: DataflowGraph, ctx: PassContext) -> None:
    """Specialize and optimize the bodies of each While, If and Case.

    The shapes of the node's inputs must be known.

    Before: y = While(x<3,3>, cond, body)
    After: the same node, and `graph.graph["bodies"]["y"]` = (cond's graph, body's graph)
    Keeps: the graph; `lower` uses the bodies or leaves the node to its kernel.
    Needs: `infer_shapes`, `inline_functions`.

    The graphs are those of a While's condition and body, of an If's branches for true and false, or
    of a Case's branches by number. In these graphs the shapes of arguments are known, constants
    from outside are Const nodes, and nodes are fused.
    """
    nodes = [
        graph.node(name)
        for name in graph.topological_order()
        if graph.node(name).has_trait(WHILE | IF | CASE)
    ]
    bodies: dict[str, tuple[DataflowGraph, ...]] = {}
    for node in nodes:
        begun = ctx.begin_rewrite(node.name)
        if not begun:
            break
        try:
            bodies[node.name] = tuple(_Specializer(graph, ctx, node).bodies())
        except (Declined, OpError) as why:
            ctx.log(node.name, f"{node.op} is left to its kernel: {why}")
            continue
        ctx.rewrote(node.name, f"{node.op} is lowered with the graph", begun=begun)
    graph.graph["bodies"] = bodies


class _Specializer:
    """One node's bodies."""

    def __init__(self, graph: DataflowGraph, ctx: PassContext, node: Node) -> None:
        self.graph, self.ctx, self.node = graph, ctx, node
        skipped = 0 if node.has_trait(WHILE) else 1
        self.inputs = graph.inputs(node.name)[skipped:]

    def bodies(self) -> list[DataflowGraph]:
        """Return the optimized bodies, in the order of the attrs."""
        node, library = self.node, self.graph.functions
        attrs = node.attrs
        if node.has_trait(WHILE):
            cond, body = library.body(attrs["cond"]), library.body(attrs["body"])
            constants = {
                k: value
                for k in sorted(passed_through(body.graph))
                if (value := self._constant(k)) is not None
            }
            return [self._body(cond, constants, "cond"), self._body(body, constants, "body")]
        refs: tuple[FuncRef, ...]
        is_if = node.has_trait(IF)
        refs = (attrs["then_branch"], attrs["else_branch"]) if is_if else tuple(attrs["branches"])
        constants = {
            k: value for k in range(len(self.inputs)) if (value := self._constant(k)) is not None
        }
        return [
            self._body(library.body(ref), constants, branch_part(number, is_if))
            for number, ref in enumerate(refs)
        ]

    def _constant(self, k: int) -> np.ndarray | None:
        src, output = self.inputs[k]
        value = constant(self.graph, self.ctx, src, output)
        return value if isinstance(value, np.ndarray) and value.dtype != object else None

    def _body(
        self, function: Function, constants: Mapping[int, np.ndarray], part: str
    ) -> DataflowGraph:
        given = []
        for src, output in self.inputs:
            shape = tensor_shape(self.graph, src, output)
            given.append(ArgumentInfo(shape, self.ctx.handles.get((src, output))))
        for k, arg in function.args.items():
            if arg.output_dtypes[0].name != "resource" and not is_static(given[k].shape):
                src, output = self.inputs[k]
                raise Declined(f"the shape of its input '{src}:{output}' is not known")
        ctx = self.ctx.child(self.node.name, part)
        pipeline = "device_region" if ctx.device in ctx.options.accelerators else "region"
        return specialized_body(
            function, given, constants, pipeline, ctx, self.node.assigned_device
        )


def specialized_body(
    function: Function,
    given: Sequence[ArgumentInfo],
    constants: Mapping[int, np.ndarray],
    pipeline: str,
    ctx: PassContext,
    device: str = "",
) -> DataflowGraph:
    """Return a simplified copy of a function's graph for one use.

    The function itself stays unchanged. given: facts about the arguments, by index. constants:
    values of arguments, by index; users of such an argument get a Const. pipeline: the name of the
    pipeline that runs over the copy, with `ctx`. device: of nodes that have none.
    """
    body = function.graph.copy()
    ctx.watch(body)
    body.graph.pop("bodies", None)
    body.graph["given"] = {arg.name: given[k] for k, arg in function.args.items()}
    accelerators = ctx.options.accelerators
    for node in body.op_nodes():
        if not node.assigned_device:
            found = requested_device(node, accelerators, device)
            node.assigned_device = found or (
                ctx.options.client_device if device in accelerators else device
            )
    for k, arg in function.args.items():
        if k in constants:
            _replace_argument(body, body.node(arg.name), constants[k])
    ctx.run(body, pipeline)
    return body


def requested_device(node: Node, accelerators: Iterable[str], inherited: str = "") -> str:
    """Return the accelerator that a node of a function names, or "".

    inherited: the device of a node that names no type of device: that of the loop or branch.
    """
    if not node.device or not accelerators:
        return inherited
    wanted = parse(node.device)
    if wanted.device_type is None:
        return inherited
    return next((name for name in accelerators if wanted.matches(parse(name))), "")


def _replace_argument(body: DataflowGraph, arg: Node, value: np.ndarray) -> None:
    """Replace an argument by a constant, except in a direct result.

    A result that is the argument shows that the loop does not change the variable.
    """
    k = arg.attrs["index"]
    taken = [edge for edge in arg.out_edges if not edge.is_control]
    returned = next(
        (n for n in body.op_nodes() if n.op == "_Retval" and n.attrs["index"] == k), None
    )
    if returned is not None:
        edge = returned.in_edges[0]
        source: Any = body.node(edge.src)
        while source.op == "Identity":
            source = body.node(body.inputs(source.name)[0][0])
        if source is arg and edge.src != arg.name:
            body.remove_edge(edge.src, edge.dst, edge.id)
            body.add_data_edge(arg.name, 0, returned.name, 0)
            taken = [edge for edge in arg.out_edges if not edge.is_control]
    taken = [edge for edge in taken if returned is None or edge.dst != returned.name]
    if not taken:
        return
    name = body.new_name(f"{arg.name}/value")
    made = body.add_node_op(
        name, "Const", (), {"dtype": as_dtype(value.dtype), "value": value}, like=arg
    )
    made.output_shapes = (value.shape,)
    body.add_control_edge(SOURCE, made.name)
    for edge in taken:
        body.remove_edge(edge.src, edge.dst, edge.id)
        body.add_data_edge(made.name, 0, edge.dst, edge.dst_input)


__all__ = ["requested_device", "specialize_bodies", "specialized_body"]
