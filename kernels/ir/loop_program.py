"""Describe loops and branches over scalars and elementwise arrays.

One generated kernel computes such a loop program. It is a block of steps in static single
assignment form. Values have numbers, valid in the block that defines them and in the blocks inside
it. Steps are elementwise ops, reductions of a whole array to a scalar, and control: `If`, `Case`
and `While` with inner blocks. Operands of an elementwise step have one element or as many as its
result; other broadcasts are made before the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from tfjit.framework.errors import InvalidArgumentError, OpError
from tfjit.framework.scalar import elementwise
from tfjit.kernels.ir.fused_group import node_suffix
from tfjit.kernels.registry import NodeSpec, TensorSpec, find_reference

IF: Final = "If"
CASE: Final = "Case"
WHILE: Final = "While"
FILL: Final = "Fill"
"""An array with the step's one argument in all elements."""
ELEMENT: Final = "Element"
"""The part of an array at an index of its first dimension."""
SET_ELEMENT: Final = "SetElement"
"""An array with one part, at an index of dim 0, replaced."""
CONTROL: Final = frozenset({IF, CASE, WHILE})
REDUCTIONS: Final = frozenset({"Sum", "Mean", "Max", "Min", "Prod", "All", "Any"})


@dataclass(frozen=True, slots=True)
class Step:
    """One operation of a program.

    op: an elementwise op type, one of REDUCTIONS, FILL, ELEMENT (args array and index), SET_ELEMENT
        (args array, index and part), or control:
        If     args (predicate: bool), blocks (then, else) each with as many results as the step
        Case   args (branch number: int32), blocks, the last for numbers outside the range
        While  args (first values), blocks (condition, body), each with a parameter an argument (an
               array argument may start with one value everywhere); no value leaves the body
               unchanged: unchanged values are read from outside
    args, results: value numbers.
    attrs: the attrs of the row's expression; for ELEMENT and SET_ELEMENT "failure", the message for
        an index out of range, with `{detail}` for the index.
    name: of the original node, for messages.
    """

    op: str
    args: tuple[int, ...]
    results: tuple[int, ...]
    attrs: tuple[tuple[str, Hashable], ...] = ()
    blocks: tuple[Block, ...] = ()
    name: str = ""


@dataclass(frozen=True, slots=True)
class Block:
    """Hold steps in order, with the block's parameters and results.

    The parameters are a loop's own.
    """

    params: tuple[int, ...]
    steps: tuple[Step, ...]
    results: tuple[int, ...]

    def all_steps(self) -> Iterator[Step]:
        """Yield every step in order, steps of inner blocks included."""
        for step in self.steps:
            yield step
            for block in step.blocks:
                yield from block.all_steps()


@dataclass(frozen=True)
class LoopProgram:
    """A block of steps with its inputs, outputs and constants.

    values: dtype and shape by number. constants: (number, value) of scalars known now. inputs,
    outputs: value numbers of the node's inputs and outputs. block: the steps. title: a description
    for people.
    """

    values: tuple[TensorSpec, ...]
    constants: tuple[tuple[int, Any], ...]
    inputs: tuple[int, ...]
    block: Block
    outputs: tuple[int, ...]
    title: str = ""

    @property
    def input_specs(self) -> tuple[TensorSpec, ...]:
        """Return dtype and shape of each input."""
        return tuple(self.values[v] for v in self.inputs)

    @property
    def output_specs(self) -> tuple[TensorSpec, ...]:
        """Return dtype and shape of each output."""
        return tuple(self.values[v] for v in self.outputs)

    def is_scalar(self, value: int) -> bool:
        """Return whether a value has one element and lives in a register."""
        return self.values[value].size == 1

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the nodes in it."""
        return tuple(dict.fromkeys(step.name for step in self.block.all_steps() if step.name))

    @property
    def ops(self) -> tuple[str, ...]:
        """Return the op types of all steps."""
        return tuple(step.op for step in self.block.all_steps())

    def run(self, inputs: Sequence[np.ndarray], poll: Poll | None = None) -> list[np.ndarray]:
        """Compute the outputs by reference kernels, iteration by iteration.

        Tests compare the kernel with these results. poll: called before each iteration of an
        outermost loop with the loop and its carried values; it may raise to stop. Raises
        InvalidArgumentError naming the node that fails.
        """
        return _Interpreter(self, poll).run(inputs)

    def resumed(self, step: Step) -> LoopProgram:
        """Return a program that continues a loop of the outermost block.

        Its inputs are the loop's values, then this program's inputs.
        """
        (at,) = (k for k, other in enumerate(self.block.steps) if other is step)
        first = len(self.values)
        values = (*self.values, *(self.values[p] for p in step.blocks[1].params))
        again = replace(step, args=tuple(range(first, len(values))))
        block = replace(
            self.block, steps=(*self.block.steps[:at], again, *self.block.steps[at + 1 :])
        )
        return replace(self, values=values, inputs=(*again.args, *self.inputs), block=block)

    def explain(self) -> str:
        """Return one line: operation counts, and an iteration's predicted time."""
        loops = sum(1 for step in self.block.all_steps() if step.op == WHILE)
        branches = sum(1 for step in self.block.all_steps() if step.op in (IF, CASE))
        plain = sum(1 for step in self.block.all_steps() if step.op not in CONTROL)
        parts = [f"{plain} operations", f"{loops} loop{'s' * (loops != 1)}"]
        if branches:
            parts.append(f"{branches} branch{'es' * (branches != 1)}")
        return (
            f"fused loop of {', '.join(parts)}: about {self.iteration_ns:.3g} ns an iteration "
            "on one thread"
        )

    @property
    def iteration_ns(self) -> float:
        """Return the predicted time of one iteration of the outermost loop.

        Inner loops count once, and every branch counts as taken.
        """

        def cost(block: Block) -> float:
            total = 0.0
            for step in block.steps:
                row = elementwise.lookup(step.op)
                each = row.cost_ns if row is not None else 0.05
                touched = (
                    step.results
                    if step.op == ELEMENT
                    else step.args[2:]
                    if step.op == SET_ELEMENT
                    else (*step.args, *step.results)
                )
                size = max((self.values[v].size for v in touched), default=1)
                # a scalar operation waits for its predecessor
                total += (
                    sum(map(cost, step.blocks))
                    if step.blocks
                    else each * size
                    if size > 1
                    else max(1.0, 5 * each)
                )
            return total

        return max(
            (
                cost(step.blocks[0]) + cost(step.blocks[1])
                for step in self.block.steps
                if step.op == WHILE
            ),
            default=0.0,
        )


Poll = Callable[[Step, list[np.ndarray]], None]


def free_values(step: Step) -> set[int]:
    """Return the outer values that a step and its inner blocks read."""
    found = set(step.args)
    for block in step.blocks:
        found |= block_reads(block)
    return found


def block_reads(block: Block) -> set[int]:
    """Return the outer values that a block's steps or results read."""
    own, found = set(block.params), set()
    for step in block.steps:
        found |= free_values(step) - own
        own.update(step.results)
    return found | (set(block.results) - own)


class _Interpreter:
    """Interpret a program by NumPy."""

    def __init__(self, program: LoopProgram, poll: Poll | None) -> None:
        self.program = program
        self.poll = poll
        self.depth = 0
        self.kernels: dict[int, Callable[[list[np.ndarray]], np.ndarray]] = {}

    def run(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        program = self.program
        values = {
            v: np.asarray(c, program.values[v].dtype.as_numpy_dtype).reshape(
                program.values[v].shape
            )
            for v, c in program.constants
        }
        values |= {v: np.asarray(x) for v, x in zip(program.inputs, inputs, strict=True)}
        with np.errstate(all="ignore"):
            self._block(program.block, values)
        return [np.asarray(values[v]).reshape(program.values[v].shape) for v in program.outputs]

    def _block(self, block: Block, values: dict[int, np.ndarray]) -> list[np.ndarray]:
        for step in block.steps:
            if step.op in CONTROL:
                results = self._control(step, values)
                values.update(zip(step.results, results, strict=True))
            else:
                kernel = self.kernels.get(id(step))
                if kernel is None:
                    kernel = self.kernels[id(step)] = self._kernel(step)
                values[step.results[0]] = kernel([values[a] for a in step.args])
        return [values[r] for r in block.results]

    def _control(self, step: Step, values: dict[int, np.ndarray]) -> list[np.ndarray]:
        args = [values[a] for a in step.args]
        if step.op == IF:
            return self._block(step.blocks[0 if args[0].reshape(-1)[0] else 1], values)
        if step.op == CASE:
            number = int(args[0].reshape(-1)[0])
            return self._block(
                step.blocks[number if 0 <= number < len(step.blocks) else -1], values
            )
        condition, body = step.blocks
        shapes = [self.program.values[p].shape for p in body.params]
        args = [
            np.broadcast_to(x.reshape(()), shape) if x.size == 1 else x.reshape(shape)
            for x, shape in zip(args, shapes)
        ]
        self.depth += 1
        while True:
            if self.poll is not None and self.depth == 1:
                self.poll(step, args)
            values.update(zip(condition.params, args, strict=True))
            if not self._block(condition, values)[0].reshape(-1)[0]:
                break
            values.update(zip(body.params, args, strict=True))
            args = self._block(body, values)
        self.depth -= 1
        return args

    def _kernel(self, step: Step) -> Callable[[list[np.ndarray]], np.ndarray]:
        program = self.program
        result = program.values[step.results[0]]
        if step.op == FILL:
            return lambda args: np.full(result.shape, args[0].reshape(-1)[0])
        if step.op in (ELEMENT, SET_ELEMENT):
            return self._indexed(step)
        specs = tuple(program.values[a] for a in step.args)
        row = elementwise.lookup(step.op)
        if (
            row is not None
            and row.error is None
            and all(s.shape == result.shape or s.shape == () for s in specs)
        ):
            function = row.reference
            attrs = {name: value for name, value in step.attrs if name in row.attrs}
            return lambda args: function(*args, **attrs)
        compute = find_reference(step.op)
        if compute is None:
            raise LookupError(f"{step.op} ({step.name}) has no reference kernel")
        spec = NodeSpec(step.name or step.op, step.op, dict(step.attrs), specs, (result,))
        axes = [np.arange(len(specs[0].shape), dtype=np.int32)] if step.op in REDUCTIONS else []
        # operands of one element broadcast, all others have the result's elements
        shapes = [s.shape if axes else () if s.size == 1 else result.shape for s in specs]

        def run(args: list[np.ndarray]) -> np.ndarray:
            try:
                (found,) = compute(spec, [x.reshape(s) for x, s in zip(args, shapes)] + axes)
            except OpError as error:
                raise error.restated(error.message + node_suffix(spec.name)) from error
            return np.asarray(found).reshape(result.shape)

        return run

    def _indexed(self, step: Step) -> Callable[[list[np.ndarray]], np.ndarray]:
        shape, result = (
            self.program.values[step.args[0]].shape,
            self.program.values[step.results[0]],
        )

        def run(args: list[np.ndarray]) -> np.ndarray:
            array, index = args[0].reshape(shape), int(args[1].reshape(-1)[0])
            if not 0 <= index < shape[0]:
                message = str(dict(step.attrs)["failure"]).format(detail=index)
                raise InvalidArgumentError(None, None, message + node_suffix(step.name or step.op))
            if step.op == ELEMENT:
                return array[index].reshape(result.shape)
            changed = array.copy()
            changed[index] = (
                args[2].reshape(shape[1:])
                if args[2].size == changed[index].size
                else args[2].reshape(())
            )
            return changed.reshape(result.shape)

        return run
