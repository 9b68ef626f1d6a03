"""Define rewrite rules: a pattern, a guard, and the replacement of its matches."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from tfjit.framework.errors import InternalError, OpError
from tfjit.framework.op_defs.op_traits import CONTROL_FLOW
from tfjit.framework.types.shape import format_shape, is_compatible, is_fully_defined, merge
from tfjit.passes.ir.dataflow_graph import DataflowGraph, Node
from tfjit.passes.ir.declined import Declined
from tfjit.passes.manager.pass_context import PassContext
from tfjit.passes.manager.rewriter import drop, insert_constant
from tfjit.passes.patterns import legality
from tfjit.passes.patterns.bound import call, parameters
from tfjit.passes.patterns.expressions import Op, Value, as_value
from tfjit.passes.patterns.matcher import CompiledPattern, State
from tfjit.passes.patterns.plan import Plan, PlannedNode, make_plan


class Rule:
    """A rewrite of the nodes that match a pattern.

    name: in logs and errors. pattern: its root is the replaced node. replacement: an expression
    over the parts of the pattern, or a function that returns one for the parts that its parameters
    name, or None where the rule does not apply. when: a guard over such parts. Both may raise
    Declined with the reason against a rewrite.

    A rule is a function `(graph, ctx, node) -> text of the change, or None`, as the rules of
    `simplify` are.
    """

    def __init__(
        self,
        name: str,
        pattern: Op,
        replacement: Value | Callable[..., object],
        when: Callable[..., object] | None = None,
        about: str = "",
    ) -> None:
        self.name, self.pattern, self.replacement, self.when = name, pattern, replacement, when
        self.__name__ = name
        self.__doc__ = about or inspect.getdoc(replacement) if callable(replacement) else about
        self._compiled: CompiledPattern | None = None
        self._guard = parameters(when) if when is not None else ()
        self._parameters = () if isinstance(replacement, Value) else parameters(replacement)

    @property
    def root_types(self) -> tuple[str, ...]:
        """Return the op types of nodes that the rule may rewrite."""
        return self.pattern.kind.types

    @property
    def compiled(self) -> CompiledPattern:
        """Return the pattern as programs; they are compiled on the first use."""
        if self._compiled is None:
            self._compiled = CompiledPattern(self.pattern)
        return self._compiled

    def __repr__(self) -> str:
        shown = self.replacement if isinstance(self.replacement, Value) else "..."
        return f"<Rule {self.name}: {self.pattern} -> {shown}>"

    def __call__(self, graph: DataflowGraph, ctx: PassContext, node: Node) -> str | None:
        """Rewrite a node where the pattern matches; return a text of the change.

        Raises Declined where the pattern matches and the rewrite is refused, and InternalError with
        rule and node where the replacement is wrong or a user's function fails.
        """
        refused: Declined | None = None
        try:
            for state in self.compiled.matches(graph, ctx, node):
                try:
                    plan = self.plan(state)
                    if plan is not None:
                        return self._commit(state, plan)
                except Declined as reason:
                    refused = refused or reason
        except InternalError:
            raise
        except OpError as error:
            raise self._error(node, error.message) from error
        except Exception as error:
            raise self._error(node, f"{type(error).__name__}: {error}") from error
        if refused is not None:
            raise refused
        return None

    def plan(self, state: State) -> Plan | None:
        """Return the checked plan for a match, None where the guard or the function refuses.

        Raises Declined with the reason where there is one.
        """
        if self.when is not None and not call(self.when, self._guard, self.compiled, state):
            return None
        made = self.replacement
        if not isinstance(made, Value):
            returned = call(made, self._parameters, self.compiled, state)
            if returned is None:
                return None
            made = as_value(returned)
        plan = make_plan(made, self.compiled, state)
        legality.check_inner_nodes(self.compiled, state, plan)
        legality.check_dropped_inputs(self.compiled, state, plan)
        self._check_result(state, plan)
        return plan

    def _check_result(self, state: State, plan: Plan) -> None:
        """Check dtypes and shapes of a plan's result against the root's."""
        root, result = state.node, plan.result
        if isinstance(result, np.ndarray):
            self._check_output(root, 0, _dtype_name(result), result.shape, broadcast=True)
            if not is_fully_defined(root.output_shapes[0]):
                raise Declined(f"the size of the constant is not known: {_shape(root)}")
            return
        source, output = result
        if isinstance(source, PlannedNode):
            if output != 0:
                raise self._error(root, f"the replacement is output {output} of a new node")
            used = sorted({edge.src_output for edge in root.out_edges if not edge.is_control})
            if used and used[-1] >= len(source.dtypes):
                raise Declined("another output of it is used")
            for index in used or [0]:
                self._check_output(root, index, source.dtypes[index].name, source.shapes[index])
            view = source.inputs[0] if source.inputs and legality.may_view(source) else None
            if isinstance(view, tuple) and isinstance(view[0], str):
                legality.check_view(state, view, True)
            return
        node = state.graph.node(source)
        dtype = node.output_dtypes[output]
        if not dtype.is_ref:
            self._check_output(root, 0, dtype.name, None)
        legality.check_view(state, result, True)
        legality.check_shape(self.compiled, state, result)

    def _check_output(
        self, root: Node, index: int, dtype: str, shape: Any, broadcast: bool = False
    ) -> None:
        """Raise InternalError where an output has another dtype or an impossible shape."""
        wanted, known = root.output_dtypes[index].base_dtype.name, root.output_shapes[index]
        if dtype != wanted:
            raise self._error(root, f"the replacement is {dtype}, the node {wanted}")
        fits = _broadcasts(shape, known) if broadcast else is_compatible(shape, known)
        if not fits:
            raise self._error(
                root,
                f"the replacement has the shape {format_shape(shape)}, the node "
                f"{format_shape(known)}",
            )

    def _error(self, node: Node, text: str) -> InternalError:
        return InternalError(None, None, f"rule '{self.name}' at '{node.name}': {text}")

    # ---- changing the graph

    def _commit(self, state: State, plan: Plan) -> str:
        graph, root = state.graph, state.node
        inner = [state.tensors[slot][0] for _, slot in self.compiled.nodes[1:]]
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


def _broadcasts(shape: tuple[int, ...], wanted: Any) -> bool:
    if wanted is None:
        return True
    if len(shape) > len(wanted):
        return False
    pairs = zip(reversed(shape), reversed(wanted), strict=False)
    return all(size == 1 or other is None or size == other for size, other in pairs)


def _dtype_name(value: np.ndarray) -> str:
    from tfjit.framework.types.dtypes import as_dtype

    return as_dtype(value.dtype).name


def _shape(node: Node) -> str:
    return format_shape(node.output_shapes[0])
