"""Infer static shapes and small static values.

They follow from the feeds, constants and variables of a run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from tfjit.framework.cooperative_yield import yielding
from tfjit.framework.errors import InternalError, InvalidArgumentError
from tfjit.framework.op_defs.attrs import FuncRef
from tfjit.framework.op_defs.op_registry import infer_shapes as shapes_by_op
from tfjit.framework.op_defs.op_registry import registry
from tfjit.framework.op_defs.op_traits import CALL, CASE, IF, MERGE, NEXT_ITERATION, RESHAPE, WHILE
from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.framework.types import shape as shape_rules
from tfjit.framework.types.shape import Shape, TensorShape
from tfjit.passes.analysis.constant_evaluation import NotEvaluated, can_evaluate, evaluate
from tfjit.passes.analysis.list_shapes import ListShape, element_read, list_made
from tfjit.passes.ir.constant_value import constant_value
from tfjit.passes.ir.dataflow_graph import DataflowGraph, Node
from tfjit.passes.ir.function_library import Function, indexed
from tfjit.passes.manager.pass_context import PassContext
from tfjit.passes.manager.pass_registry import SHAPES

# values that set shapes are small; larger constants are for folding
MAX_VALUE_ELEMENTS: Final = 1024
TABLE_OPS: Final = frozenset(
    {"HashTable", "MutableHashTable", "MutableHashTableOfTensors", "MutableDenseHashTable"}
)
QUEUE_OPS: Final = frozenset({"FIFOQueue", "PaddingFIFOQueue", "RandomShuffleQueue"})
_MAX_ROUNDS: Final = 4  # then loop variables with changing shapes get unknown shapes

Tensor = tuple[str, int]


@dataclass(frozen=True, slots=True)
class ArgumentInfo:
    """Static facts about an argument or a result of a body.

    variable: the shape of the variable behind a resource; None is an unknown shape. items: of a
    tensor list.
    """

    shape: Shape
    variable: Shape = None
    value: np.ndarray | None = None
    items: ListShape | None = None

    def relax(self, other: ArgumentInfo) -> ArgumentInfo:
        """Return the facts that hold for both; the value stays."""
        items = self.items.relax(other.items) if self.items is not None else None
        variable = shape_rules.relax(self.variable, other.variable)
        return replace(
            self, shape=shape_rules.relax(self.shape, other.shape), variable=variable, items=items
        )


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
                inference.handles.get((src, output)),
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


def copy_with_arguments(function: Function, given: Sequence[ArgumentInfo]) -> DataflowGraph:
    """Return a copy of a function's graph with known arguments.

    `infer_shapes` starts from them. given: in the order of the arguments.
    """
    graph = function.graph.copy()
    graph.functions = function.graph.functions.child()
    graph.graph["given"] = {
        node.name: given[index] for index, node in indexed(graph, "_Arg").items()
    }
    return graph


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
    ctx.values.update(inference.values)
    ctx.handles.clear()
    ctx.handles.update(inference.handles)
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
        self.reported: set[str] = set()
        self.run_state()

    def run_state(self) -> None:
        self.shapes: dict[str, tuple[Shape, ...]] = {}
        self.values: dict[Tensor, np.ndarray] = {}
        # elements of an integer vector or scalar, None where unknown
        self.partial: dict[Tensor, tuple[int | None, ...]] = {}
        self.handles: dict[Tensor, Shape] = {}  # shape of the variable behind a resource
        self.lists: dict[Tensor, ListShape] = {}
        # rank of a key and shape of a value of the lookup table behind a handle
        self.tables: dict[Tensor, tuple[int, Shape]] = {}
        self.queues: dict[Tensor, tuple[Shape, ...]] = {}  # shapes of an element's components

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

    def value(self, tensor: Tensor) -> np.ndarray | None:
        """Return the array of a Const or of a static value."""
        known = self.values.get(tensor)
        return known if known is not None else constant_value(self.graph, *tensor)

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
        self.follow_handles(node, inputs)
        self.follow_values(node, inputs, merged)

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
        if node.op == "ReadVariableOp" and inputs[0] in self.handles:
            return (self.merged(node, known[0], self.handles[inputs[0]]),)
        if node.op in ("ResourceGather", "ResourceGatherNd"):
            indices = self.shapes[inputs[1][0]][inputs[1][1]]
            rows = _gathered(node, self.handles.get(inputs[0]), indices)
            return (self.merged(node, known[0], rows),)
        if node.op == "VariableShape" and self.handles.get(inputs[0]) is not None:
            return (self.merged(node, known[0], (len(self.handles[inputs[0]] or ()),)),)
        if node.op in ("LookupTableFind", "LookupTableFindV2") and inputs[0] in self.tables:
            rank, value_shape = self.tables[inputs[0]]
            keys = self.shapes[inputs[1][0]][inputs[1][1]]
            values = (
                None
                if keys is None or value_shape is None
                else (*keys[: len(keys) - rank], *value_shape)
            )
            return (self.merged(node, known[0], values),)
        if node.op in ("QueueDequeueV2", "QueueDequeueManyV2") and inputs[0] in self.queues:
            elements = self.queues[inputs[0]]
            if len(elements) == len(known):
                batch = (self.elements(inputs[1]) or (None,)) if len(inputs) > 1 else ()
                return tuple(
                    self.merged(node, old, None if new is None else (*batch, *new))
                    for old, new in zip(known, elements, strict=True)
                )
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
            lambda index: self.value(inputs[index]),
            lambda index: self.partial_vector(inputs[index]),
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
                self.handles.get((src, output)),
                self.small(src, output),
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
                self.handles[node.name, output] = result.variable
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
                self.partial_vector(inputs[index])
                if len(self.shapes[src][output] or ()) == 1
                else None
            )

        made = list_made(
            node,
            lists,
            [self.shapes[src][output] for src, output in inputs],
            as_shape,
            lambda index: next(iter(self.elements(inputs[index]) or (None,))),
        )
        if made is not None:
            self.lists[node.name, 0] = made
        if not lists or lists[0] is None:
            return shapes
        if node.op == "TensorListLength" and lists[0].length is not None:
            self.record_value(node, 0, (lists[0].length,), ())
        # The op's own rule gives the shape that the reader requests, and nothing guarantees that
        # shape.
        known = element_read(
            node, lists[0], as_shape, lambda index: self.value(inputs[index]) is not None
        )
        return tuple(known.get(output, shape) for output, shape in enumerate(shapes))

    def small(self, name: str, output: int) -> np.ndarray | None:
        """Return the value of a tensor that may set shapes."""
        value = self.value((name, output))
        return (
            value
            if value is not None and value.dtype.kind in "biu" and value.size <= MAX_VALUE_ELEMENTS
            else None
        )

    def merged(self, node: Node, known: Shape, found: Shape) -> Shape:
        if not shape_rules.is_compatible(known, found):
            self.report(node.name, f"was {known}, its inputs now make it {found}")
            return found
        return shape_rules.merge(known, found)

    def report(self, name: str, reason: str) -> None:
        if name not in self.reported:
            self.reported.add(name)
            self.ctx.log(name, reason)

    def follow_handles(self, node: Node, inputs: list[Tensor]) -> None:
        """Propagate the shapes of resource variables and lookup tables along handle edges."""
        if node.op == "VarHandleOp":
            shape = node.attrs.get("shape")
            if isinstance(shape, TensorShape):
                self.handles[node.name, 0] = shape.dims_tuple
        elif node.name in self.given:
            if node.output_dtypes[0].name == "resource":
                self.handles[node.name, 0] = self.given[node.name].variable
        elif node.op.removesuffix("V2") in TABLE_OPS:
            marks = self.shapes[inputs[0][0]][inputs[0][1]] if inputs else ()
            value = node.attrs.get("value_shape")
            if marks is not None:
                self.tables[node.name, 0] = (
                    len(marks),
                    value.dims_tuple if isinstance(value, TensorShape) else (),
                )
        elif node.op.removesuffix("V2") in QUEUE_OPS:
            self.queues[node.name, 0] = tuple(
                shape.dims_tuple for shape in node.attrs.get("shapes", ())
            )
        elif node.op in ("Identity", "RefIdentity", "Enter", "Switch", "Exit", "NextIteration"):
            for output in range(len(node.output_dtypes)):
                if inputs[0] in self.handles:
                    self.handles[node.name, output] = self.handles[inputs[0]]
                if inputs[0] in self.tables:
                    self.tables[node.name, output] = self.tables[inputs[0]]
                if inputs[0] in self.queues:
                    self.queues[node.name, output] = self.queues[inputs[0]]

    def follow_values(self, node: Node, inputs: list[Tensor], shapes: tuple[Shape, ...]) -> None:
        """Compute the values of small integer outputs, fully or by element."""
        if node.name in self.given:
            value = self.given[node.name].value
            if value is not None:
                self.values[node.name, 0] = value
            return
        if node.op in ("Shape", "ShapeN"):
            for output, tensor in enumerate(inputs):
                shape = self.shapes[tensor[0]][tensor[1]]
                if shape is not None:
                    self.record_value(node, output, shape, (len(shape),))
            return
        if node.op == "VariableShape":
            variable = self.handles.get(inputs[0])
            if variable is not None:
                self.record_value(node, 0, variable, (len(variable),))
            return
        if node.op in ("Size", "Rank"):
            shape = self.shapes[inputs[0][0]][inputs[0][1]]
            number = (
                shape_rules.num_elements(shape)
                if node.op == "Size"
                else None
                if shape is None
                else len(shape)
            )
            if number is not None:
                self.record_value(node, 0, (number,), ())
            return
        if (
            len(node.output_dtypes) != 1
            or not (node.output_dtypes[0].is_integer or node.output_dtypes[0].is_bool)
            or not inputs
        ):
            return
        operands = [self.value(tensor) for tensor in inputs]
        values = [value for value in operands if value is not None]
        if len(values) == len(operands):
            total = shape_rules.num_elements(shapes[0])
            small = (
                total is not None
                and total <= MAX_VALUE_ELEMENTS
                and sum(value.size for value in values) <= 4 * MAX_VALUE_ELEMENTS
            )
            if small and can_evaluate(node):
                try:
                    self.values[node.name, 0] = evaluate(node, values)[0]
                except NotEvaluated as reason:
                    self.report(node.name, f"value unknown: {reason}")
            return
        elements = self.partial_elements(node, inputs, operands)
        if elements is not None:
            self.partial[node.name, 0] = elements

    def record_value(
        self, node: Node, output: int, elements: tuple[int | None, ...], shape: tuple[int, ...]
    ) -> None:
        """Record an integer output by its elements.

        Elements that are all known make a value, unless the value does not fit the dtype: the run
        reports that.
        """
        self.partial[node.name, output] = elements
        if None in elements:
            return
        numpy_type = node.output_dtypes[output].as_numpy_dtype
        limits = np.iinfo(numpy_type)
        if all(limits.min <= element <= limits.max for element in elements if element is not None):
            value = np.array(elements, dtype=numpy_type).reshape(shape)
            value.setflags(write=False)
            self.values[node.name, output] = value

    def elements(self, tensor: Tensor) -> tuple[int | None, ...] | None:
        """Return the elements of an integer scalar or vector, None where unknown.

        Return None when nothing is known about the tensor.
        """
        found = self.partial.get(tensor)
        if found is not None:
            return found
        value = self.value(tensor)
        if (
            value is not None
            and value.ndim <= 1
            and value.dtype.kind in "iu"
            and value.size <= MAX_VALUE_ELEMENTS
        ):
            return tuple(value.reshape(-1).tolist())
        shape = self.shapes[tensor[0]][tensor[1]]
        if shape is not None and len(shape) <= 1 and None not in shape:
            count = shape_rules.num_elements(shape)
            if count is not None and count <= MAX_VALUE_ELEMENTS:
                return (None,) * count
        return None

    def partial_vector(self, tensor: Tensor) -> Shape:
        """Return an integer vector as a shape: negative and unknown are None."""
        found = self.elements(tensor)
        return (
            None
            if found is None
            else tuple(None if size is None or size < 0 else size for size in found)
        )

    def partial_elements(
        self, node: Node, inputs: list[Tensor], operands: list[np.ndarray | None]
    ) -> tuple[int | None, ...] | None:
        """Return the partly known elements of a vector or scalar output.

        The op only moves or combines integers.
        """
        op = node.op
        if node.has_trait(RESHAPE):
            rank = self.shapes[node.name][0]
            found = self.elements(inputs[0])
            return found if found is not None and rank is not None and len(rank) <= 1 else None
        if node.is_view or op == "Cast":
            return self.elements(inputs[0]) if node.input_dtypes[0].is_integer else None
        if op == "Pack" and node.attrs["axis"] in (0, -1):
            parts = [self.elements(tensor) for tensor in inputs]
            if any(part is None or len(part) != 1 for part in parts) or any(
                self.shapes[src][output] != () for src, output in inputs
            ):
                return None
            return tuple(part[0] for part in parts if part)
        if op in ("ConcatV2", "Concat"):
            axis, rest = (inputs[-1], inputs[:-1]) if op == "ConcatV2" else (inputs[0], inputs[1:])
            parts = [self.elements(tensor) for tensor in rest]
            if self.value(axis) is None or any(part is None for part in parts):
                return None
            if any(len(self.shapes[src][output] or ()) != 1 for src, output in rest):
                return None
            return tuple(size for part in parts if part is not None for size in part)
        if op == "StridedSlice":
            return self.sliced(node, inputs, operands)
        if op == "Slice":
            found = self.elements(inputs[0])
            begin, size = operands[1], operands[2]
            if (
                found is None
                or begin is None
                or size is None
                or begin.size != 1
                or len(self.shapes[inputs[0][0]][inputs[0][1]] or ()) != 1
            ):
                return None
            first, count = int(begin.reshape(-1)[0]), int(size.reshape(-1)[0])
            return found[first:] if count == -1 else found[first : first + count]
        if op in ("Gather", "GatherV2"):
            found, index = self.elements(inputs[0]), operands[1]
            if (
                found is None
                or index is None
                or index.ndim > 1
                or len(self.shapes[inputs[0][0]][inputs[0][1]] or ()) != 1
            ):
                return None
            picked = [int(i) for i in index.reshape(-1)]
            return (
                tuple(found[i] for i in picked)
                if all(0 <= i < len(found) for i in picked)
                else None
            )
        if op in _INTEGER_MATH:
            return self.combined(node, inputs)
        return None

    def sliced(
        self, node: Node, inputs: list[Tensor], operands: list[np.ndarray | None]
    ) -> tuple[int | None, ...] | None:
        """Return the elements of vector[begin:end:stride] or vector[i]."""
        found = self.elements(inputs[0])
        begin, end, strides = operands[1:4]
        if found is None or begin is None or end is None or strides is None or begin.size != 1:
            return None
        if (
            len(self.shapes[inputs[0][0]][inputs[0][1]] or ()) != 1
            or node.attrs["ellipsis_mask"]
            or node.attrs["new_axis_mask"]
        ):
            return None
        first, last, step = (int(bound.reshape(-1)[0]) for bound in (begin, end, strides))
        if node.attrs["shrink_axis_mask"]:
            return (found[first],) if -len(found) <= first < len(found) else None
        if step == 0:
            return None
        return found[
            None if node.attrs["begin_mask"] else first : None
            if node.attrs["end_mask"]
            else last : step
        ]

    def combined(self, node: Node, inputs: list[Tensor]) -> tuple[int | None, ...] | None:
        """Return elementwise integer arithmetic of scalars and vectors."""
        left, right = self.elements(inputs[0]), self.elements(inputs[1])
        if (
            left is None
            or right is None
            or (len(left) != len(right) and 1 not in (len(left), len(right)))
        ):
            return None
        shape = self.shapes[node.name][0]
        if shape is None or len(shape) > 1:
            return None
        count = max(len(left), len(right)) if left and right else 0
        left = left * count if len(left) == 1 else left
        right = right * count if len(right) == 1 else right
        rule = _INTEGER_MATH[node.op]
        return tuple(rule(x, y) for x, y in zip(left, right))


def _multiply(x: int | None, y: int | None) -> int | None:
    if x == 0 or y == 0:
        return 0
    return None if x is None or y is None else x * y


_INTEGER_MATH: Final = {
    "Add": lambda x, y: None if x is None or y is None else x + y,
    "AddV2": lambda x, y: None if x is None or y is None else x + y,
    "Sub": lambda x, y: None if x is None or y is None else x - y,
    "Mul": _multiply,
    "FloorDiv": lambda x, y: None if x is None or not y else x // y,
    "Maximum": lambda x, y: None if x is None or y is None else max(x, y),
    "Minimum": lambda x, y: None if x is None or y is None else min(x, y),
}

_NOTHING: Final = object()


def _gathered(node: Node, variable: Shape, indices: Shape) -> Shape:
    """Return the shape of a variable's rows at indices.

    It is None where the shape is open.
    """
    if variable is None or indices is None:
        return None
    if node.op == "ResourceGatherNd":
        depth = indices[-1] if indices else None
        if depth is None or depth > len(variable):
            return None
        return (*indices[:-1], *variable[depth:])
    batch = int(node.attrs.get("batch_dims", 0))
    batch += len(indices) if batch < 0 else 0
    if not 0 <= batch <= len(indices) or batch >= len(variable):
        return None
    return (*variable[:batch], *indices[batch:], *variable[batch + 1 :])
