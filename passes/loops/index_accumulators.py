"""Index the values that a loop stores for its gradient.

One loop of known length fills such a list and another empties it. The positions of the elements are
computed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from tfjit.framework.op_defs.attrs import FuncRef
from tfjit.framework.op_defs.op_traits import READS_STATE, VIEW, WHILE
from tfjit.framework.types.dtypes import DType, as_dtype
from tfjit.passes.analysis.induction_variables import (
    InductionVariable,
    Loop,
    Tensor,
    argument,
    behind_identities,
    read_loop,
    value_of,
)
from tfjit.passes.analysis.region_tree import (
    Scope,
    close_scopes,
    fold_scopes,
    is_structured,
    open_scopes,
)
from tfjit.passes.ir.dataflow_graph import SOURCE, DataflowGraph, Node
from tfjit.passes.ir.declined import Declined
from tfjit.passes.ir.function_library import indexed
from tfjit.passes.loops.arrays_to_lists import array_gradients
from tfjit.passes.loops.stacks_to_lists import stacks_to_lists
from tfjit.passes.manager.pass_context import PassContext
from tfjit.passes.manager.pass_registry import SHAPES
from tfjit.passes.manager.rewriter import insert_constant, tensor_shape

_LISTS: Final = frozenset({"TensorListPushBack", "TensorListPopBack", "EmptyTensorList"})
_STACKS: Final = frozenset({"StackV2", "StackPushV2", "StackPopV2"})


def accumulators(graph: DataflowGraph, ctx: PassContext) -> None:
    """Index the lists that one loop fills and another empties.

    Before: w = While(l: TensorListPushBack(l, x)); g = While(w: TensorListPopBack(w) -> x)
    After:  w = While(l: TensorListSetItem(l, i, x)), l of n elements for n iterations;
            g = While(w: TensorListGetItem(w, n - 1 - i))
    Keeps: values, and errors other than those of lists.
    Needs: `infer_shapes`, `functionalize`. Next: `dense_lists` makes arrays of these lists.

    The filling loop has a known length. Stacks of v1 loops become such lists first. A value that
    does not change in the loop goes to the second loop directly, an induction variable becomes
    arithmetic, and a constant stays a constant. The final value of an induction variable is known
    behind the loop too.

    A list qualifies if it starts empty, gets one element in each iteration, and is used by loops
    that pop one element in an iteration and no more than were pushed. Control edges without an
    effect are dropped first, since they would keep unneeded values alive.
    """
    if not any(
        node.op in ("StackV2", "EmptyTensorList") or _accumulates(graph, node)
        for node in graph.op_nodes()
    ):
        return
    top = open_scopes(graph, ctx)
    stacks_to_lists(top, ctx)
    _drop_control_edges(top, ctx)
    _finish(top, ctx)
    top = open_scopes(graph, ctx)
    fold_scopes(top)  # values used only for their shape are not needed then
    _finish(top, ctx)
    top = open_scopes(graph, ctx)
    for scope in list(top.all()):
        _Level(scope, ctx).run()
    _finish(top, ctx)
    if "TensorArrayGradV3" in graph.op_types:
        top = open_scopes(graph, ctx)
        array_gradients(top, ctx)
        _finish(top, ctx)


def _accumulates(graph: DataflowGraph, node: Node) -> bool:
    """Return whether a loop or branch contains lists or stacks."""
    if not is_structured(node):
        return False
    refs = [value for value in node.attrs.values() if isinstance(value, FuncRef)]
    bodies = [graph.functions.body(ref).graph for ref in (*refs, *node.attrs.get("branches", ()))]
    return any(
        inner.op in _LISTS | _STACKS or _accumulates(body, inner)
        for body in bodies
        for inner in body.op_nodes()
    )


def _drop_control_edges(top: Scope, ctx: PassContext) -> None:
    for scope in top.all():
        for node in list(scope.graph.op_nodes()):
            # ControlTrigger only propagates deadness, and function bodies have no dead nodes.
            if node.op == "ControlTrigger" and scope is not top and ctx.may_rewrite():
                scope.graph.change_op(node.name, "NoOp", [], {})
                ctx.rewrote(node.name, "is a NoOp")
        scope.ctx.run(scope.graph, "drop_control_edges")
        scope.changed = True


def _finish(top: Scope, ctx: PassContext) -> None:
    close_scopes(top)
    ctx.invalidate(SHAPES)
    ctx.run(top.graph, "trim_loops", "infer_shapes")


@dataclass(slots=True)
class _Filled:
    """A list that a loop fills.

    number: of the loop's variable. push: the push in the body. value: the pushed tensor, behind
    Identity nodes. emptiers: (loop, its variable, its TensorListPopBack) for each loop that pops.
    """

    loop: Loop
    number: int
    made: Node
    push: Node
    value: Tensor
    emptiers: list[tuple[Loop, int, Node]] = field(default_factory=list)


class _Level:
    """The loops of one graph, and the lists handed between them."""

    def __init__(self, scope: Scope, ctx: PassContext) -> None:
        self.scope, self.ctx, self.graph = scope, ctx, scope.graph
        self.loops: dict[str, Loop] = {}
        self.numbers: dict[tuple[str, int, int], Tensor] = {}

    def run(self) -> None:
        """Rewrite the lists that qualify."""
        graph = self.graph
        for name in [
            name for name in graph.topological_order() if graph.node(name).has_trait(WHILE)
        ]:
            loop = self.loops[name] = read_loop(self.scope, name)
            if loop.trips is not None:
                self._settle_induction_variables(loop)
        for loop in self.loops.values():
            for k in range(len(loop.inputs)):
                filled = None
                try:
                    filled = self._read(loop, k)
                    if filled is not None:
                        self._rewrite(filled)
                except Declined as why:
                    self.ctx.log(graph.inputs(loop.name)[k][0], f"stays a list: {why}")

    def _settle_induction_variables(self, loop: Loop) -> None:
        """Replace the final values of induction variables by constants."""
        for k, variable in loop.induction_variables.items():
            value = variable.after(loop.trips or 0)
            if value is not None and self.graph.consumers(loop.name, k):
                if not self.ctx.may_rewrite():
                    return
                number = np.array(value, variable.dtype)
                if self.graph.node(loop.name).is_stateful:
                    # the consumer may rely on the order behind the loop's effects
                    for consumer, _ in self.graph.consumers(loop.name, k):
                        self.graph.add_control_edge(loop.name, consumer)
                self.graph.redirect_output(
                    loop.name,
                    k,
                    *insert_constant(self.graph, self.graph.node(loop.name), np.array(number)),
                )
                self.ctx.rewrote(loop.name, f"its variable {k} ends as {value}")
                self.scope.changed = True

    # ---- matching

    def _read(self, loop: Loop, k: int) -> _Filled | None:
        """Return the list that variable k of a loop fills.

        None where the variable is no list that starts empty.
        """
        made = self.graph.node(self.graph.inputs(loop.name)[k][0])
        if made.op != "EmptyTensorList":
            return None
        push = self._one_user(loop, k, "TensorListPushBack")
        if len(self.graph.consumers(made.name)) != 1:
            raise Declined(f"not '{loop.name}' alone starts with it")
        if not loop.trips:
            raise Declined(
                f"how often '{loop.name}' runs is not known"
                if loop.trips is None
                else f"'{loop.name}' never runs"
            )
        if (
            not push.attrs["element_dtype"].is_numpy_compatible
            or push.attrs["element_dtype"].name == "string"
        ):
            raise Declined(f"its elements are of type {push.attrs['element_dtype'].name}")
        value = behind_identities(loop.body, loop.body.graph.inputs(push.name)[1])
        filled = _Filled(loop, k, made, push, value)
        for name, m in self.graph.consumers(loop.name, k):
            if name not in self.loops:
                raise Declined(f"{self.graph.node(name).op} '{name}' uses it")
            emptier = self.loops[name]
            pop = self._one_user(emptier, m, "TensorListPopBack")
            if self.graph.consumers(name, m):
                raise Declined(f"the final value of it after '{name}' is used")
            if emptier.trips is None or emptier.trips > loop.trips:
                raise Declined(f"'{name}' may pop more elements than the stack has")
            if not _small(loop) or (emptier.trips and not _small(emptier)):
                raise Declined("no induction variable is far from the limits of int32")
            filled.emptiers.append((emptier, m, pop))
        return filled

    def _one_user(self, loop: Loop, k: int, op: str) -> Node:
        """Return the one node of a body that updates variable k.

        Its list input is the variable.
        """
        graph = loop.body.graph
        wanted = next(n for n in graph.op_nodes() if n.op == "_Retval" and n.attrs["index"] == k)
        source, output = behind_identities(loop.body, graph.inputs(wanted.name)[0])
        found = graph.node(source)
        if found.op != op or output or argument(loop.body, graph.inputs(source)[0]) != k:
            raise Declined(f"'{loop.name}' does not call {op} for it once in each iteration")
        for scope in (loop.cond, loop.body):
            arg = next(
                (n for n in scope.graph.op_nodes() if n.op == "_Arg" and n.attrs["index"] == k),
                None,
            )
            other = self._other_user(scope, arg.name, 0, {source}) if arg is not None else ""
            if other:
                raise Declined(f"'{other}' uses it")
        other = self._other_user(loop.body, source, 0, {wanted.name})
        if other:
            raise Declined(f"'{other}' uses it")
        return found

    def _other_user(self, scope: Scope, name: str, output: int, known: set[str]) -> str:
        """Return an unknown user of a tensor, through Identity nodes."""
        for user, _ in scope.graph.consumers(name, output):
            if scope.graph.node(user).op == "Identity":
                found = self._other_user(scope, user, 0, known)
                if found:
                    return found
            elif user not in known:
                return user
        return ""

    # ---- rewriting

    def _rewrite(self, filled: _Filled) -> None:
        if not filled.emptiers or not self.ctx.may_rewrite():
            return
        loop, body = filled.loop, filled.loop.body
        k = argument(body, filled.value)
        constant = value_of(body, filled.value)
        node = body.graph.node(filled.value[0])
        if constant is not None and constant.dtype != object:
            for emptier, m, pop in filled.emptiers:
                self._straight(
                    emptier, m, pop, insert_constant(emptier.body.graph, pop, np.array(constant))
                )
            self.ctx.rewrote(filled.made.name, "of a constant")
        elif k is not None and k in loop.unchanged:
            for emptier, m, pop in filled.emptiers:
                self._carried(emptier, m, pop, loop.inputs[k])
            self.ctx.rewrote(filled.made.name, f"of the unchanging '{loop.inputs[k][0]}'")
        elif node.op == "ReadVariableOp" and self._may_read_before(loop, node):
            read = self._read_before(loop, node, f"{filled.made.name}/value")
            for emptier, m, pop in filled.emptiers:
                self._carried(emptier, m, pop, (read, 0))
            self.ctx.rewrote(filled.made.name, f"of the variable that '{node.name}' reads")
        elif (
            k is not None
            and k in loop.induction_variables
            and loop.induction_variables[k].dtype == np.int32
        ):
            variable = loop.induction_variables[k]
            for emptier, m, pop in filled.emptiers:
                position = self._popped(emptier, loop)
                self._straight(
                    emptier,
                    m,
                    pop,
                    self._scaled(emptier.body, pop, position, variable.start, variable.step),
                )
            self.ctx.rewrote(filled.made.name, "of a counter")
        else:
            self._indexed(filled)
            self.ctx.rewrote(filled.made.name, f"of {loop.trips} elements, by their positions")
        self.scope.changed = True

    def _straight(self, emptier: Loop, m: int, pop: Node, value: Tensor) -> None:
        """Replace the popped value by another tensor of the body.

        The loop variable becomes unused.
        """
        graph = emptier.body.graph
        graph.redirect_output(pop.name, 1, *value)
        self._keep(emptier, m, pop)

    def _carried(self, emptier: Loop, m: int, pop: Node, value: Tensor) -> None:
        """Make the variable the pushed value, which stays unchanged."""
        dtype: DType = self.graph.node(value[0]).output_dtypes[value[1]].base_dtype
        shape = tensor_shape(self.graph, *value)
        self._keep(emptier, m, pop)
        loop = self.graph.node(emptier.name)
        shapes = tuple(shape if i == m else old for i, old in enumerate(loop.output_shapes))
        attrs = {
            **loop.attrs,
            "T": tuple(dtype if i == m else old for i, old in enumerate(loop.attrs["T"])),
            "output_shapes": (),
        }
        inputs = list(self.graph.inputs(emptier.name))
        inputs[m] = value
        for scope in (emptier.cond, emptier.body):
            for node in scope.graph.op_nodes():
                if (node.op == "_Arg" and node.attrs["index"] == m) or (
                    node.op == "_Retval" and node.attrs["index"] == m and scope is emptier.body
                ):
                    scope.graph.change_op(
                        node.name,
                        node.op,
                        scope.graph.inputs(node.name),
                        {**node.attrs, "T": dtype},
                    )
                    node.output_shapes = (shape,) * len(node.output_dtypes)
            scope.changed = True
        self.graph.change_op(emptier.name, loop.op, inputs, attrs).output_shapes = shapes
        arg = indexed(emptier.body.graph, "_Arg")[m].name
        emptier.body.graph.redirect_output(pop.name, 1, arg, 0)

    def _keep(self, loop: Loop, m: int, pop: Node) -> None:
        """Return variable m unchanged from the body."""
        graph = loop.body.graph
        result, arg = indexed(graph, "_Retval")[m], indexed(graph, "_Arg")[m]
        graph.replace_input(result.name, 0, arg.name, 0)
        graph.redirect_output(pop.name, 0, arg.name, 0)
        for src in graph.control_inputs(pop.name):
            for dst in graph.control_consumers(pop.name):
                graph.add_control_edge(src, dst)
        loop.body.changed = True

    def _indexed(self, filled: _Filled) -> None:
        """Set and read elements by position in a full list.

        They were pushed and popped before.
        """
        loop, push, made = filled.loop, filled.push, filled.made
        graph, dtype = loop.body.graph, push.attrs["element_dtype"]
        shape, _ = self.graph.inputs(made.name)
        length = insert_constant(self.graph, made, np.array(loop.trips, np.int32))
        self.graph.change_op(
            made.name, "TensorListReserve", [shape, length], {"element_dtype": dtype}
        )
        before, value = graph.inputs(push.name)
        position = self._position(loop)
        graph.change_op(
            push.name, "TensorListSetItem", [before, position, value], {"element_dtype": dtype}
        )
        loop.body.changed = True
        for emptier, m, pop in filled.emptiers:
            inside = emptier.body.graph
            before, element = inside.inputs(pop.name)
            name = inside.new_name(f"{pop.name}/item")
            attrs = {"element_dtype": dtype}
            inputs = [before, self._popped(emptier, loop), element]
            item = inside.add_node_op(
                name,
                "TensorListGetItem",
                inputs,
                attrs,
                control_inputs=inside.control_inputs(pop.name),
                like=pop,
            )
            item.output_shapes = (pop.output_shapes[1],)
            inside.redirect_output(pop.name, 1, item.name, 0)
            self._keep(emptier, m, pop)

    def _position(self, loop: Loop) -> Tensor:
        """Return the number of the iteration, in a body."""
        return self._number(loop, 0, 1)

    def _popped(self, emptier: Loop, loop: Loop) -> Tensor:
        """Return the position of the element that an iteration of `emptier` pops.

        `loop` pushed the elements.
        """
        return self._number(emptier, (loop.trips or 0) - 1, -1)

    def _number(self, loop: Loop, start: int, step: int) -> Tensor:
        """Return start + step * iteration number, in a body; made once."""
        key = loop.name, start, step
        found = self.numbers.get(key)
        if found is None:
            variable = min(
                loop.induction_variables.values(),
                key=lambda c: (
                    c.dtype != np.int32,
                    abs(c.step) != 1,
                    c.step != 1,
                    c.start != 0,
                    c.number,
                ),
            )
            graph = loop.body.graph
            arg = indexed(graph, "_Arg")[variable.number]
            number: Tensor = (arg.name, 0)
            if variable.dtype != np.int32:
                number = _node(
                    graph,
                    arg,
                    "Cast",
                    [number],
                    {"SrcT": as_dtype(variable.dtype), "DstT": as_dtype("int32")},
                )
            if abs(variable.step) == 1:
                found = self._scaled(
                    loop.body,
                    arg,
                    number,
                    start - step * variable.step * variable.start,
                    step * variable.step,
                )
            else:
                if variable.start:
                    number = _node(
                        graph,
                        arg,
                        "Sub",
                        [number, insert_constant(graph, arg, np.array(variable.start, np.int32))],
                    )
                number = _node(
                    graph,
                    arg,
                    "FloorDiv",
                    [number, insert_constant(graph, arg, np.array(variable.step, np.int32))],
                )
                found = self._scaled(loop.body, arg, number, start, step)
            self.numbers[key] = found
        return found

    def _scaled(self, body: Scope, like: Node, number: Tensor, start: int, step: int) -> Tensor:
        """Return start + step * number, of int32."""
        graph = body.graph
        if abs(step) != 1:
            number = _node(
                graph, like, "Mul", [number, insert_constant(graph, like, np.array(step, np.int32))]
            )
        if step == -1:
            return _node(
                graph,
                like,
                "Sub",
                [insert_constant(graph, like, np.array(start, np.int32)), number],
            )
        return (
            _node(
                graph,
                like,
                "AddV2",
                [number, insert_constant(graph, like, np.array(start, np.int32))],
            )
            if start
            else number
        )

    # ---- variables

    def _may_read_before(self, loop: Loop, read: Node) -> bool:
        """Return whether a loop that reads a variable changes no variable."""
        k = argument(loop.body, loop.body.graph.inputs(read.name)[0])
        return (
            k is not None
            and k in loop.unchanged
            and not any(_writes(scope) for scope in (loop.cond, loop.body))
        )

    def _read_before(self, loop: Loop, read: Node, name: str) -> str:
        """Read the variable before the loop, behind the loop's inputs.

        Returns the name of the new read.
        """
        graph = self.graph
        k = argument(loop.body, loop.body.graph.inputs(read.name)[0])
        assert k is not None
        waits = [*(src for src, _ in loop.inputs), *graph.control_inputs(loop.name)]
        made = graph.add_node_op(
            graph.new_name(name),
            "ReadVariableOp",
            [loop.inputs[k]],
            dict(read.attrs),
            control_inputs=[
                src for src in dict.fromkeys(waits) if src != SOURCE and src != loop.inputs[k][0]
            ],
            like=graph.node(loop.name),
        )
        made.output_shapes = read.output_shapes
        graph.add_control_edge(made.name, loop.name)
        return made.name


def _small(loop: Loop) -> list[InductionVariable]:
    """Return a loop's induction variables with values far from the int32 limits.

    The trip count of the loop is known.
    """
    values = {
        c: (c.start, c.start + c.step * (loop.trips or 0), c.step)
        for c in loop.induction_variables.values()
    }
    return [variable for variable, reached in values.items() if max(map(abs, reached)) < 1 << 30]


def _writes(scope: Scope) -> bool:
    """Return whether a body, or a nested one, may change a variable."""
    for node in scope.graph.op_nodes():
        if node.name in scope.children:
            if any(_writes(child) for child in scope.children[node.name]):
                return True
        elif (
            not node.has_trait(READS_STATE | VIEW)
            and node.op not in ("_Arg", "_Retval")
            and not node.op.startswith(("TensorArray", "Stack"))
            and any(dtype.is_ref or dtype.name == "resource" for dtype in node.input_dtypes)
        ):
            return True
    return False


def _node(
    graph: DataflowGraph,
    like: Node,
    op: str,
    inputs: list[Tensor],
    attrs: dict[str, object] | None = None,
) -> Tensor:
    made = graph.add_node_op(
        graph.new_name(f"{like.name}/{op.lower()}"), op, inputs, attrs or {}, like=like
    )
    made.output_shapes = ((),)
    return made.name, 0


__all__ = ["accumulators"]
