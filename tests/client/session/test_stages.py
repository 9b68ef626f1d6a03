"""`Session.lower` and `compile`: texts, costs, and runs of exactly one plan."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pytest

import tfjit
from tfjit.client.session.stages import Compiled, Lowered, explained_feeds
from tfjit.framework.env import Env
from tfjit.passes.text.text_format import parse_graph
from tfjit.runtime.lowering.lowered_parser import parse_lowered
from tfjit.runtime.stored_plans import plan_warm_start

pytestmark = pytest.mark.host
X = np.linspace(-1, 1, 40 * 30, dtype=np.float32).reshape(40, 30)

W = np.cos(np.arange(600, dtype=np.float32)).reshape(30, 20)


@pytest.fixture
def graph() -> Iterator[tfjit.Graph]:
    with tfjit.Graph().as_default() as made:
        yield made


def dense(size: int | None = None) -> tuple[tfjit.Tensor, tfjit.Tensor]:
    """A layer with a softmax behind it."""
    x = tfjit.placeholder(tfjit.float32, [size, 30], name="x")
    w = tfjit.get_variable("w", initializer=W)
    return x, tfjit.nn.softmax(tfjit.nn.relu(tfjit.matmul(x, w)), name="y")


def test_all_stages_of_a_static_run(graph: tfjit.Graph) -> None:
    x, y = dense()
    with tfjit.Session(graph=graph) as session:
        session.run(tfjit.global_variables_initializer())
        lowered = session.lower({"y": y}, {x: tfjit.TensorSpec([40, 30])})
        assert type(lowered) is Lowered and lowered.dynamic_reason == ""
        assert lowered.feed_shapes == {"x:0": (40, 30)}
        instructions = lowered.as_text()
        assert instructions == lowered.as_text("lowered")
        again = parse_lowered(instructions)
        assert again.feeds[0].shape == (40, 30) and "_Fused(" in instructions
        assert "def make(placement):" in lowered.as_text("step")
        kernels = lowered.as_text("kernels")
        assert "# written by kernels/cpu/gemm/" in kernels and "# serves:" in kernels
        assert "_Fused" in {n.op for n in parse_graph(lowered.as_text("graph")).op_nodes()}

        predicted = lowered.cost_analysis()
        assert predicted.flops >= 2 * 40 * 30 * 20 and predicted.bytes_moved > 40 * 30 * 4
        assert predicted.predicted_us == sum(k.predicted_us for k in predicted.kernels) > 0
        assert all(kernel.serving == "native" for kernel in predicted.kernels)
        assert "all kernels" in str(predicted)

        compiled = lowered.compile()
        assert type(compiled) is Compiled
        assert compiled.cost_analysis() == predicted  # all became as it was predicted
        assert compiled.as_text("step") == lowered.as_text("step")
        memory = compiled.memory_analysis()
        assert memory.argument_bytes == 40 * 30 * 4 and memory.variable_bytes == 30 * 20 * 4
        assert memory.output_bytes == 40 * 20 * 4 and memory.peak_bytes >= memory.output_bytes
        np.testing.assert_array_equal(compiled({x: X})["y"], session.run(y, {x: X}))


def test_lowering_compiles_and_runs_nothing(
    graph: tfjit.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    # else a plan that an earlier process had compiled begins with its compiled step
    monkeypatch.setattr(plan_warm_start, "read", lambda fingerprint: None)
    x, y = dense()
    with tfjit.Session(graph=graph) as session:  # the variable has no value
        lowered = session.lower(y, {x: X})
        lowered.cost_analysis()
        (variant,) = [
            v for plan in session._runtime_session.plan_cache.plans() for v in plan.held()
        ]
        time.sleep(0.1)
        assert not variant.compile_done.is_set() and not variant.step.native
        with pytest.raises(tfjit.errors.FailedPreconditionError, match="uninitialized value w"):
            lowered.compile()({x: X})


def test_the_next_run_is_the_compiled_one(graph: tfjit.Graph) -> None:
    x, y = dense()
    with tfjit.Session(graph=graph) as session:
        session.run(tfjit.global_variables_initializer())
        before = session.plan_counters()
        session.lower(y, {x: X}).compile()
        session.run(y, {"x:0": X})
        after = session.plan_counters()
        assert after.variants == before.variants + 1 and after.misses == before.misses + 1
        plan = session._runtime_session.plan_cache.plans()[-1]
        assert plan.variants[(40, 30),].step.native


def test_other_feeds_and_shapes_are_refused(graph: tfjit.Graph) -> None:
    x, y = dense()
    k = tfjit.placeholder(tfjit.float32, [], name="k")
    product = y * k
    with tfjit.Session(graph=graph) as session:
        session.run(tfjit.global_variables_initializer())
        compiled = session.lower(product, {x: X, k: 1.0}).compile()
        with pytest.raises(
            ValueError, match=r"compiled for x:0 of shape \(40, 30\), not \(2, 30\)"
        ):
            compiled({x: X[:2], k: 1.0})
        with pytest.raises(ValueError, match="feeds of x:0, k:0: k:0 missing"):
            compiled({x: X})
        with pytest.raises(ValueError, match="y:0 not among them"):
            compiled({x: X, k: 1.0, y: np.zeros((40, 20), np.float32)})
        with pytest.raises(ValueError, match="Cannot feed value of shape"):
            compiled({x: X.T, k: 1.0})
        np.testing.assert_array_equal(
            compiled({"k:0": 2.0, "x:0": X}), session.run(product, {x: X, k: 2.0})
        )


def test_shapes_must_be_known_and_fit(graph: tfjit.Graph) -> None:
    x, y = dense()
    with tfjit.Session(graph=graph) as session:
        with pytest.raises(ValueError, match="The shape of x:0 is not known"):
            session.lower(y)
        with pytest.raises(ValueError, match="The shape of x:0 is not known"):
            session.lower(y, {x: tfjit.TensorSpec([None, 30])})
        with pytest.raises(ValueError, match="Cannot feed value of shape"):
            session.lower(y, {x: tfjit.TensorShape([40, 31])})
        with pytest.raises(ValueError, match="dtype float32, its TensorSpec int32"):
            session.lower(y, {x: tfjit.TensorSpec([40, 30], tfjit.int32)})
        with pytest.raises(ValueError, match="nothing to lower"):
            session.lower(x, {x: X})
        with pytest.raises(
            ValueError, match="dialect must be one of graph, lowered, step, kernels"
        ):
            session.lower(y, {x: X}).as_text("ptx")  # type: ignore[arg-type]


def test_static_placeholders_need_no_spec(graph: tfjit.Graph) -> None:
    _, y = dense(40)
    with tfjit.Session(graph=graph) as session:
        lowered = session.lower([y, graph.get_operation_by_name("y")])
        assert lowered.feed_shapes == {"x:0": (40, 30)}
        assert session.lower(y, {"x:0": X}).as_text() == session.lower(y).as_text()


def test_a_run_that_cannot_be_lowered_says_why(graph: tfjit.Graph) -> None:
    x = tfjit.placeholder(tfjit.int32, [None], name="x")
    values, _ = tfjit.unique(x)
    y = values * 2
    with tfjit.Session(graph=graph) as session:
        lowered = session.lower(y, {x: tfjit.TensorSpec([4], tfjit.int32)})
        assert "Unique" in lowered.dynamic_reason
        assert "Unique(" in lowered.as_text("graph")
        for look in (lowered.as_text, lowered.cost_analysis, lowered.compile().memory_analysis):
            with pytest.raises(ValueError, match="dataflow executor runs it: .*Unique"):
                look()
        compiled = lowered.compile()
        np.testing.assert_array_equal(compiled({x: [3, 3, 1, 3]}), [6, 2])


def test_a_run_that_waits_for_a_queue(graph: tfjit.Graph) -> None:
    queue = tfjit.FIFOQueue(4, [tfjit.float32], [[3]])
    x = tfjit.placeholder(tfjit.float32, [3], name="x")
    y = tfjit.tanh(queue.dequeue()) + x
    with tfjit.Session(graph=graph) as session:
        session.run(queue.enqueue([np.ones(3, np.float32)]))
        compiled = session.lower(y).compile()
        assert "may wait" in compiled.dynamic_reason or "resource" in compiled.dynamic_reason
        np.testing.assert_allclose(
            compiled({x: np.zeros(3, np.float32)}), np.tanh(np.ones(3)), rtol=1e-6
        )


def test_training_steps_and_loops(graph: tfjit.Graph) -> None:
    x, y = dense(40)
    total = tfjit.while_loop(lambda i, t: i < 3, lambda i, t: (i + 1, t * 0.5 + y), [0, y])[1]
    loss = tfjit.reduce_sum(tfjit.square(y))
    step = tfjit.train.GradientDescentOptimizer(0.01).minimize(loss)
    with tfjit.Session(graph=graph) as session:
        session.run(tfjit.global_variables_initializer())
        compiled = session.lower([loss, step, total], {x: X}).compile()
        first, nothing, _ = compiled({x: X})
        second, _, _ = compiled({x: X})
        assert nothing is None and second != first  # it learns
        assert compiled.cost_analysis().flops > 0


def test_a_big_graph_is_lowered_without_its_first_run(graph: tfjit.Graph) -> None:
    x = y = tfjit.placeholder(tfjit.float32, [5], name="x")
    for _ in range(400):
        y = tfjit.tanh(y) + 0.5
    variables = {"TFJIT_JIT": "lazy"}
    options = tfjit.SessionOptions(env=Env(variables=variables))
    with tfjit.Session(graph=graph, options=options) as session:
        lowered = session.lower(y)
        assert "_Fused(" in lowered.as_text()
        value = np.zeros(5, np.float32)
        np.testing.assert_allclose(
            session.run(y, {x: value}), lowered.compile()({x: value}), rtol=1e-5
        )


@pytest.mark.parametrize("mode", ["off", "eager"])
def test_other_modes(graph: tfjit.Graph, mode: str) -> None:
    x, y = dense()
    options = tfjit.SessionOptions(env=Env(variables={"TFJIT_JIT": mode}))
    with tfjit.Session(graph=graph, options=options) as session:
        session.run(tfjit.global_variables_initializer())
        lowered = session.lower(y, {x: X})
        assert lowered.cost_analysis().kernels[0].serving == "native"
        compiled = lowered.compile()
        servings = {kernel.serving for kernel in compiled.cost_analysis().kernels}
        assert servings == ({"native"} if mode == "eager" else {"reference"})
        assert compiled({x: X}).shape == (40, 20)


@pytest.mark.parametrize(
    ("given", "size"),
    [
        ((6, 30), 6),
        ([6, 30], 6),
        ((None, 30), 1),
        (tfjit.TensorShape([6, 30]), 6),
        (tfjit.TensorSpec([6, 30]), 6),
        (np.ones((6, 30), np.float32), 6),
        ([[0.5] * 30] * 6, 6),
    ],
    ids=["tuple", "list", "unknown", "TensorShape", "TensorSpec", "array", "nested"],
)
def test_explain_accepts_shapes_and_values(graph: tfjit.Graph, given: object, size: int) -> None:
    x = tfjit.placeholder(tfjit.float32, [None, 30], name="x")
    y = tfjit.identity(x)
    with tfjit.Session(graph=graph) as session:
        found = explained_feeds(session, {x: given}, None)
        assert found[0] == {"x:0": (size, 30)}
        assert all(value.shape == (size, 30) for value in found[1].values())
        assert session.explain(y, {"x:0": given}).nodes


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("seven", "must be a shape"),
        (None, "must be a shape"),
        ((6.5, 30), "must be a shape"),
        (np.ones(7, np.float32), "Cannot feed value of shape"),
        ((-6, 30), "negative size"),
        (tfjit.TensorShape(None), "unknown rank"),
        (tfjit.TensorSpec([6, 30], tfjit.int32), "has dtype float32"),
    ],
)
def test_explain_refuses_other_feeds(graph: tfjit.Graph, given: object, text: str) -> None:
    x = tfjit.placeholder(tfjit.float32, [None, 30], name="x")
    with (
        tfjit.Session(graph=graph) as session,
        pytest.raises((TypeError, ValueError), match=text),
    ):
        session.explain(tfjit.identity(x), {x: given})


def test_lower_says_how_to_give_a_shape(graph: tfjit.Graph) -> None:
    x, y = dense()
    with (
        tfjit.Session(graph=graph) as session,
        pytest.raises(ValueError, match=r"a shape is TensorShape\(\(6, 30\)\)"),
    ):
        session.lower(y, {x: (6, 30)})


def test_a_closed_session_runs_no_more(graph: tfjit.Graph) -> None:
    x, y = dense()
    session = tfjit.Session(graph=graph)
    lowered = session.lower(y, {x: X})
    session.close()
    with pytest.raises((RuntimeError, tfjit.errors.CancelledError)):
        lowered.compile()
    with pytest.raises(RuntimeError, match="closed Session"):
        session.lower(y, {x: X})
