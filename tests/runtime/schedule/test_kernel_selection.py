"""How many kernels a plan may have: groups of small tensors beyond the budget, or not compiled yet,
run one by one with the same values.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tfjit.framework import errors
from tfjit.framework.types import dtypes
from tfjit.kernels.ir.backend import backend_for
from tfjit.kernels.jit.store import store
from tfjit.kernels.registry import NodeSpec, TensorSpec
from tfjit.runtime.plan import first_run
from tfjit.runtime.plan.background import BACKGROUND
from tfjit.runtime.plan.variant import Variant
from tfjit.runtime.schedule import kernel_selection
from tfjit.runtime.step.step import Step
from tfjit.runtime.stored_plans import plan_warm_start

tf1 = tf.compat.v1


def random_graph(nodes: int, seed: int) -> tf1.Graph:
    """x, b -> out: a random graph of elementwise nodes over [3, 5], with what a group forwards and
    broadcasts in it.
    """
    rng = random.Random(seed)
    with tf1.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [3, 5], name="x")
        b = tf1.placeholder(tf.float32, [5], name="b")
        made: list[Any] = [x]
        unary = [
            tf.tanh,
            tf.nn.relu,
            tf.negative,
            tf.identity,
            tf.sigmoid,
            lambda v: tf.reshape(tf.reshape(v, [15]), [3, 5]),
        ]
        for _ in range(nodes):
            left, right = rng.choice(made[-8:]), rng.choice([*made[-8:], b])
            if rng.random() < 0.5:
                made.append(rng.choice(unary)(left))
            else:
                made.append(rng.choice([tf.add, tf.subtract, tf.maximum])(left, right))
        tf.add_n(made[-9:], name="out")
    return graph


FEEDS = {
    "x:0": np.linspace(-2, 2, 15, dtype="f4").reshape(3, 5),
    "b:0": np.arange(5, dtype="f4") / 3,
}


def run_both(
    graph: tf1.Graph, feeds: dict[str, np.ndarray]
) -> tuple[np.ndarray, np.ndarray, Variant]:
    """TensorFlow's value of out, that of a compiled tfjit session, and the variant behind it."""
    with tf1.Session(graph=graph) as session:
        expected = session.run("out:0", feeds)
    with tfjit.Session(graph=graph) as mine:
        got = mine.run("out:0", feeds)
        (plan,) = mine._runtime_session.plan_cache.plans()
        (variant,) = plan.variants.values()
        variant.upgrade()
        assert variant.compile_done.wait(300)
        np.testing.assert_array_equal(got, mine.run("out:0", feeds))
        return expected, got, variant


@pytest.mark.parametrize("budget", [0, 1, 64])
@pytest.mark.parametrize("seed", range(4))
def test_values_do_not_depend_on_the_budget(
    budget: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TFJIT_JIT", "eager")
    monkeypatch.setattr(kernel_selection, "MAX_SMALL_KERNELS", budget)
    expected, got, variant = run_both(random_graph(60, seed), FEEDS)
    np.testing.assert_allclose(got, expected, 1e-5, 1e-6)
    assert variant.calls is not None
    assert variant.lowered is not None
    groups = [i for i in variant.lowered.instructions if i.node.op == "_Fused"]
    assert variant.calls.groups == len(groups) > 0
    own = {
        i.call.launches[-1].source for i in groups if i.call is not None and i.call is not i.unfused
    }
    assert len(own) <= budget
    assert variant.calls.unfused == sum(i.call is i.unfused for i in groups)


def test_one_by_one_while_the_kernel_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFJIT_JIT", "eager")
    _, got, variant = run_both(random_graph(60, 7), FEEDS)
    assert variant.lowered is not None
    assert kernel_selection.add_member_calls(variant.lowered, lambda call: True)
    shared = set(kernel_selection.sources(i.unfused for i in variant.lowered.instructions))
    own = {
        s
        for s in kernel_selection.sources(i.call for i in variant.lowered.instructions)
        if s not in shared and "loop" in s.title
    }
    assert own
    store.compile(list(shared))
    environment = variant.plan.session.step_environment(variant.partitions[0].device)
    step = Step(
        variant.lowered,
        replace(environment, addresses=lambda s: None if s in own else store.lookup(s)),
        "early",
    )
    groups = [i for i in variant.lowered.instructions if i.unfused is not None]
    assert any(step.call(i) is i.unfused for i in groups)
    (early,) = step.run([FEEDS["b:0"], FEEDS["x:0"]])
    np.testing.assert_array_equal(early, got)


def mixed_graph() -> tf1.Graph:
    """A graph with groups of several kinds: product and epilogue, rows, reduction, loop."""
    with tf1.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [3, 5], name="x")
        b = tf1.placeholder(tf.float32, [5], name="b")
        w = tf.constant(np.linspace(-1, 1, 25, dtype="f4").reshape(5, 5))
        y = tf.nn.softmax(tf.tanh(tf.matmul(x, w) + b) * 2.0)
        tf.add(tf.reduce_sum(tf.exp(y) - b, 0) * 0.5, b, name="out")
    return graph


def test_every_kind_of_group_runs_member_by_member(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFJIT_JIT", "eager")
    expected, got, variant = run_both(mixed_graph(), FEEDS)
    lowered = variant.lowered
    assert lowered is not None
    groups = [i for i in lowered.instructions if i.node.op == "_Fused"]
    assert len({i.spec.attrs["group"].kind for i in groups}) > 1
    made = kernel_selection.add_member_calls(lowered, lambda call: True)
    assert len(made) == len(groups)
    store.compile(kernel_selection.sources(made))
    for group in groups:
        group.call = None
    environment = variant.plan.session.step_environment(variant.partitions[0].device)
    step = Step(lowered, environment, "members")
    assert all(step.call(i) is i.unfused for i in groups)
    (values,) = step.run([FEEDS["b:0"], FEEDS["x:0"]])
    np.testing.assert_allclose(values, expected, 1e-5, 1e-6)
    np.testing.assert_allclose(values, got, 1e-5, 1e-6)


def test_members_that_need_too_much_memory_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFJIT_JIT", "off")
    with tfjit.Session(graph=mixed_graph()) as session:
        session.run("out:0", FEEDS)
        ((variant,),) = (p.variants.values() for p in session._runtime_session.plan_cache.plans())
        assert variant.lowered is not None
        kernel_selection.select_kernels(variant.lowered)
        monkeypatch.setattr(kernel_selection, "MEMBER_BYTES", 0)
        few = kernel_selection.add_member_calls(variant.lowered, lambda call: True)
        monkeypatch.undo()
        more = kernel_selection.add_member_calls(variant.lowered, lambda call: True)
        assert more
        assert all(not sum(call.temp_bytes) > 2**10 for call in few)


def test_nodes_alike_share_a_call() -> None:
    shape = TensorSpec(dtypes.float32, (4, 4))
    memo = kernel_selection.CallMemo(backend_for("CPU"))
    attrs = {"T": dtypes.float32, "transpose_a": False, "transpose_b": False}
    spec = NodeSpec("a", "MatMul", attrs, (shape, shape), (shape,))
    first, _ = memo.call(spec, None)
    assert first is not None
    assert memo.call(replace(spec, name="b"), None)[0] is first
    assert memo.call(replace(spec, attrs=attrs | {"transpose_b": True}), None)[0] is not first
    known = replace(spec, constants={1: np.ones((4, 4), "f4")})
    assert memo.call(known, None)[0] is not first
    assert memo.call(replace(known, name="b"), None)[0] is memo.call(known, None)[0]
    large = replace(spec, constants={1: np.ones((16, 16), "f4")})
    assert memo.call(large, None)[0] is not memo.call(large, None)[0]


def test_equal_groups_share_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFJIT_JIT", "eager")
    monkeypatch.setattr(kernel_selection, "MAX_SMALL_KERNELS", 1)
    with tf1.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [4, 4], name="x")
        for _ in range(5):  # what lies between the groups keeps them apart
            x = tf.cumsum(tf.tanh(x) * x + x)
        tf.identity(x, name="out")
    expected, got, variant = run_both(
        graph, {"x:0": np.linspace(-1, 1, 16, dtype="f4").reshape(4, 4)}
    )
    np.testing.assert_allclose(got, expected, 1e-4, 1e-5)
    assert variant.calls is not None
    assert (variant.calls.groups, variant.calls.shared, variant.calls.unfused) == (5, 4, 0)


def test_an_error_names_the_member(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFJIT_JIT", "eager")
    monkeypatch.setattr(kernel_selection, "MAX_SMALL_KERNELS", 0)
    with tf1.Graph().as_default() as graph:
        x = tf1.placeholder(tf.int32, [3], name="x")
        divided = tf.math.floordiv(x + 7, x, name="divided")
        tf.add(divided * 2, x, name="out")
    with tfjit.Session(graph=graph) as session:
        assert session.run("out:0", {"x:0": np.array([1, 2, 4], "i4")}).tolist() == [17, 10, 8]
        with pytest.raises(errors.InvalidArgumentError, match="divided"):
            session.run("out:0", {"x:0": np.array([1, 0, 4], "i4")})


def test_nothing_happens_behind_the_first_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFJIT_JIT", "lazy")
    monkeypatch.setattr(plan_warm_start, "read", lambda key: None)  # as with an empty cache
    for decision in ("passes_pay", "builders_pay"):
        monkeypatch.setattr(first_run, decision, lambda *args: False)
    jobs: list[Any] = []
    monkeypatch.setattr(BACKGROUND, "submit", lambda *job: jobs.append(job))
    with tfjit.Session(graph=random_graph(400, 3)) as session:
        seen: list[int] = []
        run = Variant.run
        monkeypatch.setattr(Variant, "run", lambda *args: (seen.append(len(jobs)), run(*args))[1])
        first = session.run("out:0", FEEDS)
        assert seen[0] == 0
        assert len(jobs) == 1
        monkeypatch.undo()
        BACKGROUND.submit(*jobs[0])
        (plan,) = session._runtime_session.plan_cache.plans()
        (variant,) = plan.variants.values()
        variant.upgrade()
        assert variant.compile_done.wait(300)
        assert variant.report is not None
        assert variant.step is not None
        np.testing.assert_allclose(session.run("out:0", FEEDS), first, 1e-5, 1e-6)


@pytest.mark.parametrize("nodes", [20, 400])
def test_runs_with_options_are_compiled_too(nodes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFJIT_JIT", "lazy")
    with tfjit.Session(graph=random_graph(nodes, 5)) as session:
        metadata = tfjit.RunMetadata()
        options = tfjit.RunOptions(output_partition_graphs=True)
        first = session.run("out:0", FEEDS, options=options, run_metadata=metadata)
        assert metadata.partition_graphs[0].node
        (plan,) = session._runtime_session.plan_cache.plans()
        (variant,) = plan.variants.values()
        variant.upgrade()
        assert variant.compile_done.wait(300)
        assert variant.inline is not None
        np.testing.assert_allclose(session.run("out:0", FEEDS, options=options), first, 1e-5, 1e-6)
