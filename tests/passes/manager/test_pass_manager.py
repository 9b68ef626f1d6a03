"""The pass manager over bodies: each optional pass left out, and a wrong rewrite found in a loop's
body.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfjit as tf
from tfjit.passes.ir.dataflow_graph import DataflowGraph
from tfjit.passes.ir.run_spec import RunSpec
from tfjit.passes.manager import pass_manager, pass_registry
from tfjit.passes.manager.pass_context import PassContext, PassOptions
from tfjit.passes.manager.pass_registry import PASSES
from tfjit.passes.manager.pipeline_spec import Pipeline


@pytest.fixture(autouse=True)
def by_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run groups and loops by their references: the passes are in question, not the compiler."""
    monkeypatch.setenv("TFJIT_JIT", "off")


def program(v2: bool) -> tuple[tf.Graph, Any, list[Any]]:
    """Return (graph, feeds, fetches): loops with lists and products, a branch, their gradient."""
    (tf.enable_control_flow_v2 if v2 else tf.disable_control_flow_v2)()
    try:
        with tf.Graph().as_default() as graph:
            x = tf.placeholder(tf.float32, [4, 4], name="x")
            w = tf.Variable(np.eye(4, dtype=np.float32) * 0.5 + 0.1, name="w")
            rows = tf.TensorArray(tf.float32, 5, element_shape=[4, 4])

            def step(i: Any, h: Any, kept: Any) -> Any:
                h = tf.tanh(tf.matmul(h, w) + tf.identity(x) * 1.0)
                return i + 1, h, kept.write(i, h + tf.cast(i, tf.float32))

            _, last, kept = tf.while_loop(lambda i, h, kept: i < 5, step, [0, x, rows])
            chosen = tf.cond(
                tf.reduce_sum(last) > 0.0, lambda: tf.nn.softmax(last) * 2.0, lambda: last + 1.0
            )
            loss = tf.reduce_sum(chosen * chosen) + tf.reduce_mean(kept.stack())
            counted = tf.while_loop(
                lambda i, total: i < 7, lambda i, total: (i + 1, total * 3 + i), [0, 1]
            )
            fetches = [loss, *tf.gradients(loss, [x, w]), last, counted[1]]
            fetches.append(tf.global_variables_initializer())
    finally:
        tf.disable_control_flow_v2()
    feed = np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4)
    return graph, {x: feed}, fetches


def results(built: tuple[tf.Graph, Any, list[Any]], passes: str = "default") -> list[np.ndarray]:
    graph, feeds, fetches = built
    with tf.Session(graph=graph, passes=passes) as session:
        session.run(fetches[-1])
        values: list[np.ndarray] = session.run(fetches[:-1], feeds)
        return values


@pytest.fixture(scope="module", params=[False, True], ids=["v1", "v2"])
def built(request: pytest.FixtureRequest) -> tuple[tf.Graph, Any, list[Any]]:
    return program(request.param)


@pytest.fixture(scope="module")
def whole(built: tuple[tf.Graph, Any, list[Any]]) -> list[np.ndarray]:
    """The results with all passes, by references: the branch is taken by a sum near zero, whose
    sign is a matter of rounding.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TFJIT_JIT", "off")
        return results(built)


@pytest.mark.parametrize("name", [name for name, info in PASSES.items() if not info.required])
def test_without_any_one_pass_the_results_are_the_same(
    name: str,
    built: tuple[tf.Graph, Any, list[Any]],
    whole: list[np.ndarray],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TFJIT_DISABLE", name)
    graph, feeds, fetches = built
    with tf.Session(graph=graph) as session:
        session.run(fetches[-1])
        values = session.run(fetches[:-1], feeds)
        report = session.explain(fetches[:-1], {"x:0": (4, 4)}).report  # of the plan that ran
    for value, expected in zip(values, whole, strict=True):
        np.testing.assert_allclose(value, expected, rtol=2e-6, atol=2e-6)
    assert name not in {entry.name for entry in report.passes}, "it ran in a body"


@pytest.mark.parametrize("passes", ["default only", "default repeat simplify, cse up to 9 times"])
def test_other_pipelines_give_the_same_results(
    passes: str, built: tuple[tf.Graph, Any, list[Any]], whole: list[np.ndarray]
) -> None:
    for value, expected in zip(results(built, passes), whole, strict=True):
        np.testing.assert_allclose(value, expected, rtol=2e-6, atol=2e-6)


def test_a_wrong_rewrite_in_a_body_is_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """By leaving passes out, and in the dump, which holds the body before and after."""
    right = PASSES["drop_control_edges"].function()

    def wrong(graph: DataflowGraph, ctx: PassContext) -> None:
        right(graph, ctx)
        for node in list(graph.op_nodes()) if ctx.where else ():
            if node.op == "Tanh":
                graph.change_op(node.name, "Sin", graph.inputs(node.name), {"T": node.attrs["T"]})

    graph, feeds, (*_, last, _, init) = program(True)

    def result() -> np.ndarray:
        with tf.Session(graph=graph) as session:
            session.run(init)
            value: np.ndarray = session.run(last, feeds)
            return value

    expected = result()
    found = pass_registry._function
    monkeypatch.setattr(
        pass_registry,
        "_function",
        lambda home, name: wrong if name == "drop_control_edges" else found(home, name),
    )
    monkeypatch.setenv("TFJIT_DUMP", str(tmp_path))
    assert not np.allclose(result(), expected)
    suspects = []
    monkeypatch.delenv("TFJIT_DUMP")
    for name in (name for name, info in PASSES.items() if not info.required):
        monkeypatch.setenv("TFJIT_DISABLE", name)
        if np.allclose(result(), expected):
            suspects.append(name)
    # without specialised bodies there is none to harm
    assert "drop_control_edges" in suspects and len(suspects) <= 2

    dumps = sorted(tmp_path.glob("*/*.txt"))
    bodies = [
        path for path in dumps if "_drop_control_edges_" in path.name and "Sin(" in path.read_text()
    ]
    assert bodies, "the body after the pass"
    place = bodies[0].name.partition("_drop_control_edges_")[2]
    before = [path for path in dumps if path < bodies[0] and path.name.endswith(place)]
    assert before and "Tanh(" in before[-1].read_text() and "Sin(" not in before[-1].read_text()


def test_time_limits_and_reports_hold_in_bodies() -> None:
    graph, _, fetches = program(True)
    with tf.Session(graph=graph) as session:
        report = session.explain(fetches[0], {"x:0": (4, 4)}).report
    nested = [entry for entry in report.passes if entry.depth]
    assert {"simplify", "fold_constants", "infer_shapes"} <= {entry.name for entry in nested}
    assert all(entry.where for entry in nested if entry.name == "fuse")
    assert report.elapsed_us <= sum(entry.elapsed_us for entry in report.passes)
    text = report.format()
    assert any(line.startswith("  ") and "while" in line for line in text.splitlines())


def test_a_registered_pass_is_declared_whole() -> None:
    info = replace(PASSES["fuse"], when=lambda graph: False)
    assert info.is_optimization and not PASSES["prune"].is_optimization


def test_names_that_leave_nothing_out_are_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(pass_manager, "_WARNED", set())
    monkeypatch.setenv("TFJIT_DISABLE", "fusee,prune,fuse,bundle,own")

    def own(graph: DataflowGraph, ctx: PassContext) -> None:
        pass

    for _ in range(2):
        options = PassOptions(pipeline=Pipeline.default().then(own))
        pass_manager.PassManager(PassContext(RunSpec(), options=options))
    assert [record.args[0] for record in caplog.records] == ["fusee", "prune"]
