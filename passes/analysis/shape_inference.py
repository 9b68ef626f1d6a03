"""Infer static shapes and small static values.

They follow from the feeds, constants and variables of a run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from tfjit.framework.cooperative_yield import yielding
from tfjit.framework.errors import InternalError, InvalidArgumentError
from tfjit.framework.op_defs.attrs import FuncRef
from tfjit.framework.op_defs.op_registry import infer_shapes as shapes_by_op
from tfjit.framework.op_defs.op_registry import registry
from tfjit.framework.op_defs.op_traits import CALL, CASE, IF, MERGE, NEXT_ITERATION, WHILE
from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.framework.types import shape as shape_rules
from tfjit.framework.types.shape import Shape
from tfjit.passes.analysis.argument_info import ArgumentInfo
from tfjit.passes.analysis.list_shapes import ListShape, element_read, list_made
from tfjit.passes.analysis.resource_shapes import ResourceShapes
from tfjit.passes.analysis.static_values import StaticValues
from tfjit.passes.ir.dataflow_graph import DataflowGraph, Node
from tfjit.passes.ir.function_library import Function
from tfjit.passes.manager.pass_context import PassContext
from tfjit.passes.manager.pass_registry import SHAPES

_MAX_ROUNDS: Final = 4  # then loop variables with changing shapes get unknown shapes

Tensor = tuple[str, int]
_NOTHING: Final = object()


def infer_body(
    function: Function, given: Sequence[ArgumentInfo], ctx: PassContext
) -> list[ArgumentInfo]:
    """Return the shapes and lists of a function's results for given arguments."""
    scratch = ctx.inferred_bodies
    key = (
        id(function.graph),
        tuple(
            (
                g.shape,
                g.variable,
                None if g.value is None else (g.value.dtype, g.value.tobytes()),
                g.items,
            )
            for g in given
        ),
    )
    if key not in scratch:
        inference = _Inference(
            function.graph, ctx, {node.name: given[index] for index, node in function.args.items()}
        )
        inference.settle()
        found = [
            ArgumentInfo(
                inference.shapes[src][output],
                inference.resources.variables.get((src, output)),
                items=inference.lists.get((src, output)),
            )
            for src, output in function.returned
        ]
        scratch[key] = function, found  # keep the function, so that no other graph gets its id
    results: list[ArgumentInfo] = scratch[key][1]
    return results


def infer_loop(
    body: Function, given: Sequence[ArgumentInfo], ctx: PassContext
) -> list[ArgumentInfo]:
    """Return the facts about a loop's variables that hold in every iteration.

    The entering variables are widened by the results of the body until nothing changes any more.
    given: the entering variables, whose values do not count.
    """
    wide = [replace(g, value=None) for g in given]
    for _ in range(_MAX_ROUNDS):
        wider = [old.relax(new) for old, new in zip(wide, infer_body(body, wide, ctx), strict=True)]
        if wider == wide:
            return wide
        wide = wider
    # The variables that still change become unknown; the others are stable whatever those are.
    while True:
        wider = [old.relax(new) for old, new in zip(wide, infer_body(body, wide, ctx), strict=True)]
        if wider == wide:
            return wide
        wide = [
            replace(old, shape=None, variable=None, items=None) if old != new else old
            for old, new in zip(wide, wider, strict=True)
        ]


def infer_shapes(graph: DataflowGraph, ctx: PassContext) -> None:
    """Fill in `output_shapes` of every node, and small static values in `ctx.values`.

    Before: x<5,3> -> Shape -> Reshape
    After: the same nodes; Shape's value [5, 3] is known, and Reshape's output shape
    Keeps: the graph; a shape that was known stays at least as well known.

    Feeds with known shapes make everything static known. A node whose inputs contradict each other
    is left unknown: the run itself reports the error of the kernel.
    """
    if ctx.is_valid(SHAPES, graph):
        return
    inference = _Inference(graph, ctx, graph.graph.get("given"))
    inference.settle()
    for name, shapes in inference.shapes.items():
        graph.node(name).output_shapes = shapes
    # Only a complete inference is kept. A pass may make more known later, such as a default taken
    # for an unfed placeholder; that may contradict a shape inferred from the earlier facts.
    complete = all(
        shape is not None and None not in shape
        for shapes in inference.shapes.values()
        for shape in shapes
    )
    ctx.validate(SHAPES, graph, complete=complete)
    ctx.values.clear()
    ctx.values.update(inference.static.values)
    ctx.handles.clear()
    ctx.handles.update(inference.resources.variables)
    ctx.lists.clear()
    ctx.lists.update(inference.lists)


def shapes_for(
    graph: DataflowGraph, ctx: PassContext, arguments: Mapping[str, Shape]
) -> dict[str, tuple[Shape, ...]]:
    """Return the shapes of every node's outputs for shapes of `_Arg` nodes.

    The graph keeps its own shapes, which hold as well.
    """
    given = {name: ArgumentInfo(shape) for name, shape in arguments.items()}
    inference = _Inference(graph, ctx, given)
    inference.settle()
    return inference.shapes


class _Report:
    """Logs why facts about nodes stay unknown, once a node."""

    def __init__(self, ctx: PassContext) -> None:
        self._ctx = ctx
        self._nodes: set[str] = set()

    def __call__(self, name: str, reason: str) -> None:
        if name not in self._nodes:
            self._nodes.add(name)
            self._ctx.log(name, reason)


class _Inference:
    """Infer shapes over one graph until the loop-carried shapes converge."""

    def __init__(
        self,
        graph: DataflowGraph,
        ctx: PassContext,
        given: Mapping[str, ArgumentInfo] | None = None,
    ) -> None:
        self.graph, self.ctx = graph, ctx
        self.given = given or {}  # facts about arguments, by `_Arg`
        self.order = graph.topological_order()
        self.loop_merges: dict[str, list[Tensor]] = {}  # Merge -> its inputs that are back edges
        for name in yielding(self.order):
            if graph.node(name).has_trait(MERGE):
                back = [
                    tensor
                    for tensor in graph.inputs(name)
                    if graph.node(tensor[0]).has_trait(NEXT_ITERATION)
                ]
                if back:
                    self.loop_merges[name] = back
        self.assumed: dict[str, Shape] = {}
        self.give_up = False
        self.report = _Report(ctx)
        self.run_state()

    def run_state(self) -> None:
        self.shapes: dict[str, tuple[Shape, ...]] = {}
        self.static = StaticValues(self.graph, self.shapes, self.report)
        self.resources = ResourceShapes(self.static)
        self.lists: dict[Tensor, ListShape] = {}

    def settle(self) -> None:
        """Repeat the inference until each loop carries the shapes that were assumed."""
        for round in range(_MAX_ROUNDS + 1):
            self.give_up = round == _MAX_ROUNDS
            self.run()
            if self.loops_converged():
                break

    def run(self) -> None:
        self.run_state()
        for name in yielding(self.order):
            self.visit(self.graph.node(name), self.graph.inputs(name))

    def loops_converged(self) -> bool:
        """Return whether each loop's Merge has the shape that was assumed.

        Assumptions that do not hold are widened.
        """
        converged = True
        for name in self.loop_merges:
            wide = self.assumed[name]
            for src, output in self.graph.inputs(name):
                wide = shape_rules.relax(wide, self.shapes[src][output])
            if wide != self.assumed[name]:
                self.assumed[name] = wide
                converged = False
        return converged

    def visit(self, node: Node, inputs: list[Tensor]) -> None:
        if node.op == "Const":
            value = node.attrs.get("value")
            self.shapes[node.name] = (
                value.shape if isinstance(value, np.ndarray) else node.output_shapes[0],
            )
            return
        if node.name in self.loop_merges:
            self.visit_loop_merge(node, inputs)
            return
        if self.is_numbers_of_one_shape(node, inputs):
            return
        merged = self.by_op(node, inputs)
        if node.has_variant:
            merged = self.follow_lists(node, inputs, merged)
        self.shapes[node.name] = merged
        if node.name in self.given:
            self.take_argument(node, self.given[node.name])
            return
        self.resources.propagate(node, inputs)
        if node.op == "VariableShape":
            variable = self.resources.variables.get(inputs[0])
            if variable is not None:
                self.static.record(node, 0, variable, (len(variable),))
            return
        self.static.propagate(node, inputs)

    def take_argument(self, node: Node, given: ArgumentInfo) -> None:
        """Record the facts about an argument."""
        if node.output_dtypes[0].name == "resource":
            self.resources.variables[node.name, 0] = given.variable
        if given.value is not None:
            self.static.values[node.name, 0] = given.value

    def visit_loop_merge(self, node: Node, inputs: list[Tensor]) -> None:
        if self.give_up:
            self.assumed[node.name] = None
        elif node.name not in self.assumed:
            back = self.loop_merges[node.name]
            wide: Any = _NOTHING
            for tensor in inputs:
                if tensor not in back:
                    here = self.shapes[tensor[0]][tensor[1]]
                    wide = here if wide is _NOTHING else shape_rules.relax(wide, here)
            self.assumed[node.name] = None if wide is _NOTHING else wide
        self.shapes[node.name] = (self.assumed[node.name], ())

    def is_numbers_of_one_shape(self, node: Node, inputs: list[Tensor]) -> bool:
        """Infer an elementwise node of floating-point tensors of one known shape.

        Return whether the node is one. Its output shape is then set, and the node has neither a
        handle nor a value to propagate.
        """
        if (
            node.op_def is None
            or len(node.output_dtypes) != 1
            or not node.output_dtypes[0].is_floating
            or node.name in self.given
        ):
            return False
        shapes = self.shapes
        equal = registry.equal_shape(
            node.op_def.name, [shapes[src][output] for src, output in inputs]
        )
        if equal is None:
            return False
        known = node.output_shapes[0]
        shapes[node.name] = (
            node.output_shapes if known == equal else (self.merged(node, known, equal),)
        )
        return True

    def by_op(self, node: Node, inputs: list[Tensor]) -> tuple[Shape, ...]:
        """Return output shapes by the op's shape function and the known shapes."""
        known = node.output_shapes
        if not known:
            return ()
        if node.name in self.given:
            return (self.merged(node, known[0], self.given[node.name].shape),)
        bodies = self.by_bodies(node, inputs)
        if bodies is not None:
            return tuple(
                self.merged(node, old, new) for old, new in zip(known, bodies, strict=True)
            )
        if node.op_def is None or node.op in ("_Arg", "_Recv", "_HostRecv"):
            return known
        if node.op == "Enter":
            # The op's shape function must forget the shape, since the loop may change the variable.
            # This inference iterates over loops instead.
            return (self.merged(node, known[0], self.shapes[inputs[0][0]][inputs[0][1]]),)
        read = self.resources.read(node, inputs)
        if read is not None:
            return tuple(self.merged(node, old, new) for old, new in zip(known, read, strict=True))
        op = node.op_def.name  # for a custom kernel, the op type that the kernel computes
        if registry.planned_shape_fn(op) is None:
            return known
        context = ShapeContext(
            op,
            node.name,
            node.attrs,
            [self.shapes[src][output] for src, output in inputs],
            node.input_dtypes,
            len(node.output_dtypes),
            lambda index: self.static.value(inputs[index]),
            lambda index: self.static.as_shape(inputs[index]),
            lambda: [src if output == 0 else f"{src}:{output}" for src, output in inputs],
        )
        try:
            found = shapes_by_op(context, node.op_def, planned=True)
        except InternalError:
            raise
        except InvalidArgumentError as error:
            self.report(node.name, f"shapes unknown: {error.message}")
            return (None,) * len(known)
        return tuple(self.merged(node, old, new) for old, new in zip(known, found))

    def by_bodies(self, node: Node, inputs: list[Tensor]) -> list[Shape] | None:
        """Infer output shapes of a node that runs functions from its bodies.

        None for other nodes.
        """
        attrs = node.attrs
        refs: Sequence[FuncRef]
        if node.has_trait(WHILE):
            refs = (attrs["body"],)
        elif node.has_trait(IF):
            refs, inputs = (attrs["then_branch"], attrs["else_branch"]), inputs[1:]
        elif node.has_trait(CASE):
            refs, inputs = attrs["branches"], inputs[1:]
        elif node.has_trait(CALL):
            refs = (attrs["f"],)
        else:
            return None
        library = self.graph.functions
        running = self.ctx.bodies_in_progress
        given = [
            ArgumentInfo(
                self.shapes[src][output],
                self.resources.variables.get((src, output)),
                self.static.small(src, output),
                self.lists.get((src, output)),
            )
            for src, output in inputs
        ]
        found: list[ArgumentInfo] | None = None
        for ref in refs:
            if ref.name not in library:
                return None  # an error at run time
            body = library.body(ref)
            if (
                len(body.inputs) != len(given)
                or len(body.outputs) != len(node.output_dtypes)
                or ref.name in running
            ):
                return [None] * len(node.output_dtypes)
            running.add(ref.name)
            results = (
                infer_loop(body, given, self.ctx)
                if node.has_trait(WHILE)
                else infer_body(body, given, self.ctx)
            )
            running.discard(ref.name)
            found = (
                results
                if found is None
                else [a.relax(b) for a, b in zip(found, results, strict=True)]
            )
        for output, result in enumerate(found or ()):
            if result.items is not None:
                self.lists[node.name, output] = result.items
            if node.output_dtypes[output].name == "resource":
                self.resources.variables[node.name, output] = result.variable
        return None if found is None else [result.shape for result in found]

    def follow_lists(
        self, node: Node, inputs: list[Tensor], shapes: tuple[Shape, ...]
    ) -> tuple[Shape, ...]:
        """Propagate tensor lists, and return the output shapes.

        The shapes include the facts that follow from the list that is read.
        """
        if node.name in self.given:
            items = self.given[node.name].items
            if items is not None:
                self.lists[node.name, 0] = items
            return shapes
        lists = [self.lists.get(tensor) for tensor in inputs]

        def as_shape(index: int) -> Shape:
            src, output = inputs[index]
            return (
                self.static.as_shape(inputs[index])
                if len(self.shapes[src][output] or ()) == 1
                else None
            )

        made = list_made(
            node,
            lists,
            [self.shapes[src][output] for src, output in inputs],
            as_shape,
            lambda index: next(iter(self.static.elements(inputs[index]) or (None,))),
        )
        if made is not None:
            self.lists[node.name, 0] = made
        if not lists or lists[0] is None:
            return shapes
        if node.op == "TensorListLength" and lists[0].length is not None:
            self.static.record(node, 0, (lists[0].length,), ())
        # The op's own rule gives the shape that the reader requests, and nothing guarantees that
        # shape.
        known = element_read(
            node, lists[0], as_shape, lambda index: self.static.value(inputs[index]) is not None
        )
        return tuple(known.get(output, shape) for output, shape in enumerate(shapes))

    def merged(self, node: Node, known: Shape, found: Shape) -> Shape:
        if not shape_rules.is_compatible(known, found):
            self.report(node.name, f"was {known}, its inputs now make it {found}")
            return found
        return shape_rules.merge(known, found)
