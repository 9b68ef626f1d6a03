"""Separate the checks of numbers from the values that they pass on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tfjit.framework.op_defs.op_traits import (
    CHECKS_NUMBERS,
    RUNS_FUNCTIONS,
    WRITES_VARIABLE,
)
from tfjit.framework.types import dtypes
from tfjit.passes.ir.dataflow_graph import SINK, SOURCE, DataflowGraph, Node
from tfjit.passes.manager.pass_context import PassContext
from tfjit.passes.manager.rewriter import insert_constant
from tfjit.passes.offload.host_nodes import NEVER, reason_for_host

if TYPE_CHECKING:
    from tfjit.kernels.ir.backend import Backend


def separate_checks(graph: DataflowGraph, ctx: PassContext, devices: Mapping[str, Backend]) -> None:
    """Let devices look for bad numbers, and the host report them.

    Before: x @GPU -> CheckNumerics @GPU -> Tanh @GPU -> AssignAdd @GPU
    After: x -> Tanh -> AssignAdd; x -> Max, Sum @GPU -> Pack -> CheckNumerics @host;
    CheckNumerics ^-> AssignAdd
    Keeps: the name of the check, its error; that other checks, nodes with effects and nodes of the
    host wait for the checks before them.

    Max is infinite where an element of x is, Sum is NaN where one is. A device reports no errors,
    and nodes without effects between a check and the end of the run need not wait for it.
    """
    if not graph.has_trait(CHECKS_NUMBERS):
        return
    order = [name for name in graph.topological_order() if name not in (SOURCE, SINK)]
    checks = [name for name in order if _is_separable(graph, name, devices)]
    if not checks or not ctx.may_rewrite():
        return
    waits = _waits(graph, order, checks, devices)
    for name in checks:
        _separate(graph, graph.node(name), ctx.options.client_device)
    for name, pending in waits.items():
        for check in pending:
            graph.add_control_edge(check, name)
    ctx.rewrote(checks[0], f"{len(checks)} checks of numbers are parts of programs")


def _is_separable(graph: DataflowGraph, name: str, devices: Mapping[str, Backend]) -> bool:
    """Return whether a node checks a value of a device."""
    node = graph.node(name)
    if not node.has_trait(CHECKS_NUMBERS) or node.assigned_device not in devices:
        return False
    ((src, output),) = graph.inputs(name)
    source = graph.node(src)
    return (
        not source.output_dtypes[output].is_ref
        and source.output_shapes[output] is not None
        and (source.has_trait(CHECKS_NUMBERS) or not reason_for_host(source, devices))
    )


def _waits(
    graph: DataflowGraph,
    order: Sequence[str],
    checks: Sequence[str],
    devices: Mapping[str, Backend],
) -> dict[str, list[str]]:
    """Return the checks that each node has to wait for.

    A node waits for those before it, unless a node between both waits for them. Sets of checks are
    the bits of an int.
    """
    bits = {name: 1 << number for number, name in enumerate(checks)}
    behind: dict[str, int] = {}
    waits: dict[str, list[str]] = {}
    for name in order:
        before = 0
        for edge in graph.edges_into(name):
            before |= behind.get(edge.src, 0) | bits.get(edge.src, 0)
        if before and (name in bits or _has_to_wait(graph.node(name), devices)):
            waits[name] = [check for check in checks if before & bits[check]]
        elif before:
            behind[name] = before
    return waits


def _has_to_wait(node: Node, devices: Mapping[str, Backend]) -> bool:
    """Return whether the host computes a node, or users see its effect."""
    if node.op in NEVER or node.is_view:
        return False
    if node.assigned_device not in devices:
        return True
    if node.has_trait(WRITES_VARIABLE | RUNS_FUNCTIONS):
        return True
    return (
        node.op_def is not None and node.op_def.is_stateful and bool(reason_for_host(node, devices))
    )


def _separate(graph: DataflowGraph, node: Node, host: str) -> None:
    """Give a check two numbers, and its users the value."""
    ((src, output),) = graph.inputs(node.name)
    dtype, shape = node.attrs["T"], graph.node(src).output_shapes[output]
    assert shape is not None

    def made(
        op: str, *inputs: tuple[str, int], like: tuple[int | None, ...] | None, **attrs: object
    ) -> tuple[str, int]:
        name = graph.new_name(f"{node.name}/{op.lower()}")
        return graph.add_node_op(
            name, op, list(inputs), {"T": dtype, **attrs}, like=node, output_shapes=(like,)
        ).name, 0

    value = src, output
    zero = insert_constant(graph, node, np.zeros((), dtype.as_numpy_dtype), "zero")
    axes = insert_constant(graph, node, np.arange(len(shape), dtype=np.int32), "axes")
    found = []
    for is_bad, sign, total in (("IsInf", "Abs", "Max"), ("IsNan", "", "Sum")):
        bad = made(is_bad, value, like=shape)
        signed = made(sign, value, like=shape) if sign else value
        chosen = made("SelectV2", bad, signed, zero, like=shape)
        found.append(made(total, chosen, axes, like=(), keep_dims=False, Tidx=dtypes.int32))
    joined = made("Pack", *found, like=(2,), N=2, axis=0)
    graph.node(joined[0]).assigned_device = host
    for dst, dst_input in graph.consumers(node.name, 0):
        graph.replace_input(dst, dst_input, *value)
    for dst in graph.control_consumers(node.name):
        if dst != SINK:
            graph.remove_control_edge(node.name, dst)
    graph.replace_input(node.name, 0, *joined)
    node.output_shapes = ((2,),)
    node.assigned_device = host
    graph.add_control_edge(node.name, SINK)


__all__ = ["separate_checks"]
