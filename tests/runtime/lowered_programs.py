"""Parse texts to partitions for tests of the pure deciders.

Nothing here runs.
"""

from __future__ import annotations

import difflib
import itertools
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import tfjit.kernels.cpu
import tfjit.ops  # noqa: F401  (registers every op)
from tfjit.kernels.registry import Launch, NativeCall, Pointer
from tfjit.kernels.source import KernelSource
from tfjit.passes.analysis.shape_inference import infer_shapes
from tfjit.passes.control_flow.specialize_regions import specialize_bodies
from tfjit.passes.ir.dataflow_graph import Node
from tfjit.passes.manager.pass_context import PassContext, PassOptions
from tfjit.passes.manager.pipeline_spec import Pipeline
from tfjit.passes.text.text_format import parse_graph
from tfjit.runtime.lowering.lowered import Instruction, Lowered, Value
from tfjit.runtime.lowering.lowered_parser import parse_lowered
from tfjit.runtime.lowering.lowered_text import print_lowered
from tfjit.runtime.lowering.lowering import lower
from tfjit.runtime.lowering.verifier import verify_lowered
from tfjit.runtime.resources.variables_and_resources import Variable
from tfjit.runtime.step.layout import Layout
from tfjit.runtime.step.step import StepEnvironment

EVERYTHING = """
    lowered feeds=3 body
    %0 = const 'k' int32<2>[3, 2]
    %1: bool<> = feed 0 'p'
    %2: float32<2,3> = feed 2 'x'
    %3: float32<6> = handle 'v' resource of 'weights'
    %4: float32<6> = handle 'u' uninitialised
    %5: float32<6> = read %3 'v/Read'
    %7: float32<2,3>, %8: float32<2,3> = reference 'pair' SplitV(%2, %0, %0, num_split=2)
    branch 'b' Case %0
        %9: float32<2,3> = move 'b' %7
    case
        %10: bool<> level=1 from 'l' = move 'b' %1 in 'b/branch_1'
        loop 'l' While changes variables
        test %10
            %6: float32<2,3> = view %5 'seen'
            %11: float32<2,3> = reference 'n' _Loop(%6, program=loop {
                'loop' (%0: float32<2,3>)
                %1: float32<2,3> = 'n' Neg(%0, T=float32)
                give %1
            })
            runtime 'a' AssignVariableOp(%3, %11)
        repeat
        %9 = move 'b' %8
    join
    %4 = runtime 'c' Assign(%4, %5)
    %12: float32<6> = read_at_end %4 'u'
    fetch %9, %12
"""
"""A text with all parts that a lowered partition may have."""


def variables_of() -> Callable[[Node], Variable]:
    """Map the names of nodes to variables.

    A variable is made when it is first asked for.
    """
    made: dict[str, Variable] = {}

    def find(node: Node) -> Variable:
        if node.name not in made:
            dtype, shape = node.attrs["dtype"], node.attrs["shape"].dims_tuple
            is_resource = node.op == "VarHandleOp"
            made[node.name] = Variable("localhost", node.name, dtype, shape, is_resource)
        return made[node.name]

    return find


def lowered_from(text: str, feeds: int = 0) -> Lowered:
    """Return the partition that a graph's text becomes.

    Shapes are in the text or follow from it.
    """
    graph = parse_graph(textwrap.dedent(text))
    ctx = PassContext(options=PassOptions(pipeline=Pipeline.default().without("fuse")))
    infer_shapes(graph, ctx)
    specialize_bodies(graph, ctx)
    made = lower(graph, variables_of(), feeds)
    verify_lowered(made)
    return made


def read(text: str) -> Lowered:
    """The partition of a text, verified."""
    made = parse_lowered(textwrap.dedent(text).strip())
    verify_lowered(made)
    return made


def check_text(lowered: Lowered, expected: str) -> None:
    """Compare a partition with its text, and the text with its parse."""
    found = print_lowered(lowered, kernels=False)
    wanted = textwrap.dedent(expected).strip() + "\n"
    assert found == wanted, "\n".join(
        difflib.unified_diff(
            wanted.splitlines(), found.splitlines(), "expected", "found", lineterm=""
        )
    )
    assert print_lowered(parse_lowered(found), kernels=False) == found


def compiled(
    lowered: Lowered,
    in_place: Mapping[str, Sequence[tuple[int, int]]] | None = None,
    without: Sequence[str] = (),
) -> dict[int, NativeCall]:
    """Return calls for all instructions but nodes in `without`.

    in_place: pairs of a node's output and input.
    """
    pairs = in_place or {}
    return {
        id(instruction): NativeCall((), tuple(pairs.get(instruction.node.name, ())))
        for instruction in lowered.instructions
        if instruction.role is None and instruction.node.name not in without
    }


def node(lowered: Lowered, name: str) -> Instruction:
    """The instruction of a node."""
    (found,) = (
        i
        for i in lowered.instructions
        if i.node.name == name and i.serving != "copy" and not i.role
    )
    return found


def schedule(lowered: Lowered) -> list[tuple[Instruction]]:
    """The instructions one at a time."""
    return [(instruction,) for instruction in lowered.instructions]


def names(values: Sequence[Value]) -> list[str]:
    """Values as a text has them."""
    return [f"%{value.index}" for value in values]


class _Addresses(Mapping[str, int]):
    """An address for each entry, as if it were compiled."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __getitem__(self, entry: str) -> int:
        return self.number

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


def layout(
    made: Lowered,
    python: Sequence[str] = (),
    in_place: Sequence[str] = (),
    temp_bytes: Mapping[str, int] | None = None,
    missing: Sequence[str] = (),
) -> Layout:
    """Return the layout of a partition with compiled nodes.

    All nodes but those in `python` are compiled.

    in_place: nodes that may write over their first input. temp_bytes: scratch memory by node.
    missing: nodes whose code is not loaded.
    """
    for instruction in made.instructions:
        name = instruction.node.name
        if instruction.role is not None or name in python:
            continue
        temps = (temp_bytes or {}).get(name)
        words = [Pointer("in", k) for k in range(len(instruction.inputs))]
        words += [Pointer("out", k) for k in range(len(instruction.outputs))]
        words += [Pointer("temp", 0)] if temps else []
        launch = Launch(KernelSource(f"# {name}"), (7, *words))
        instruction.call = NativeCall(
            (launch,), ((0, 0),) if name in in_place else (), (temps,) if temps else ()
        )
    numbers = itertools.count(100)
    known: dict[KernelSource, _Addresses] = {}

    def addresses(source: KernelSource) -> Mapping[str, int] | None:
        if source.text.removeprefix("# ") in missing:
            return None
        return known.setdefault(source, _Addresses(next(numbers)))

    nothing: Any = None
    env = StepEnvironment(nothing, nothing, lambda: None, 1, nothing, nothing, addresses)
    return Layout(made, env)
