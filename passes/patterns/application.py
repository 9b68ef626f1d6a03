"""Apply a rule to a match: plan, check, change the graph."""

from __future__ import annotations

import numpy as np

from tfjit.framework.op_defs.op_traits import CONTROL_FLOW
from tfjit.framework.types.dtypes import as_dtype
from tfjit.framework.types.shape import Shape, format_shape, is_compatible, is_fully_defined, merge
from tfjit.passes.ir.dataflow_graph import DataflowGraph, Node
from tfjit.passes.ir.declined import Declined
from tfjit.passes.manager.rewriter import drop, insert_constant
from tfjit.passes.patterns import legality
from tfjit.passes.patterns.bound import call
from tfjit.passes.patterns.expressions import Value, as_value
from tfjit.passes.patterns.plan import Plan, PlannedNode, make_plan
from tfjit.passes.patterns.rewrite_rule import Rule
from tfjit.passes.patterns.steps import State


def apply_match(rule: Rule, state: State) -> str | None:
    """Rewrite a match; return a text of the change.

    None says that the rule refuses.

    Raises Declined with the reason where there is one; the graph is then as before.
    """
    plan = plan_match(rule, state)
    return None if plan is None else _commit(rule, state, plan)


def plan_match(rule: Rule, state: State) -> Plan | None:
    """Return the checked plan for a match; None if the rule refuses.

    Raises Declined with the reason where there is one.
    """
    if rule.when is not None and not call(rule.when, rule.guard_parameters, rule.compiled, state):
        return None
    made = rule.replacement
    if not isinstance(made, Value):
        returned = call(made, rule.parameters, rule.compiled, state)
        if returned is None:
            return None
        made = as_value(returned)
    plan = make_plan(made, rule.compiled, state)
    legality.check_inner_nodes(rule.compiled, state, plan)
    legality.check_dropped_inputs(rule.compiled, state, plan)
    _check_result(rule, state, plan)
    return plan


def _check_result(rule: Rule, state: State, plan: Plan) -> None:
    """Check dtypes and shapes of a plan's result against the root's."""
    root, result = state.node, plan.result
    replaced_by_node = isinstance(result, np.ndarray) or isinstance(result[0], PlannedNode)
    if replaced_by_node and any(dtype.is_ref for dtype in root.output_dtypes):
        raise Declined("its output is a reference to a variable")
    if isinstance(result, np.ndarray):
        _check_output(rule, root, 0, as_dtype(result.dtype).name, result.shape, broadcast=True)
        if not is_fully_defined(root.output_shapes[0]):
            raise Declined(f"the size of the constant is not known: {_shape(root)}")
        return
    source, output = result
    if isinstance(source, PlannedNode):
        if output != 0:
            raise rule.error(root, f"the replacement is output {output} of a new node")
        used = sorted({edge.src_output for edge in root.out_edges if not edge.is_control})
        if used and used[-1] >= len(source.dtypes):
            raise Declined("another output of it is used")
        for index in used or [0]:
            _check_output(rule, root, index, source.dtypes[index].name, source.shapes[index])
        while isinstance(source, PlannedNode) and source.inputs and legality.may_view(source):
            if isinstance(source.inputs[0], np.ndarray):
                return
            source, output = source.inputs[0]
        if not isinstance(source, PlannedNode):
            legality.check_view(state, (source, output))
        return
    node = state.graph.node(source)
    dtype = node.output_dtypes[output]
    if not dtype.is_ref:
        _check_output(rule, root, 0, dtype.name, None)
    legality.check_view(state, result)
    if not rule.keeps_shape:
        legality.check_shape(rule.compiled, state, result)


def _check_output(
    rule: Rule, root: Node, index: int, dtype: str, shape: Shape, broadcast: bool = False
) -> None:
    """Raise InternalError where an output has another dtype or an impossible shape."""
    wanted, known = root.output_dtypes[index].base_dtype.name, root.output_shapes[index]
    if dtype != wanted:
        raise rule.error(root, f"the replacement is {dtype}, the node {wanted}")
    fits = _broadcasts(shape, known) if broadcast else is_compatible(shape, known)
    if not fits:
        raise rule.error(
            root,
            f"the replacement has the shape {format_shape(shape)}, the node {format_shape(known)}",
        )


def _commit(rule: Rule, state: State, plan: Plan) -> str:
    graph, root = state.graph, state.node
    inner = [state.tensors[slot][0] for _, slot in rule.compiled.nodes[1:]]
    origin = tuple(
        dict.fromkeys(
            user for name in (*reversed(inner), root.name) for user in graph.node(name).origin
        )
    )
    if isinstance(plan.result, np.ndarray):
        text = _become_constant(state, plan.result)
    elif isinstance(plan.result[0], PlannedNode):
        text = _become_node(state, plan, origin)
    else:
        src, output = plan.result
        if root.name in legality.named_by(state.ctx.spec) and "_Retval" not in graph.op_types:
            text = _become_identity(graph, root, src, output)
        else:
            text = drop(graph, root, src, output)
    named = legality.named_by(state.ctx.spec)
    for name in inner:  # users come before their inputs
        unused = name in graph and name not in named and not graph.edges_out_of(name)
        if unused and not graph.node(name).is_stateful:
            graph.remove_op(name)
    return text


def _become_constant(state: State, value: np.ndarray) -> str:
    graph, root = state.graph, state.node
    shape = root.output_shapes[0]
    assert shape is not None
    waits = graph.control_inputs(root.name)
    if graph.has_trait(CONTROL_FLOW):  # in the loop or branch of its inputs
        waits += [src for src, _ in graph.inputs(root.name)]
    full = np.ascontiguousarray(np.broadcast_to(value, shape)).reshape(shape)
    full.setflags(write=False)
    op = root.op
    dtype = root.output_dtypes[0].base_dtype
    graph.change_op(root.name, "Const", [], {"dtype": dtype, "value": full}, waits)
    return f"{op} becomes a constant"


def _become_identity(graph: DataflowGraph, root: Node, src: str, output: int) -> str:
    dtype = graph.node(src).output_dtypes[output].base_dtype
    op = root.op
    graph.change_op(root.name, "Identity", [(src, output)], {"T": dtype})
    return f"{op} becomes an Identity of '{src}': it is fetched"


def _become_node(state: State, plan: Plan, origin: tuple[str, ...]) -> str:
    """Add the planned nodes; the root becomes the last."""
    graph, root = state.graph, state.node
    waits, op = graph.control_inputs(root.name), root.op
    made: dict[int, str] = {}
    for planned in plan.nodes:
        inputs = []
        for source in planned.inputs:
            if isinstance(source, np.ndarray):
                inputs.append(insert_constant(graph, root, source))
            elif isinstance(source[0], PlannedNode):
                inputs.append((made[id(source[0])], source[1]))
            else:
                inputs.append(source)
        if planned is plan.result[0]:
            shapes = root.output_shapes
            node = graph.change_op(root.name, planned.op_def.name, inputs, planned.attrs)
            known = shapes + (None,) * (len(planned.shapes) - len(shapes))
            node.output_shapes = tuple(
                merge(new, old) if is_compatible(new, old) else new
                for new, old in zip(planned.shapes, known, strict=False)
            )
            node.origin = origin
            shown = ", ".join(f"'{src}'" for src, _ in inputs)
            return f"{op} becomes {node.op}({shown})"
        reads = planned.reads_state or any(
            graph.node(src).output_dtypes[output].is_ref for src, output in inputs
        )
        name = graph.new_name(f"{root.name}/{planned.op_def.name}")
        graph.add_node_op(
            name,
            planned.op_def.name,
            inputs,
            planned.attrs,
            control_inputs=waits if reads else (),
            like=root,
            origin=origin,
            output_shapes=planned.shapes,
        )
        made[id(planned)] = name
    raise AssertionError("the result of a plan is its last node")


def _broadcasts(shape: Shape, wanted: Shape) -> bool:
    if wanted is None or shape is None:
        return True
    if len(shape) > len(wanted):
        return False
    pairs = zip(reversed(shape), reversed(wanted), strict=False)
    return all(size == 1 or other is None or size == other for size, other in pairs)


def _shape(node: Node) -> str:
    return format_shape(node.output_shapes[0])
