"""Background passes let other threads in between nodes; getters of graphs do not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tfjit.framework import cooperative_yield
from tfjit.passes.ir.dataflow_graph import DataflowGraph, Node
from tfjit.passes.manager.pass_context import PassContext
from tfjit.passes.manager.pass_manager import PassManager
from tfjit.passes.manager.steps import Step
from tfjit.passes.text.text_format import parse_graph
from tfjit.runtime.lowering.lowering import lower
from tfjit.runtime.resources.variables_and_resources import Variable

NODES = 200


def chain() -> DataflowGraph:
    lines = ["n0 = _Arg(index=0) -> float32<3>"]
    lines += [f"n{k} = Neg(n{k - 1}) -> float32<3>" for k in range(1, NODES)]
    return parse_graph("\n".join([*lines, f"r = _Retval(n{NODES - 1}, index=0)"]))


def looks(monkeypatch: pytest.MonkeyPatch, job: Callable[[], object]) -> int:
    """How often a job, as background work, looks whether its slice is over."""
    count = 0

    def end_slice(state: cooperative_yield._YieldState) -> None:
        nonlocal count
        count += 1
        state.slice_s = -1.0

    monkeypatch.setattr(cooperative_yield._YieldState, "end_slice", end_slice)
    with cooperative_yield.background():
        monkeypatch.setattr(cooperative_yield, "_due", 0.0)
        job()
    return count


@pytest.mark.parametrize(
    "name",
    [
        "infer_shapes",
        "fold_constants",
        "simplify",
        "eliminate_common_subexpressions",
        "prune",
        "fuse",
    ],
)
def test_passes_let_others_in_at_every_node(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = chain()
    graph.topological_order()  # known: a pass that needs it does not find it anew
    ctx = PassContext()
    manager = PassManager(ctx)
    manager.run(Step("infer_shapes"), graph, ctx)
    if name == "infer_shapes":
        ctx.invalidate("shapes")
    assert looks(monkeypatch, lambda: manager.run(Step(name), graph, ctx)) >= NODES


def test_lowering_lets_others_in_at_every_node(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = chain()
    graph.topological_order()

    def find_variable(node: Node) -> Variable:
        raise AssertionError(f"{node.name} is no variable")

    assert looks(monkeypatch, lambda: lower(graph, find_variable, 1)) >= NODES


def test_getters_never_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = chain()

    def ask() -> None:
        for k in range(1, NODES):
            name = f"n{k}"
            assert graph.inputs(name) and graph.consumers(name) and graph.node(name)
            assert not graph.control_inputs(name) and not graph.control_consumers(name)

    assert looks(monkeypatch, ask) == 0
