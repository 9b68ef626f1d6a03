"""Replace a While over scalars and elementwise arrays by a `_Loop` node.

One kernel computes the whole loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.framework.cooperative_yield import yielding
from tfjit.framework.errors import OpError
from tfjit.framework.op_defs.op_traits import WHILE
from tfjit.framework.types.dtypes import as_dtype
from tfjit.kernels.registry import Unsupported
from tfjit.passes.ir.dataflow_graph import SINK, SOURCE
from tfjit.passes.loops.loop_program_builder import BuiltLoop, LoopBuilder
from tfjit.passes.loops.loop_program_values import Outer
from tfjit.passes.manager.pass_registry import SHAPES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfjit.passes.ir.dataflow_graph import DataflowGraph, Node
    from tfjit.passes.manager.pass_context import PassContext


def compile_loops(graph: DataflowGraph, ctx: PassContext) -> None:
    """Replace While nodes by `_Loop` nodes.

    The attr `program` of a `_Loop` node is a `kernels.loop_program.LoopProgram`.

    Before: 0, x -> While(cond: i < 9, body: i + 1, x * x)
    After: x -> _Loop
    Keeps: every value and error, and the nodes that wait for the loop. A loop variable that the
        body returns unchanged becomes the tensor that enters the loop.
    Needs: `infer_shapes`; `dense_lists` for TensorLists and TensorArrays.

    Loop variables must have static shapes that stay the same. Bodies may contain elementwise ops,
    reductions of whole arrays to scalars, constants, reshapes, parts of arrays by index, and
    branches, loops and calls of the same. Values that do not change in the loop are computed before
    the loop. The bodies are specialized and simplified here; the functions in the library stay
    unchanged.
    """
    made = 0
    for name in yielding(graph.topological_order()):
        node = graph.node(name)
        if not node.has_trait(WHILE):
            continue
        begun = ctx.begin_rewrite(name)
        if not begun:
            break
        wanted = sorted(
            {edge.src_output for edge in graph.edges_out_of(name) if not edge.is_control}
        )
        try:
            built = LoopBuilder(graph, ctx).build(node, wanted)
            ctx.backend.loop_call(built.program)  # may refuse a program that the builder accepts
        except (Unsupported, OpError) as reason:
            ctx.log(name, f"stays a {node.op}: {reason}")
            continue
        _replace(graph, node, built)
        made += 1
        ctx.rewrote(name, f"is one kernel: {built.program.explain()}", begun=begun)
    if made:
        graph.tie_ends()
        ctx.invalidate(SHAPES)
        ctx.run(graph, "infer_shapes")  # more shapes are known behind a loop of known shapes


def _replace(graph: DataflowGraph, node: Node, built: BuiltLoop) -> None:
    """Replace a While by hoisted nodes and the `_Loop` node."""
    name = node.name
    waits = graph.control_inputs(name)
    made: dict[int, str] = {}

    def tensor(outer: Outer) -> tuple[str, int]:
        if outer.hoisted >= 0:
            return made[outer.hoisted], 0
        if outer.constant is not None:
            attrs = {"dtype": as_dtype(outer.constant.dtype), "value": outer.constant}
            const = graph.add_node_op(
                graph.new_name(name), "Const", (), attrs, like=node, control_inputs=waits
            )
            const.output_shapes = (outer.constant.shape,)
            return const.name, 0
        return outer.node, outer.output

    needed: set[int] = set()

    def need(outer: Outer) -> None:
        if outer.hoisted >= 0 and outer.hoisted not in needed:
            needed.add(outer.hoisted)
            for source in built.hoisted[outer.hoisted].inputs:
                need(source)

    for outer in (
        *built.inputs,
        *(where for where in built.results.values() if isinstance(where, Outer)),
    ):
        need(outer)
    for number, hoisted in enumerate(built.hoisted):
        if number not in needed:
            continue
        inputs = [tensor(outer) for outer in hoisted.inputs]
        new = graph.add_node_op(
            graph.new_name(f"{name}/{hoisted.name}"),
            hoisted.op,
            inputs,
            hoisted.attrs,
            like=node,
            control_inputs=waits,
        )
        new.output_shapes = (hoisted.shape,)
        made[number] = new.name
    sources = [tensor(outer) for outer in built.inputs]
    uses = [
        (edge.src_output, edge.dst, edge.dst_input)
        for edge in graph.edges_out_of(name)
        if not edge.is_control
    ]
    followers = graph.control_consumers(name)
    to_sink = any(edge.dst == SINK for edge in graph.edges_out_of(name))
    outside = {k: tensor(where) for k, where in built.results.items() if isinstance(where, Outer)}
    origin, device, assigned = node.origin, node.device, node.assigned_device
    before = [src for src, _ in graph.inputs(name)]
    graph.remove_op(name)
    new = graph.add_node_op(
        name,
        "_Loop",
        sources,
        {"program": built.program},
        control_inputs=waits,
        device=device,
        assigned_device=assigned,
        origin=origin,
        output_shapes=tuple(spec.shape for spec in built.program.output_specs),
    )
    for index, dst, dst_input in uses:
        where = built.results[index]
        src, output = (new.name, where) if isinstance(where, int) else outside[index]
        graph.add_data_edge(src, output, dst, dst_input)
    for dst in followers:
        graph.add_control_edge(new.name, dst)
    if to_sink:
        graph.add_control_edge(new.name, SINK)
    _drop_unused(graph, before)


def _drop_unused(graph: DataflowGraph, names: Sequence[str]) -> None:
    """Remove unused nodes without effects, and inputs that only they used."""
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in graph or name == SOURCE or graph.edges_out_of(name):
            continue
        node = graph.node(name)
        if node.is_stateful or node.op in ("_Arg", "_Retval"):
            continue
        waiting += [edge.src for edge in graph.edges_into(name)]
        graph.remove_op(name)


__all__ = ["compile_loops"]
