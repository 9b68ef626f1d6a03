"""Predict the time that kernels save, and order kernels by it.

The times are rough. They decide which kernel is compiled first and whether a first run waits for
its calls; no value depends on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from tfjit.framework.cooperative_yield import yield_interpreter, yielding
from tfjit.framework.op_defs.op_registry import registry
from tfjit.framework.op_defs.op_traits import MATRIX_PRODUCT
from tfjit.kernels.registry import NodeSpec, TensorSpec
from tfjit.passes.fusion.fused_group_builder import anchor_flops
from tfjit.runtime.lowering.lowering import compilable
from tfjit.runtime.schedule.compile_cost import Meanwhile, MissingKernel
from tfjit.runtime.schedule.kernel_selection import all_calls, gain_ns, group_of, is_small, sources
from tfjit.runtime.schedule.loop_parallelization import calls_of

if TYPE_CHECKING:
    from tfjit.kernels.registry import NativeCall
    from tfjit.kernels.source import KernelSource
    from tfjit.passes.ir.dataflow_graph import DataflowGraph, Node
    from tfjit.runtime.lowering.lowered import Instruction, Lowered

CALL_NS: Final = 5000.0
"""Time of a reference kernel's call, whatever its work."""
NODE_NS: Final = 50_000.0
"""Time of a node in the dataflow executor, whatever its work."""
_NS_PER_BYTE: Final = 0.4
_UNIFORM_NS_PER_BYTE: Final = 7.0
_NORMAL_NS_PER_BYTE: Final = 30.0
_FLOPS_PER_NS: Final = 20.0  # of convolutions; references multiply matrices as fast as kernels
_ITERATIONS: Final = 10  # assumed of each loop

Loaded = Callable[["KernelSource"], bool]
"""Return whether a kernel is loaded."""


def reference_ns(instruction: Instruction) -> float:
    """Return the predicted time of an instruction's reference kernel in a run.

    The time of matrix products, which compiled code does not save, is left out.
    """
    group = group_of(instruction.spec)
    if group is None:
        ns = CALL_NS + _work_ns(instruction.spec)
    else:
        ns = CALL_NS * len(group.members) + sum(_work_ns(m.spec) for m in group.members)
    return ns * _iterations(instruction)


def _iterations(instruction: Instruction) -> int:
    """Return the assumed number of executions of an instruction in a run."""
    return 1 if instruction.construct is None else _ITERATIONS**instruction.construct.level


def _work_ns(spec: NodeSpec) -> float:
    rate = _NS_PER_BYTE
    if registry.family_name(spec.op).startswith("random_values."):
        rate = _NORMAL_NS_PER_BYTE if "Normal" in spec.op else _UNIFORM_NS_PER_BYTE
    ns = rate * sum(t.nbytes for t in (*spec.inputs, *spec.outputs))
    if not spec.has_trait(MATRIX_PRODUCT) and all(t.shape for t in spec.inputs):
        ns += anchor_flops(spec) / _FLOPS_PER_NS
    return ns


def loaded_share(instructions: Iterable[Instruction], loaded: Loaded) -> float:
    """Return the predicted share of the references' time that loaded kernels serve."""
    ready = whole = 0.0
    for instruction in instructions:
        ns = reference_ns(instruction)
        whole += ns
        if loaded_call(instruction, loaded) is not None:
            ready += ns
    return ready / whole if whole else 0.0


def loaded_call(instruction: Instruction, loaded: Loaded) -> NativeCall | None:
    """Return the loaded call of an instruction, or its members' loaded call."""
    for call in (instruction.call, instruction.unfused):
        if call is not None and all(map(loaded, call.sources())):
            return call
    return None


def most_valuable_first(lowered: Lowered, loaded: Loaded) -> list[MissingKernel]:
    """Return the missing kernels, those first that save most time.

    Kernels of members are among them where the group's own has no builder, and for small groups
    where the own kernels are more.
    """
    value = {s: 0.0 for s in sources(all_calls(lowered)) if not loaded(s)}
    referenced: set[KernelSource] = set()
    unknown = set(_missing(calls_of(lowered.splits), loaded))
    small: list[tuple[Instruction, float]] = []
    for instruction in compilable(lowered):
        yield_interpreter()
        group = group_of(instruction.spec)
        runs = loaded_call(instruction, loaded) is not None
        if runs and group is not None:
            saved = gain_ns(lowered.backend, group) * _iterations(instruction)
        else:
            saved = reference_ns(instruction)
            referenced.update(_missing((instruction.call, instruction.unfused), loaded))
        if instruction.construct is not None:
            unknown.update(_missing((instruction.call, instruction.unfused), loaded))
        if group is not None and not runs and instruction.unfused is not None:
            if instruction.call is None:
                _credit(value, instruction.unfused, saved, loaded)
            elif is_small(lowered.backend, group):
                small.append((instruction, saved))
        if instruction.call is not None:
            _credit(value, instruction.call, saved, loaded)
    shared = set(_missing((i.unfused for i, _ in small), loaded))
    if len(shared) < len(set(_missing((i.call for i, _ in small), loaded))):
        for instruction, saved in small:
            assert instruction.unfused is not None
            _credit(value, instruction.unfused, saved, loaded)
    order = sorted(value, key=lambda source: -value[source])

    def meanwhile(source: KernelSource) -> Meanwhile:
        if source in unknown:
            return Meanwhile.UNKNOWN
        return Meanwhile.REFERENCE if source in referenced else Meanwhile.MEMBERS

    return [MissingKernel(source, value[source], meanwhile(source)) for source in order]


def _missing(calls: Iterable[NativeCall | None], loaded: Loaded) -> list[KernelSource]:
    return [source for source in sources(calls) if not loaded(source)]


def _credit(
    value: dict[KernelSource, float], call: NativeCall, saved: float, loaded: Loaded
) -> None:
    """Share the time that a call saves among its missing kernels."""
    missing = [source for source in call.sources() if not loaded(source)]
    for source in missing:
        value[source] = value.get(source, 0.0) + saved / len(missing)


def graph_reference_ns(graph: DataflowGraph, unknown: int) -> float:
    """Return the predicted time of a run by the dataflow executor.

    unknown: taken for each unknown size.
    """
    return sum(
        NODE_NS + _work_ns(_spec(graph, node, unknown))
        for node in (graph.node(name) for name in yielding(_computing(graph)))
    )


@dataclass(slots=True)
class AlikeNodes:
    """Nodes of one op and of the same shapes.

    ns: the predicted time of their reference kernels, of all nodes. spec: of the first.
    """

    ns: float
    spec: NodeSpec
    names: list[str]


def heaviest_nodes(graph: DataflowGraph, count: int) -> list[AlikeNodes]:
    """Return the nodes with the most work, the heaviest first.

    At most `count` entries, of known shapes.
    """
    found: dict[tuple[object, ...], AlikeNodes] = {}
    for name in yielding(_computing(graph)):
        spec = _spec(graph, graph.node(name), -1)
        if all(size >= 0 for t in (*spec.inputs, *spec.outputs) for size in t.shape):
            key = (spec.op, spec.inputs, spec.outputs)
            alike = found.setdefault(key, AlikeNodes(0.0, spec, []))
            alike.ns += _work_ns(spec)
            alike.names.append(name)
    return sorted(found.values(), key=lambda alike: -alike.ns)[:count]


def _computing(graph: DataflowGraph) -> list[str]:
    """Return the nodes with arrays as inputs and outputs, constants left out."""
    return [
        node.name
        for node in graph.op_nodes()
        if node.op != "Const"
        and node.output_dtypes
        and all(d.is_numpy_compatible for d in (*node.input_dtypes, *node.output_dtypes))
    ]


def _spec(graph: DataflowGraph, node: Node, unknown: int) -> NodeSpec:
    """Return a node as a builder sees it.

    Unknown shapes become vectors of `unknown` elements.
    """

    def tensors(
        dtypes: Sequence[object], shapes: Sequence[tuple[int | None, ...] | None]
    ) -> tuple[TensorSpec, ...]:
        return tuple(
            TensorSpec(
                dtype.base_dtype,  # type: ignore[attr-defined]
                (unknown,) if s is None else tuple(unknown if d is None else d for d in s),
            )
            for dtype, s in zip(dtypes, shapes, strict=False)
        )

    sources_of = graph.inputs(node.name)
    constants = {
        k: np.asarray(graph.node(source).attrs["value"])
        for k, (source, _) in enumerate(sources_of)
        if graph.node(source).op == "Const"
    }
    inputs = [graph.node(source).output_shapes[slot] for source, slot in sources_of]
    return NodeSpec(
        node.name,
        node.op,
        node.attrs,
        tensors(node.input_dtypes, inputs),
        tensors(node.output_dtypes, node.output_shapes),
        constants,
    )


__all__ = [
    "CALL_NS",
    "NODE_NS",
    "AlikeNodes",
    "graph_reference_ns",
    "heaviest_nodes",
    "most_valuable_first",
    "reference_ns",
    "loaded_call",
    "loaded_share",
]
