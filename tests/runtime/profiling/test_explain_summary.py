"""The page that `explain` begins with: times, causes and memory, of plans of any size."""

from __future__ import annotations

import tfjit
from tfjit.passes.manager.pass_manager import PassReport, PipelineReport
from tfjit.runtime.profiling.explain import ExplainedNode, Explanation


def explained(nodes: list[ExplainedNode], remarks: list[tuple[str, str]]) -> Explanation:
    entry = PassReport("fuse", 5.0, 9, 9, messages=tuple(remarks))
    return Explanation("x:0->y:0/", PipelineReport([entry]), tuple(nodes), 1, 0, "a step", ())


def test_a_big_plan_has_one_page() -> None:
    nodes = [
        ExplainedNode(f"scope/{k}", f"Op{k % 30}", "native", predicted_us=1.0 + k)
        for k in range(900)
    ]
    nodes += [ExplainedNode(f"r{k}", "Sort", "reference", reason=f"cause {k}") for k in range(99)]
    remarks = [(f"n{k}", f"stays apart from a/{k}: cause {k % 40}") for k in range(500)]
    text = explained(nodes, remarks).summary()
    assert len(text.splitlines()) < 60
    assert "888 other kernels" in text
    assert "for 32 other causes" in text
    assert "for 91 other reasons" in text


def test_causes_are_counted_without_names() -> None:
    remarks = [
        ("a", "stays apart from c: its 'x/1' has 2 users"),
        ("b", "stays apart from d: its 'x/2' has 2 users"),
        ("c", "joins d: loop group of 2"),
    ]
    lines = explained([], remarks).summary().splitlines()
    at = lines.index("not fused, and why:")
    assert lines[at + 1] == "      2  its '...' has 2 users (as a)"
    assert lines[at + 2] == ""


def test_shares_add_up_and_the_longest_is_first() -> None:
    nodes = [
        ExplainedNode(n, "MatMul", "native", predicted_us=us) for n, us in (("a", 1), ("b", 3))
    ]
    lines = explained(nodes, []).summary().splitlines()
    assert lines[3] == "where the time goes: 4.0 us predicted for one thread"
    assert [line.split()[0] for line in lines[5:7]] == ["75.0%", "25.0%"]
    assert lines[7] == "  by kind: MatMul 100% (2)"


def test_own_passes_are_heard() -> None:
    report = PipelineReport(
        [PassReport("mine", 1.0, 2, 2, messages=(("a", "done"), ("b", "done")))]
    )
    found = Explanation("x:0->y:0/", report, (), 0, 0, "a step", ())
    assert "remarks of your passes:\n  mine: a and 1 more: done\n" in found.summary()
    assert "of your passes" not in explained([], [("a", "stays: no")]).summary()


def test_the_text_of_a_plan_is_its_summary() -> None:
    with tfjit.Graph().as_default(), tfjit.Session() as session:
        x = tfjit.placeholder(tfjit.float32, [4, 3], name="x")
        found = session.explain(tfjit.nn.softmax(tfjit.tanh(x) + 1.0))
    assert str(found) == found.summary()
    assert "fused: 1 groups" in str(found) and "kB less than unfused" in str(found)
    assert "pass " in found.details() and "remarks of the passes" in found.details()


def test_an_empty_run_has_a_summary() -> None:
    with tfjit.Graph().as_default(), tfjit.Session() as session:
        x = tfjit.placeholder(tfjit.float32, [4], name="x")
        found = session.explain(x, {x: (4,)}, measure=True)
    assert "not measured: there is nothing to compute" in found.summary()
