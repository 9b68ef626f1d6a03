"""Refuse replacements that would change values, effects or work of other nodes."""

from __future__ import annotations

from tfjit.framework.op_defs.op_traits import CONTROL_FLOW, READS_STATE, VIEW
from tfjit.framework.types.shape import Shape, format_shape
from tfjit.passes.ir.dataflow_graph import Node
from tfjit.passes.ir.declined import Declined
from tfjit.passes.ir.run_spec import RunSpec, parse_tensor_name
from tfjit.passes.manager.rewriter import reads_reference, same_shape, tensor_shape
from tfjit.passes.patterns.expressions import ANY_USES, Constant, Tensor
from tfjit.passes.patterns.matcher import CompiledPattern
from tfjit.passes.patterns.plan import Plan, PlannedNode
from tfjit.passes.patterns.steps import State, uses_of


def check_inner_nodes(pattern: CompiledPattern, state: State, plan: Plan) -> None:
    """Check the nodes of a match that the replacement drops.

    Raises Declined for nodes that wait for others, read a reference variable, have state or are on
    another device, and for nodes with other users that the replacement computes anew.
    """
    graph, root = state.graph, state.node
    kept = {src for src, _ in read_tensors(pattern, state, plan)}
    for value, slot in pattern.nodes[1:]:
        name = state.tensors[slot][0]
        if name in kept:
            continue
        node = graph.node(name)
        waits = graph.control_inputs(name)
        if waits:
            raise Declined(f"'{name}' waits for '{waits[0]}'")
        tensors = [
            *graph.inputs(name),
            *((name, index) for index in range(len(node.output_dtypes))),
        ]
        if any(graph.node(src).output_dtypes[output].is_ref for src, output in tensors):
            raise Declined(f"'{name}' reads a reference variable")
        if node.is_stateful and not node.has_trait(READS_STATE):
            raise Declined(f"'{name}' ({node.op}) has state or effects")
        if _device(node) != _device(root):
            raise Declined(
                f"'{name}' is on {_device(node) or 'any device'}, the root on "
                f"{_device(root) or 'any device'}"
            )
        if not plan.nodes or value.use_count == ANY_USES:
            continue
        if name in named_by(state.ctx.spec):
            raise Declined(f"'{name}' is a fetch or target of the run")
        _check_uses(pattern, state, slot)


def _check_uses(pattern: CompiledPattern, state: State, slot: int) -> None:
    name = state.tensors[slot][0]
    users = uses_of(state.graph, name)
    same = [other for _, other in pattern.nodes if state.tensors[other][0] == name]
    inside = sum(pattern.references[other] for other in same)
    if len(users) <= inside:
        return
    within = {state.tensors[other][0] for _, other in pattern.nodes}
    others = [user for user in users if user not in within] or users
    shown = ", ".join(f"'{user}'" for user in dict.fromkeys(others[:3]))
    raise Declined(
        f"the use count of '{name}' is {len(users)}, the pattern asks for {inside}: also used by "
        f"{shown}"
    )


def check_dropped_inputs(pattern: CompiledPattern, state: State, plan: Plan) -> None:
    """Check the inputs of a match that the replacement does not read.

    Raises Declined where the result is dead because such an input is, in v1 control flow.
    """
    graph = state.graph
    if not graph.has_trait(CONTROL_FLOW):
        return
    read = read_tensors(pattern, state, plan)
    for value, slot in pattern.variables:
        tensor = state.tensors[slot]
        if tensor not in read and not isinstance(value, Constant):
            raise Declined(f"'{tensor[0]}' may be dead, and its user with it")


def read_tensors(pattern: CompiledPattern, state: State, plan: Plan) -> set[tuple[str, int]]:
    """Return the tensors that a plan and its kept nodes read."""
    inner = {state.tensors[slot][0] for _, slot in pattern.nodes}
    read = set(plan.kept)
    queue = [src for src, _ in plan.kept if src in inner]
    for name in queue:
        for tensor in state.graph.inputs(name):
            read.add(tensor)
            if tensor[0] in inner and tensor[0] not in queue:
                queue.append(tensor[0])
    return read


def check_view(state: State, source: tuple[str, int]) -> None:
    """Check that the root becomes no view of a reference variable.

    source: a tensor with the memory of the new root. Raises Declined.
    """
    graph, root = state.graph, state.node
    src, output = source
    shows = graph.node(src).output_dtypes[output].is_ref or reads_reference(graph, src)
    if shows and not reads_reference(graph, root.name):
        raise Declined(f"its value is its own, that of '{src}' the variable's")


def check_shape(pattern: CompiledPattern, state: State, source: tuple[str, int]) -> None:
    """Check that a tensor has the root's shape.

    Raises Declined where the root may have another, as after broadcasting.
    """
    found = tensor_shape(state.graph, *source)
    wanted = state.node.output_shapes[0]
    if same_shape(found, wanted):
        return
    shapes = f"its shape is {_text(found)}, that of '{state.node.name}' {_text(wanted)}"
    literals = [str(value) for value, _ in pattern.variables if _is_literal(value)]
    what = f"the {literals[0]}" if literals else "the rest of the pattern"
    raise Declined(f"{what} may broadcast '{source[0]}': {shapes}")


def _is_literal(value: Tensor) -> bool:
    return isinstance(value, Constant) and value.value is not None


def named_by(spec: RunSpec) -> set[str]:
    """Return the nodes that a run's fetches and targets name."""
    return {parse_tensor_name(fetch)[0] for fetch in spec.fetches} | set(spec.targets)


def may_view(node: PlannedNode) -> bool:
    """Return whether output 0 may have the memory of input 0."""
    return node.op_def.traits & VIEW != 0


def _device(node: Node) -> str:
    return node.assigned_device or node.device


def _text(shape: Shape) -> str:
    return format_shape(shape)
