"""The parts of a divided group compute the group's results, wherever it is cut."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tests.programs.big_graphs import BigGraph
from tfjit.kernels.cpu.fusion_rules import RULES
from tfjit.kernels.ir.fused_group import CONSTANT, INPUT, FusedGroup, Ref
from tfjit.kernels.registry import find_reference
from tfjit.passes.fusion.divide_group import GroupDivider, Members, Part
from tfjit.passes.fusion.fuse import MAX_INPUTS, MAX_OUTPUTS

tf1 = tf.compat.v1


def groups_of(graph: Any, fetches: Any) -> list[FusedGroup]:
    """Return the groups that fusion makes of a graph."""
    with tfjit.Session(graph=graph) as session:
        runtime = session._runtime_session
        session.explain(fetches)
        (plan,) = runtime.plan_cache.plans()
        (variant,) = plan.variants.values()
        return [
            i.spec.attrs["group"] for i in variant.lowered.instructions if i.spec.op == "_Fused"
        ]


def values_of(group: FusedGroup) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [np.asarray(rng.uniform(-1, 1, t.shape), t.dtype.as_numpy_dtype) for t in group.inputs]


def run_parts(divider: GroupDivider, parts: list[Part], inputs: list[np.ndarray]) -> list[Any]:
    """Return the group's results by the references of its parts."""
    group = divider.group
    known: dict[Ref, Any] = {}

    def value(ref: Ref) -> Any:
        if ref.member == INPUT:
            return inputs[ref.index]
        if ref.member == CONSTANT:
            return group.constants[ref.index]
        if ref not in known and divider.is_free(ref):
            return np.reshape(value(divider.source(ref)), group.tensor(ref).shape)
        return known[ref]

    for part in parts:
        kernel = find_reference(part.spec.op)
        assert kernel is not None
        arguments = [value(ref) for ref in part.inputs]
        if part.spec.op == "DeepCopy":
            arguments = [np.reshape(arguments[0], part.spec.outputs[0].shape)]
        assert [np.shape(a) for a in arguments] == [t.shape for t in part.spec.inputs]
        for ref, made in zip(part.outputs, kernel(part.spec, arguments), strict=True):
            known[ref] = made
    return [value(ref) for ref in group.outputs]


def cuts(divider: GroupDivider) -> Iterator[list[Members]]:
    """Yield single members, halves, and quarters."""
    work = divider.work
    yield [(number,) for number in work]
    if len(work) > 1:
        halves = divider.halves(work)
        assert halves[0] + halves[1] == work and all(halves)
        yield [*halves]
        yield [q for half in halves for q in (divider.halves(half) if len(half) > 1 else [half])]


def valid(divider: GroupDivider, cut: list[Members]) -> tuple[list[Members], list[Part]]:
    """Return a cut with single members in place of what is no group, and its parts."""
    members, parts = [], []
    for one in cut:
        part = divider.part(one)
        for smaller in [one] if part is not None else [(number,) for number in one]:
            made = divider.part(smaller)
            assert made is not None
            members.append(smaller)
            parts.append(made)
    return members, parts


@pytest.mark.parametrize("seed", range(6))
def test_parts_compute_the_groups_results(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFJIT_JIT", "off")
    drawn = BigGraph(seed, 200)
    groups = groups_of(drawn.graph, drawn.fetches)
    assert groups
    kinds = 0
    for group in groups:
        divider = GroupDivider(group, {}, RULES)
        inputs = values_of(group)
        expected = group.run_reference(inputs)
        for cut in cuts(divider):
            members, parts = valid(divider, cut)
            kinds += sum(part.spec.op == "_Fused" for part in parts)
            for part in parts:
                if part.spec.op == "_Fused":
                    assert len(part.inputs) <= MAX_INPUTS and len(part.outputs) <= MAX_OUTPUTS
            # copies of values from outside come first, and of single members behind these
            copies = [*divider.copies(members)]
            ordered = sorted(
                [*parts, *copies], key=lambda p: max((ref.member for ref in p.outputs), default=0)
            )
            found = run_parts(divider, ordered, inputs)
            for a, b in zip(found, expected, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
    assert kinds


def test_the_cut_crosses_few_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cut lies before the values become wider."""
    monkeypatch.setenv("TFJIT_JIT", "off")
    graph = tf1.Graph()
    with graph.as_default():
        h = tf1.placeholder(tf.float32, [64, 4])
        for _ in range(6):
            h = tf.tanh(h)
        h = tf.cast(h, tf.float64)
        for _ in range(6):
            h = tf.sin(h)
    (group,) = groups_of(graph, [h])
    divider = GroupDivider(group, {}, RULES)
    first, second = divider.halves(divider.work)
    assert [group.ops[n] for n in first] == ["Tanh"] * 6
    assert group.ops[second[0]] == "Cast"
