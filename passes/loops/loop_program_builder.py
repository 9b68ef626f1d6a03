"""Build loop programs from structured control flow.

Bodies of While, If and calls are inlined as blocks of steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tfjit.framework.cooperative_yield import yielding
from tfjit.framework.op_defs import op_traits
from tfjit.framework.scalar import elementwise
from tfjit.framework.types import dtypes as d
from tfjit.framework.types.dtypes import DType, as_dtype
from tfjit.kernels.ir.loop_program import (
    CASE,
    ELEMENT,
    FILL,
    IF,
    REDUCTIONS,
    SET_ELEMENT,
    WHILE,
    Block,
    LoopProgram,
    Step,
    block_reads,
)
from tfjit.kernels.registry import TensorSpec, Unsupported
from tfjit.passes.analysis.shape_inference import ArgumentInfo
from tfjit.passes.control_flow.specialize_regions import specialized_body
from tfjit.passes.ir.constant_value import constant_value
from tfjit.passes.ir.function_library import (
    SCALAR_PREDICATE,
    Function,
    indexed,
    passed_through,
)
from tfjit.passes.ir.region_path import branch_part
from tfjit.passes.manager.pass_context import LOOP_PROGRAM, PassContext

if TYPE_CHECKING:
    from tfjit.framework.op_defs.attrs import FuncRef
    from tfjit.passes.ir.dataflow_graph import DataflowGraph, Node

    Region = tuple[Node, str, FuncRef]  # a node, one of its parts, and that part's function

MAX_STEPS: Final = 400
"""A longer program takes seconds to compile."""
_MAX_DEPTH: Final = 12
_MAX_KNOWN: Final = 64
"""Most elements of a constant argument that a body is simplified for.

Axes and shapes are such arguments.
"""
_FILLS: Final = {"ZerosLike": 0, "OnesLike": 1}


@dataclass(frozen=True, slots=True)
class Outer:
    """A tensor of the graph around the loop.

    The tensor is an output of a node there, or of a node that is still to be made (`Hoisted`,
    output 0), or a constant.
    """

    node: str = ""
    output: int = 0
    hoisted: int = -1
    constant: np.ndarray | None = None


@dataclass(frozen=True, slots=True)
class Hoisted:
    """A node to be made before the loop.

    attrs: of the op. shape: of its output.
    """

    name: str
    op: str
    inputs: tuple[Outer, ...]
    attrs: Mapping[str, Any]
    dtype: DType
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor as the program sees it.

    value: number of the tensor; for a splat (an array of equal elements) the number of the element.
    shape: of the tensor. outer: the same tensor in the graph around the loop, if there is one.
    packed: the scalars of a vector made by Pack, for use as an index; such a vector has no value
    itself.
    """

    value: int
    dtype: DType
    shape: tuple[int, ...]
    splat: bool = False
    outer: Outer | None = None
    packed: tuple[Operand, ...] = ()

    @property
    def size(self) -> int:
        """Return the number of elements."""
        return prod(self.shape)


@dataclass(slots=True)
class BuiltLoop:
    """A program and its connections to the graph.

    program: the loop program. inputs: its input tensors. results: by output of the While, the
    program's output or the outside tensor with that value. hoisted: nodes to make first.
    """

    program: LoopProgram
    inputs: list[Outer]
    results: dict[int, int | Outer]
    hoisted: list[Hoisted]


@dataclass(slots=True)
class _Scope:
    """Steps of the block that is being written."""

    steps: list[Step] = field(default_factory=list)
    fills: dict[tuple[int, int], int] = field(default_factory=dict)  # (element, size) -> array


class LoopBuilder:
    """Builds the program of one While node.

    Raises Unsupported with the reason where the loop does not qualify.
    """

    def __init__(self, graph: DataflowGraph, ctx: PassContext) -> None:
        self.graph = graph
        self.ctx = ctx
        self.library = graph.functions
        self.values: list[TensorSpec] = []
        self.constants: dict[tuple[str, bytes, tuple[int, ...]], int] = {}
        self.constant_values: dict[int, np.ndarray] = {}
        self.inputs: list[Outer] = []
        self.input_values: dict[Any, int] = {}
        self.input_order: list[int] = []
        self.hoisted: list[Hoisted] = []
        self.hoisted_by: dict[Any, int] = {}
        self.scopes = [_Scope()]
        self.count = 0
        self.depth = 0

    def build(self, node: Node, wanted: Sequence[int]) -> BuiltLoop:
        """Build the program of a While node.

        wanted: the outputs that are used.
        """
        operands = [self._outside(src, output) for src, output in self.graph.inputs(node.name)]
        results = self._while(node, operands)
        outputs: list[int] = []
        found: dict[int, int | Outer] = {}
        for k in wanted:
            operand = results[k]
            if operand.outer is not None:
                found[k] = operand.outer
                continue
            value = self._in_memory(operand)
            if value not in outputs:
                outputs.append(value)
            found[k] = outputs.index(value)
        if not outputs:
            raise Unsupported("no variable that changes in it is used")
        block = Block((), tuple(self.scopes[0].steps), ())
        live = _without_dead_steps(block, set(outputs))
        used = block_reads(live) | set(outputs)
        inputs = [v for v in self.input_order if v in used]
        sources = dict(zip(self.input_order, self.inputs))
        constants = tuple(
            (v, self.constant_values[v].reshape(-1)[0]) for v in sorted(self.constant_values)
        )
        reads = {
            a
            for step in live.all_steps()
            for a in (*step.args, *(r for inner in step.blocks for r in inner.results))
        } | set(outputs)
        program = LoopProgram(
            tuple(self.values),
            tuple((v, c) for v, c in constants if v in reads),
            tuple(inputs),
            live,
            tuple(outputs),
            title="loop",
        )
        return BuiltLoop(renumbered(program), [sources[v] for v in inputs], found, self.hoisted)

    # ---- values

    def _new(self, dtype: DType, shape: Sequence[int]) -> int:
        self.values.append(TensorSpec(dtype.base_dtype, tuple(shape)))
        return len(self.values) - 1

    def _outside(self, src: str, output: int) -> Operand:
        """Return a tensor of the graph around the loop."""
        node = self.graph.node(src)
        value = constant_value(self.graph, src, output)
        if value is not None:
            return self._constant(np.asarray(value), Outer(src, output))
        return self._outer(
            Outer(src, output), node.output_dtypes[output].base_dtype, _static(node, output)
        )

    def _outer(self, outer: Outer, dtype: DType, shape: tuple[int, ...]) -> Operand:
        key = (
            outer.node,
            outer.output,
            outer.hoisted,
            id(outer.constant) if outer.constant is not None else 0,
        )
        if key not in self.input_values:
            value = self._new(dtype, shape)
            self.input_values[key] = value
            self.inputs.append(outer)
            self.input_order.append(value)
        return Operand(self.input_values[key], dtype.base_dtype, shape, outer=outer)

    def _constant(self, array: np.ndarray, outer: Outer | None = None) -> Operand:
        """Return a constant as an operand.

        The operand is a literal where all elements are equal, else a tensor outside.
        """
        dtype = as_dtype(array.dtype)
        shape = array.shape
        outer = outer or Outer(constant=array)
        flat = array.reshape(-1)
        if flat.size and (flat.size == 1 or flat.tobytes() == flat[:1].tobytes() * flat.size):
            return Operand(self._literal(flat[0], dtype), dtype, shape, flat.size > 1, outer)
        return self._outer(outer, dtype, shape)

    def _literal(self, value: Any, dtype: DType) -> int:
        array = np.asarray(value, dtype.as_numpy_dtype)
        key = (dtype.name, array.tobytes(), ())
        if key not in self.constants:
            made = self._new(dtype, ())
            self.constants[key] = made
            self.constant_values[made] = array
        return self.constants[key]

    def _in_memory(self, operand: Operand) -> int:
        """Return the number of a value with the operand's elements.

        A splat becomes an array.
        """
        if operand.packed:
            raise Unsupported("scalars packed into a vector are used as one")
        if not operand.splat:
            return operand.value
        scope = self.scopes[-1]
        key = (operand.value, operand.size)
        if key not in scope.fills:
            result = self._new(operand.dtype, operand.shape)
            self._add(Step(FILL, (operand.value,), (result,)))
            scope.fills[key] = result
        return scope.fills[key]

    def _add(self, step: Step) -> None:
        self.count += 1
        if self.count > MAX_STEPS:
            raise Unsupported(f"more than {MAX_STEPS} operations")
        self.scopes[-1].steps.append(step)

    # ---- graphs

    def _inline(
        self, graph: DataflowGraph, args: Mapping[int, Operand], function: Function
    ) -> list[Operand]:
        """Inline a body as steps of the block; return its results."""
        operands: dict[tuple[str, int], Operand] = {}
        for name in yielding(graph.topological_order()):
            node = graph.node(name)
            if node.op == "_Arg":
                operands[name, 0] = args[node.attrs["index"]]
                continue
            if node.op in ("_Retval", "NoOp"):
                continue
            made = self._node(graph, node, [operands[source] for source in graph.inputs(name)])
            for output, operand in enumerate(made):
                operands[name, output] = operand
        return [operands[graph.inputs(node.name)[0]] for node in indexed(graph, "_Retval").values()]

    def _node(self, graph: DataflowGraph, node: Node, inputs: list[Operand]) -> Sequence[Operand]:
        op = node.op
        if op == "Const":
            value = np.asarray(node.attrs["value"])
            if value.dtype == object:
                raise Unsupported(f"{node.name} is a string")
            return [self._constant(value)]
        if node.has_trait(op_traits.WHILE):
            return self._while(node, inputs)
        if node.has_trait(op_traits.IF | op_traits.CASE):
            return self._branches(node, inputs)
        if node.has_trait(op_traits.CALL):
            return self._call(node, inputs)
        if node.is_stateful:
            raise Unsupported(f"{node.name} ({op}) has effects")
        if op in ("StridedSlice", "GatherV2", "Gather", "_GetRow", "_SetRow"):
            found = self._indexed(node, inputs)
            if found is not None:
                return [found]
        if (
            op == "Pack"
            and all(x.shape == () for x in inputs)
            and any(x.outer is None for x in inputs)
        ):
            return [Operand(-1, inputs[0].dtype, (len(inputs),), packed=tuple(inputs))]
        if any(x.packed for x in inputs) and not node.has_trait(op_traits.IDENTITY):
            raise Unsupported(f"{node.name} ({op}) reads a vector made of scalars")
        if op == "IdentityN":
            return inputs
        if node.is_view:
            shape = _static(node, 0)
            outer = (
                inputs[0].outer if node.has_trait(op_traits.IDENTITY) else self._hoist(node, inputs)
            )
            return [replace(inputs[0], shape=shape, outer=outer)]
        if op in _FILLS:
            return [
                Operand(
                    self._literal(_FILLS[op], node.output_dtypes[0]),
                    node.output_dtypes[0],
                    _static(node, 0),
                    _many(node),
                )
            ]
        if op == "Fill" or (op in ("BroadcastTo", "Tile") and inputs[0].size == 1):
            source = inputs[1] if op == "Fill" else inputs[0]
            return [Operand(source.value, source.dtype, _static(node, 0), _many(node))]
        if elementwise.lookup(op) is not None:
            return [self._elementwise(node, inputs)]
        if op in REDUCTIONS:
            return [self._reduction(node, inputs)]
        outer = self._hoist(node, inputs)
        if outer is not None:
            return [self._outer(outer, node.output_dtypes[0], _static(node, 0))]
        raise Unsupported(f"{node.name} ({op}) is not elementwise")

    # ---- loop-invariant values

    def _hoist(self, node: Node, inputs: Sequence[Operand]) -> Outer | None:
        """Hoist a node before the loop, and return its output.

        None unless all of its inputs are outside the loop and the node may run early.
        """
        op = node.op
        if (
            not node.is_speculatable
            or len(node.output_dtypes) != 1
            or any(x.outer is None for x in inputs)
        ):
            return None
        sources = tuple(x.outer for x in inputs if x.outer is not None)
        key = (
            op,
            tuple(_outer_key(o) for o in sources),
            repr(sorted(node.attrs.items(), key=lambda item: item[0])),
        )
        if key not in self.hoisted_by:
            shape = _static(node, 0)
            attrs = {name: value for name, value in node.attrs.items() if not name.startswith("_")}
            self.hoisted_by[key] = len(self.hoisted)
            self.hoisted.append(
                Hoisted(node.name, op, sources, attrs, node.output_dtypes[0].base_dtype, shape)
            )
        return Outer(hoisted=self.hoisted_by[key])

    def _broadcast(self, operand: Operand, shape: tuple[int, ...], node: Node) -> Operand:
        """Return the operand of an elementwise step over `shape`.

        The operand has one element, or as many as the result.
        """
        if operand.size == prod(shape) or operand.size == 1 or operand.splat:
            return operand
        if operand.outer is None:
            raise Unsupported(
                f"{node.name} ({node.op}) repeats {list(operand.shape)}, which changes in the "
                f"loop, along {list(shape)}"
            )
        target = Outer(constant=np.array(shape, np.int32))
        key = ("BroadcastTo", _outer_key(operand.outer), shape)
        if key not in self.hoisted_by:
            self.hoisted_by[key] = len(self.hoisted)
            attrs = {"T": operand.dtype, "Tidx": d.int32}
            self.hoisted.append(
                Hoisted(
                    f"{node.name}/broadcast",
                    "BroadcastTo",
                    (operand.outer, target),
                    attrs,
                    operand.dtype,
                    shape,
                )
            )
        return self._outer(Outer(hoisted=self.hoisted_by[key]), operand.dtype, shape)

    # ---- steps

    def _elementwise(self, node: Node, inputs: list[Operand]) -> Operand:
        row = elementwise.lookup(node.op)
        assert row is not None
        shape, dtype = _broadcast_shape([x.shape for x in inputs]), node.output_dtypes[0].base_dtype
        size = prod(shape)
        if size > 1:
            outer = self._hoist(node, inputs)
            if outer is not None:
                return self._outer(outer, dtype, shape)
        if node.op == "Select" and inputs[0].size not in (1, size):
            raise Unsupported(f"{node.name} (Select) chooses whole rows")
        operands = [self._broadcast(x, shape, node) for x in inputs]
        attrs = tuple(
            (name, node.attrs[name])
            for name in dict.fromkeys((*row.attrs, row.result))
            if name in node.attrs
        )
        splat = size > 1 and all(x.splat or x.size == 1 for x in operands)
        result = self._new(dtype, () if splat else shape)
        self._add(Step(node.op, tuple(x.value for x in operands), (result,), attrs, name=node.name))
        return Operand(result, dtype, shape, splat)

    def _reduction(self, node: Node, inputs: list[Operand]) -> Operand:
        x, shape, dtype = inputs[0], _static(node, 0), node.output_dtypes[0].base_dtype
        outer = self._hoist(node, inputs)
        if outer is not None:
            return self._outer(outer, dtype, shape)
        if prod(shape) != 1:
            raise Unsupported(f"{node.name} ({node.op}) reduces some dimensions only")
        if x.size == 1:
            return replace(x, shape=shape, outer=None)
        if node.op in ("Sum", "Mean", "Prod") and dtype in (d.float16, d.bfloat16):
            raise Unsupported(f"{node.name} ({node.op}) of {dtype.name}")
        result = self._new(dtype, shape)
        self._add(Step(node.op, (self._in_memory(x),), (result,), (), name=node.name))
        return Operand(result, dtype, shape)

    def _indexed(self, node: Node, inputs: list[Operand]) -> Operand | None:
        """Return a part of an array at an index, or replace one.

        None for other slices.
        """
        array, op = inputs[0], node.op
        if op == "StridedSlice":
            masks = [
                node.attrs[f"{name}_mask"]
                for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
            ]
            index = inputs[1].packed[0] if len(inputs[1].packed) == 1 else None
            if index is None or masks != [0, 0, 0, 0, 1]:
                return None
            index = self._from_end(index, array.shape[0] if array.shape else 0)
            failure = "slice index {detail} of dimension 0 out of bounds."
        elif op in ("GatherV2", "Gather"):
            axis = self._known(inputs[2]) if op == "GatherV2" else np.zeros((), np.int32)
            if (
                inputs[1].shape != ()
                or axis is None
                or int(axis) != 0
                or node.attrs.get("batch_dims", 0)
                or array.shape == ()
            ):
                return None
            index, failure = inputs[1], f"indices = {{detail}} is not in [0, {array.shape[0]})"
        else:
            index, failure = inputs[1], bytes(node.attrs["message"]).decode()
        if array.outer is not None and index.outer is not None and op != "_SetRow":
            return None
        if array.size == 0 or not array.shape:
            raise Unsupported(f"{node.name} ({op}) of an array of shape {list(array.shape)}")
        attrs = (("failure", failure),)
        if op != "_SetRow":
            part = array.shape[1:]
            if array.splat:
                array = replace(array, value=self._in_memory(array), splat=False)
            result = self._new(array.dtype, part)
            self._add(Step(ELEMENT, (array.value, index.value), (result,), attrs, name=node.name))
            return Operand(result, array.dtype, part)
        if inputs[2].shape != array.shape[1:]:
            raise Unsupported(
                f"{node.name} ({op}) puts shape {list(inputs[2].shape)} into rows of "
                f"{list(array.shape[1:])}"
            )
        result = self._new(array.dtype, array.shape)
        self._add(
            Step(
                SET_ELEMENT,
                (self._in_memory(array), index.value, self._in_memory(inputs[2])),
                (result,),
                attrs,
                name=node.name,
            )
        )
        return Operand(result, array.dtype, array.shape)

    def _from_end(self, index: Operand, extent: int) -> Operand:
        """Return an index with negative values counted from the end."""
        negative, moved, chosen = (
            self._new(d.bool, ()),
            self._new(index.dtype, ()),
            self._new(index.dtype, ()),
        )
        self._add(Step("Less", (index.value, self._literal(0, index.dtype)), (negative,)))
        self._add(Step("AddV2", (index.value, self._literal(extent, index.dtype)), (moved,)))
        self._add(Step("SelectV2", (negative, moved, index.value), (chosen,)))
        return Operand(chosen, index.dtype, ())

    def _truth(self, operand: Operand, name: str) -> int:
        """Return a scalar as the predicate of a branch or loop.

        Numbers other than zero are true.
        """
        if operand.size != 1:
            raise Unsupported(f"the condition of {name} has shape {list(operand.shape)}")
        if operand.dtype is d.bool:
            return operand.value
        result = self._new(d.bool, ())
        self._add(
            Step("NotEqual", (operand.value, self._literal(0, operand.dtype)), (result,), name=name)
        )
        return result

    # ---- control

    def _body(self, region: Region, args: Sequence[Operand]) -> tuple[DataflowGraph, Function]:
        node, part, ref = region
        function = self.library.body(ref)
        if function.must_run:
            raise Unsupported(f"{function.must_run[0]} in {function.name} has effects")
        known = {k: self._known(x) for k, x in enumerate(args)}
        constants = {k: value for k, value in known.items() if value is not None}
        given = [ArgumentInfo(x.shape) for x in args]
        ctx = self.ctx.child(node.name, f"{part} ({LOOP_PROGRAM})")
        return specialized_body(function, given, constants, "body", ctx), function

    def _known(self, operand: Operand) -> np.ndarray | None:
        if operand.packed:
            return None
        found = self.constant_values.get(operand.value)
        if found is not None:
            return np.full(operand.shape, found)
        if operand.outer is None or operand.size > _MAX_KNOWN:
            return None
        if operand.outer.node:
            return constant_value(self.graph, operand.outer.node, operand.outer.output)
        return operand.outer.constant

    def _block(
        self,
        region: Region,
        args: Sequence[Operand],
        finish: Callable[[list[Operand]], list[int]],
        params: Sequence[int] = (),
    ) -> tuple[Block, list[Operand]]:
        """Return a body as a block, and its results.

        finish: returns the results of the block, and writes steps while the block is still open.
        """
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise Unsupported("functions call each other too deep")
        graph, function = self._body(region, args)
        self.scopes.append(_Scope())
        results = self._inline(graph, dict(enumerate(args)), function)
        given = finish(results)
        scope = self.scopes.pop()
        self.depth -= 1
        return Block(tuple(params), tuple(scope.steps), tuple(given)), results

    def _call(self, node: Node, inputs: list[Operand]) -> list[Operand]:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise Unsupported("functions call each other too deep")
        graph, function = self._body((node, "f", node.attrs["f"]), inputs)
        results = self._inline(graph, dict(enumerate(inputs)), function)
        self.depth -= 1
        return results

    def _branches(self, node: Node, inputs: list[Operand]) -> list[Operand]:
        one_of_two = node.has_trait(op_traits.IF)
        refs = (
            [node.attrs["then_branch"], node.attrs["else_branch"]]
            if one_of_two
            else list(node.attrs["branches"])
        )
        if one_of_two:
            if inputs[0].shape and node.attrs.get(SCALAR_PREDICATE):
                raise Unsupported(f"the condition of {node.name} has shape {list(inputs[0].shape)}")
            choice = self._truth(inputs[0], node.name)
        else:
            if inputs[0].size != 1:
                raise Unsupported(
                    f"the branch number of {node.name} has shape {list(inputs[0].shape)}"
                )
            choice = inputs[0].value
        blocks: list[Block] = []
        ends: list[list[Operand]] = []
        for number, ref in enumerate(refs):
            block, results = self._block(
                (node, branch_part(number, one_of_two), ref),
                inputs[1:],
                lambda found: [self._in_memory(x) for x in found],
            )
            blocks.append(block)
            ends.append(results)
        made: list[Operand] = []
        numbers: list[int] = []
        kept: list[int] = []
        for k, across in enumerate(zip(*ends)):
            first = across[0]
            if any(x.shape != first.shape for x in across):
                raise Unsupported(
                    f"the branches of {node.name} return shapes "
                    f"{', '.join(str(list(x.shape)) for x in across)}"
                )
            if all((x.value, x.splat) == (first.value, first.splat) for x in across):
                made.append(first)
                continue
            result = self._new(first.dtype, first.shape)
            numbers.append(result)
            kept.append(k)
            made.append(Operand(result, first.dtype, first.shape))
        blocks = [Block((), block.steps, tuple(block.results[k] for k in kept)) for block in blocks]
        self._add(
            Step(
                IF if one_of_two else CASE, (choice,), tuple(numbers), (), tuple(blocks), node.name
            )
        )
        return made

    def _while(self, node: Node, inputs: list[Operand]) -> list[Operand]:
        cond, body = node.attrs["cond"], node.attrs["body"]
        unchanged = passed_through(self.library.body(body).graph)
        carried = [k for k in range(len(inputs)) if k not in unchanged]
        if not carried:
            raise Unsupported(f"{node.name} carries no variable that changes")
        if any(inputs[k].packed for k in carried):
            raise Unsupported(f"{node.name} carries a vector made of scalars")
        first = tuple(inputs[k].value for k in carried)

        def params() -> list[Operand]:
            return [
                x if k in unchanged else Operand(self._new(x.dtype, x.shape), x.dtype, x.shape)
                for k, x in enumerate(inputs)
            ]

        asked = params()
        condition, _ = self._block(
            (node, "cond", cond),
            asked,
            lambda found: [self._truth(found[0], node.name)],
            [asked[k].value for k in carried],
        )
        given = params()

        def next_values(found: list[Operand]) -> list[int]:
            for k in carried:
                if found[k].shape != inputs[k].shape:
                    raise Unsupported(
                        f"loop variable {k} of {node.name} grows from {list(inputs[k].shape)} to "
                        f"{list(found[k].shape)}"
                    )
            return [self._in_memory(found[k]) for k in carried]

        block, _ = self._block(
            (node, "body", body), given, next_values, [given[k].value for k in carried]
        )
        results = [self._new(inputs[k].dtype, inputs[k].shape) for k in carried]
        self._add(Step(WHILE, first, tuple(results), (), (condition, block), node.name))
        by_index = dict(zip(carried, results))
        return [
            x if k in unchanged else Operand(by_index[k], x.dtype, x.shape)
            for k, x in enumerate(inputs)
        ]


def _outer_key(outer: Outer) -> Any:
    return (
        outer.node,
        outer.output,
        outer.hoisted,
        None
        if outer.constant is None
        else (outer.constant.dtype.str, outer.constant.shape, outer.constant.tobytes()),
    )


def _broadcast_shape(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    try:
        return tuple(np.broadcast_shapes(*shapes))
    except ValueError as error:
        raise Unsupported(str(error)) from error


def _many(node: Node) -> bool:
    return prod(_static(node, 0)) != 1


def _static(node: Node, output: int) -> tuple[int, ...]:
    shape = node.output_shapes[output]
    if shape is None or any(size is None for size in shape):
        raise Unsupported(
            f"the shape of {node.name}:{output} ({node.op}) is not known before it runs"
        )
    return tuple(int(size) for size in shape if size is not None)


def _without_dead_steps(block: Block, wanted: set[int]) -> Block:
    """Return the block without steps that have unused results.

    Steps that may fail count as used, since they report errors.
    """
    needed = set(wanted) | set(block.results)
    kept: list[Step] = []
    for step in reversed(block.steps):
        row = elementwise.lookup(step.op)
        fails = any(
            row is not None and row.error is not None
            for row in (
                row,
                *(elementwise.lookup(s.op) for b in step.blocks for s in b.all_steps()),
            )
        )
        if not fails and step.op != WHILE and not needed & set(step.results):
            continue
        blocks = tuple(_without_dead_steps(inner, set()) for inner in step.blocks)
        step = replace(step, blocks=blocks)
        kept.append(step)
        needed.update(step.args)
        for inner in blocks:
            needed |= block_reads(inner)
    return Block(block.params, tuple(reversed(kept)), block.results)


def renumbered(program: LoopProgram) -> LoopProgram:
    """Return the program with values numbered in order of appearance.

    Equal loops then have one text.
    """
    numbers: dict[int, int] = {}

    def of(value: int) -> int:
        return numbers.setdefault(value, len(numbers))

    def rewritten(block: Block) -> Block:
        params = tuple(of(p) for p in block.params)
        steps = []
        for step in block.steps:
            args = tuple(of(a) for a in step.args)
            blocks = tuple(rewritten(inner) for inner in step.blocks)
            steps.append(
                replace(step, args=args, blocks=blocks, results=tuple(of(r) for r in step.results))
            )
        return Block(params, tuple(steps), tuple(of(r) for r in block.results))

    inputs = tuple(of(v) for v in program.inputs)
    block = rewritten(program.block)
    outputs = tuple(of(v) for v in program.outputs)
    constants = tuple(sorted((of(v), c) for v, c in program.constants))
    order = sorted(numbers, key=numbers.__getitem__)
    return replace(
        program,
        values=tuple(program.values[v] for v in order),
        constants=constants,
        inputs=inputs,
        block=block,
        outputs=outputs,
    )
