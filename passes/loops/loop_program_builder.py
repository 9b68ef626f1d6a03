"""Build loop programs from structured control flow.

Bodies of While, If and calls are inlined as blocks of steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tfjit.framework.cooperative_yield import yielding
from tfjit.framework.op_defs import op_traits
from tfjit.framework.types import dtypes as d
from tfjit.kernels.ir.loop_program import CASE, IF, WHILE, Block, LoopProgram, Step, block_reads
from tfjit.kernels.registry import Unsupported
from tfjit.passes.analysis.argument_info import ArgumentInfo
from tfjit.passes.control_flow.specialize_regions import specialized_body
from tfjit.passes.ir.function_library import (
    SCALAR_PREDICATE,
    Function,
    indexed,
    passed_through,
)
from tfjit.passes.ir.region_path import branch_part
from tfjit.passes.loops.loop_program_cleanup import renumbered, without_dead_steps
from tfjit.passes.loops.loop_program_steps import write_op
from tfjit.passes.loops.loop_program_values import Hoisted, Operand, Outer, ProgramWriter, Scope
from tfjit.passes.manager.pass_context import LOOP_PROGRAM, PassContext

if TYPE_CHECKING:
    from tfjit.framework.op_defs.attrs import FuncRef
    from tfjit.passes.ir.dataflow_graph import DataflowGraph, Node

    Region = tuple[Node, str, FuncRef]  # a node, one of its parts, and that part's function

_MAX_DEPTH: Final = 12


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


class LoopBuilder:
    """Builds the program of one While node.

    Raises Unsupported with the reason where the loop does not qualify.
    """

    def __init__(self, graph: DataflowGraph, ctx: PassContext) -> None:
        self.graph = graph
        self.ctx = ctx
        self.library = graph.functions
        self.program = ProgramWriter(graph)
        self.depth = 0

    def build(self, node: Node, wanted: Sequence[int]) -> BuiltLoop:
        """Build the program of a While node.

        wanted: the outputs that are used.
        """
        writer = self.program
        operands = [writer.outside(src, output) for src, output in self.graph.inputs(node.name)]
        results = self._while(node, operands)
        outputs: list[int] = []
        found: dict[int, int | Outer] = {}
        for k in wanted:
            operand = results[k]
            if operand.outer is not None:
                found[k] = operand.outer
                continue
            value = writer.in_memory(operand)
            if value not in outputs:
                outputs.append(value)
            found[k] = outputs.index(value)
        if not outputs:
            raise Unsupported("no variable that changes in it is used")
        block = Block((), tuple(writer.scopes[0].steps), ())
        live = without_dead_steps(block, set(outputs))
        used = block_reads(live) | set(outputs)
        inputs = [v for v in writer.input_order if v in used]
        sources = dict(zip(writer.input_order, writer.inputs))
        reads = {
            a
            for step in live.all_steps()
            for a in (*step.args, *(r for inner in step.blocks for r in inner.results))
        } | set(outputs)
        constants = tuple(
            (v, array.reshape(-1)[0])
            for v, array in sorted(writer.constant_values.items())
            if v in reads
        )
        program = LoopProgram(
            tuple(writer.values), constants, tuple(inputs), live, tuple(outputs), title="loop"
        )
        return BuiltLoop(renumbered(program), [sources[v] for v in inputs], found, writer.hoisted)

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
            made = self._node(node, [operands[source] for source in graph.inputs(name)])
            for output, operand in enumerate(made):
                operands[name, output] = operand
        return [operands[graph.inputs(node.name)[0]] for node in indexed(graph, "_Retval").values()]

    def _node(self, node: Node, inputs: list[Operand]) -> Sequence[Operand]:
        if node.has_trait(op_traits.WHILE):
            return self._while(node, inputs)
        if node.has_trait(op_traits.IF | op_traits.CASE):
            return self._branches(node, inputs)
        if node.has_trait(op_traits.CALL):
            return self._call(node, inputs)
        return write_op(self.program, node, inputs)

    # ---- control

    def _truth(self, operand: Operand, name: str) -> int:
        """Return a scalar as the predicate of a branch or loop.

        Numbers other than zero are true.
        """
        if operand.size != 1:
            raise Unsupported(f"the condition of {name} has shape {list(operand.shape)}")
        if operand.dtype is d.bool:
            return operand.value
        result = self.program.new(d.bool, ())
        self.program.add(
            Step(
                "NotEqual",
                (operand.value, self.program.literal(0, operand.dtype)),
                (result,),
                name=name,
            )
        )
        return result

    def _body(self, region: Region, args: Sequence[Operand]) -> tuple[DataflowGraph, Function]:
        node, part, ref = region
        function = self.library.body(ref)
        if function.must_run:
            raise Unsupported(f"{function.must_run[0]} in {function.name} has effects")
        known = {k: self.program.known(x) for k, x in enumerate(args)}
        constants = {k: value for k, value in known.items() if value is not None}
        given = [ArgumentInfo(x.shape) for x in args]
        ctx = self.ctx.child(node.name, f"{part} ({LOOP_PROGRAM})")
        return specialized_body(function, given, constants, "body", ctx), function

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
        self.program.scopes.append(Scope())
        results = self._inline(graph, dict(enumerate(args)), function)
        given = finish(results)
        scope = self.program.scopes.pop()
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
                lambda found: [self.program.in_memory(x) for x in found],
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
            result = self.program.new(first.dtype, first.shape)
            numbers.append(result)
            kept.append(k)
            made.append(Operand(result, first.dtype, first.shape))
        blocks = [Block((), block.steps, tuple(block.results[k] for k in kept)) for block in blocks]
        self.program.add(
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
                x
                if k in unchanged
                else Operand(self.program.new(x.dtype, x.shape), x.dtype, x.shape)
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
            return [self.program.in_memory(found[k]) for k in carried]

        block, _ = self._block(
            (node, "body", body), given, next_values, [given[k].value for k in carried]
        )
        results = [self.program.new(inputs[k].dtype, inputs[k].shape) for k in carried]
        self.program.add(Step(WHILE, first, tuple(results), (), (condition, block), node.name))
        by_index = dict(zip(carried, results))
        return [
            x if k in unchanged else Operand(by_index[k], x.dtype, x.shape)
            for k, x in enumerate(inputs)
        ]
