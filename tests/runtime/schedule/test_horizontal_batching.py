"""Bundles: what may run at the same time, how it is cut, and that values, errors and variables do
not depend on it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

import tfjit
from tfjit.framework import errors
from tfjit.kernels.executor.thread_pool import IntraOpPool
from tfjit.kernels.jit.target import available_cpus
from tfjit.runtime.plan.variant import Variant
from tfjit.runtime.schedule import horizontal_batching
from tfjit.runtime.step.step import Step

tf1 = tf.compat.v1


@pytest.fixture(autouse=True)
def _eager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFJIT_JIT", "eager")
    monkeypatch.setenv("TFJIT_THREADS", "2")


@pytest.fixture
def eagerly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that may be bundled is, however little it gains."""
    monkeypatch.setattr(horizontal_batching, "LEAST_NS", 0.0)
    monkeypatch.setattr(horizontal_batching, "_GAIN_NS", -1e9)


@pytest.fixture(scope="module")
def pool() -> Iterator[IntraOpPool]:
    made = IntraOpPool(8)
    yield made
    made.stop()


LAUNCHES = st.lists(st.tuples(st.floats(1, 1e6), st.just(1)), min_size=1, max_size=4)
SHARED = st.tuples(st.floats(1, 1e6), st.integers(1, 32)).map(lambda launch: [launch])


@given(st.lists(st.one_of(LAUNCHES, SHARED), min_size=1, max_size=40), st.integers(2, 16))
def test_every_chunk_of_every_launch_is_done_once(
    members: list[list[tuple[float, int]]], threads: int
) -> None:
    chunks = horizontal_batching.cut(members, threads)
    assert all(chunks)
    assert len(chunks) <= horizontal_batching.CHUNKS_PER_THREAD * threads + 1
    done = [item for items in chunks for item in items]
    wanted = [
        (m, n, chunk, size)
        for m, launches in enumerate(members)
        for n, (_, size) in enumerate(launches)
        for chunk in range(size)
    ]
    assert sorted(done) == wanted
    for items in chunks:  # launches that wait for each other: one chunk, in their order
        for m, launches in enumerate(members):
            mine = [n for member, n, _, _ in items if member == m]
            assert len(launches) == 1 or mine in ([], list(range(len(launches))))


def variant_of(session: tfjit.Session, fetch: str) -> Variant:
    (variant,) = next(
        plan
        for plan in session._runtime_session.plan_cache.plans()
        if fetch in plan.fetches + plan.targets
    ).variants.values()
    variant.upgrade()
    assert variant.compile_done.wait(300)
    return variant


def overlap(a: tuple[int, int], b: tuple[int, int]) -> bool:
    return a[0] < b[0] + b[1] and b[0] < a[0] + a[1]


def check_order(step: Step, variant: Variant) -> int:
    """What the order of a step must be; returns how many bundles it has."""
    layout, lowered = step.layout, variant.lowered
    assert lowered is not None
    assert sorted(id(i) for members in layout.schedule for i in members) == sorted(
        id(i) for i in lowered.instructions
    )
    place = {id(i): n for n, members in enumerate(layout.schedule) for i in members}
    names = {i.node.name: place[id(i)] for i in lowered.instructions}
    graph = variant.partitions[0].graph
    for name, at in names.items():
        seen, todo = set(), [name]
        while todo:  # everything before it, by data and control
            for source in graph.predecessors(todo.pop()):
                assert names.get(source, -1) < at
                if source not in seen:
                    seen.add(source)
                    todo.append(source)
    for earlier, later in horizontal_batching._accesses(lowered.instructions):
        assert place[id(lowered.instructions[earlier])] < place[id(lowered.instructions[later])]
    for members in layout.schedule:
        for a, b in combinations(members, 2):
            for first, second in ((a, b), (b, a)):
                written = [memory(layout, v) for v in first.outputs] + temporaries(layout, first)
                touched = [
                    memory(layout, v) for v in (*second.inputs, *second.outputs)
                ] + temporaries(layout, second)
                assert not any(overlap(w, t) for w in written for t in touched if w[1] and t[1])
    return sum(len(members) > 1 for members in layout.schedule)


def memory(layout: Any, value: Any) -> tuple[int, int]:
    life = layout.buffers.get(value.root.index)
    return (life.offset, value.root.spec.nbytes) if life is not None else (0, 0)


def temporaries(layout: Any, instruction: Any) -> list[tuple[int, int]]:
    return [
        (life.offset, life.nbytes)
        for (owner, _), life in layout.placement.temps.items()
        if owner == id(instruction)
    ]


def branches(seed: int) -> tf1.Graph:
    """x -> out: branches that draw on each other now and then, of ops that do not all fuse.

    Each ends with an operation that nothing fuses with, so that the groups, and their kernels, are
    the same few in all graphs.
    """
    rng = random.Random(seed)
    with tf1.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [33, 33], name="x")
        rows = list(range(32, -1, -1))
        heads: list[Any] = [tf.gather(x * (1 + 0.1 * k), rows) for k in range(6)]
        ops = [
            lambda v: tf.cumsum(tf.tanh(v) * 0.1),
            lambda v: tf.gather(tf.matmul(v, v) * 0.01, rows),
            lambda v: tf.cumsum(tf.nn.softmax(v)),
            lambda v: tf.gather(tf.transpose(tf.sigmoid(v)), rows),
            lambda v: tf.gather(tf.reverse(v, [1]) + 0.5, rows),
            lambda v: tf.gather(v - tf.reduce_mean(v, 0), rows),
            lambda v: tf.gather(v, rows),
            lambda v: tf.reshape(tf.nn.top_k(v, 33).values, [33, 33]),
        ]
        for _ in range(50):
            k = rng.randrange(len(heads))
            heads[k] = rng.choice(ops)(heads[k])
            if rng.random() < 0.15:
                heads[k] = tf.gather(heads[k] + rng.choice(heads), rows)
        tf.add_n(heads, name="out")
        tf.identity(heads[0], name="head")
    return graph


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize(
    ("seed", "fused"), [(0, True), (1, True), *((seed, False) for seed in range(4))]
)
def test_values_of_branches(
    seed: int, fused: bool, pool: IntraOpPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, fetches = branches(seed), ["head:0", "out:0"]  # in the plan's order
    feeds = {"x:0": np.random.default_rng(seed).standard_normal((33, 33)).astype("f4")}
    off = "" if fused else "fuse"
    with tf1.Session(graph=graph) as theirs:
        expected = theirs.run(fetches, feeds)
    monkeypatch.setenv("TFJIT_DISABLE", f"{off},bundle")
    with tfjit.Session(graph=graph) as session:
        plain = session.run(fetches, feeds)
        assert not session.explain(fetches, {"x:0": (33, 33)}).bundles
    monkeypatch.setenv("TFJIT_DISABLE", off)
    with tfjit.Session(graph=graph) as session:
        found = session.run(fetches, feeds)
        variant = variant_of(session, "out:0")
        assert variant.step is not None
        assert check_order(variant.step, variant) > 3
        assert list(variant.plan.fetches) == fetches
        environment = session._runtime_session.step_environment(variant.partitions[0].device)
        wide = Step(variant.lowered, replace(environment, pool=lambda: pool, threads=8), "wide")
        assert check_order(wide, variant) > 3
        one = replace(environment, pool=lambda: None, threads=1, inter_op_threads=1)
        alone = Step(variant.lowered, one, "alone")
        assert not alone.bundles
        runs = [wide.run([feeds["x:0"]]) for _ in range(20)]
        single = alone.run([feeds["x:0"]])
        explanation = session.explain(fetches, {"x:0": (33, 33)}, measure=True)
    assert explanation.bundles
    assert "bundles, whose launches" in explanation.details()
    for got in (found, *runs):
        for a, b in zip(got, plain, strict=True):
            np.testing.assert_array_equal(a, b)
    for got in (plain, single):
        for a, b in zip(got, expected, strict=True):
            np.testing.assert_allclose(a, b, 1e-3, 1e-4)


def updates(optimizer: Any, resource: bool, sizes: tuple[int, ...]) -> tf1.Graph:
    """x -> train: an update of each variable by a gradient that needs x; loss reads them all."""
    with tf1.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [], name="x")
        rng = np.random.default_rng(0)
        made = [
            tf1.get_variable(
                f"v{k}", initializer=rng.standard_normal(n).astype("f4"), use_resource=resource
            )
            for k, n in enumerate(sizes)
        ]
        loss = tf.add_n([tf.reduce_sum(tf.tanh(v * x)) for v in made], name="loss")
        step = tf1.get_variable("step", initializer=np.int64(0), use_resource=resource)
        optimizer.minimize(loss, global_step=step, name="train", var_list=made)
        tf1.global_variables_initializer()
    return graph


OPTIMIZERS = {
    "adam": lambda: tf1.train.AdamOptimizer(1e-2),
    "momentum": lambda: tf1.train.MomentumOptimizer(1e-2, 0.9),
    "sgd": lambda: tf1.train.GradientDescentOptimizer(1e-2),
    "adagrad": lambda: tf1.train.AdagradOptimizer(1e-2),
}
SIZES = (1, 7, 64, 1000, 4096, 4097, 5000, 20000, 3, 1024)


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("resource", [False, True], ids=["reference", "resource"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_many_updates(name: str, resource: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """On one, two and eight threads, of one graph and beside one session of TensorFlow's."""
    with tf1.Graph().as_default():
        graph = updates(OPTIMIZERS[name](), resource, SIZES)
    variables = graph.get_collection(tf1.GraphKeys.GLOBAL_VARIABLES)
    feeds = [{"x:0": np.float32(0.5 + 0.1 * k)} for k in range(10)]
    with tf1.Session(graph=graph) as theirs:
        theirs.run("init")
        losses = [theirs.run(["loss:0", "train"], feed)[0] for feed in feeds]
        trained = theirs.run(variables)
    for threads in (1, 2, 8):
        monkeypatch.setenv("TFJIT_THREADS", str(threads))
        with tfjit.Session(graph=graph) as ours:
            ours.run("init")
            for feed, wanted in zip(feeds, losses, strict=True):
                found, _ = ours.run(["loss:0", "train"], feed)
                np.testing.assert_allclose(found, wanted, 1e-4, 1e-3)
            for variable, value in zip(variables, trained, strict=True):
                np.testing.assert_allclose(
                    ours.run(variable), value, 1e-3, 1e-5, err_msg=variable.name
                )
            variant = variant_of(ours, "loss:0")
            assert variant.step is not None
            count = check_order(variant.step, variant)
            assert count == 0 if threads == 1 else count > 0


@pytest.mark.parametrize(
    ("intra", "inter", "executor", "bundled"),
    [
        (1, 2, "", True),
        (1, 1, "", False),
        (1, -1, "", False),
        (1, 2, "SINGLE_THREADED_EXECUTOR", False),
        (2, 1, "", False),
    ],
)
def test_chains_of_single_threaded_products_overlap_on_inter_op_threads(
    intra: int, inter: int, executor: str, bundled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TFJIT_THREADS")
    config = tfjit.ConfigProto(
        intra_op_parallelism_threads=intra,
        inter_op_parallelism_threads=inter,
        use_per_session_threads=True,
    )
    config.experimental.executor_type = executor
    with tf1.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [192, 192], name="x")
        ends = []
        for k in range(2):
            y = x * (k + 1.0)
            for _ in range(4):
                y = tf.tanh(tf.matmul(y, x))
            ends.append(y)
        tf.concat(ends, 0, name="out")
    value = np.random.default_rng(0).standard_normal((192, 192)).astype("f4")
    with tf1.Session(graph=graph) as theirs, tfjit.Session(graph=graph, config=config) as ours:
        found = ours.run("out:0", {"x:0": value})
        np.testing.assert_allclose(found, theirs.run("out:0", {"x:0": value}), 1e-3, 1e-4)
        bundles = ours.explain("out:0", {"x:0": (192, 192)}).bundles
    assert bool(bundles) == (bundled and available_cpus() > 1)


def test_updates_of_a_middling_size_are_bundled_and_tiny_ones_are_not() -> None:
    for size, wanted in ((4096, [26]), (16, [])):
        with tf1.Graph().as_default() as graph:
            made = [
                tf1.get_variable(f"v{k}", initializer=np.zeros(size, "f4"), use_resource=True)
                for k in range(26)
            ]
            pairs = [(tf.constant(np.full(size, k, "f4")), v) for k, v in enumerate(made)]
            tf1.train.AdamOptimizer(1e-3).apply_gradients(pairs, name="train")
            tf1.global_variables_initializer()
        with tfjit.Session(graph=graph) as session:
            session.run("init")
            assert [len(names) for names in session.explain("train", {}).bundles] == wanted


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("resource", [False, True], ids=["reference", "resource"])
def test_reads_and_writes_of_one_variable_keep_their_order(resource: bool) -> None:
    with tf1.Graph().as_default() as graph:
        v = tf1.get_variable("v", initializer=np.arange(4000, dtype="f4"), use_resource=resource)
        w = tf1.get_variable("w", initializer=np.ones(4000, "f4"), use_resource=resource)
        before = tf.cumsum(v.read_value(), name="before")
        with tf.control_dependencies([before]):
            changed = tf1.assign(v, w.read_value() * 2 + 1)
        with tf.control_dependencies([tf.group(changed)]):
            after = tf.cumsum(v.read_value(), name="after")
            other = tf1.assign(w, tf.reverse(w.read_value(), [0]) + 1)
        with tf.control_dependencies([after, other]):
            tf.add(v.read_value(), w.read_value(), name="end")
        tf1.global_variables_initializer()
    fetches = ["before:0", "after:0", "end:0"]
    with tf1.Session(graph=graph) as theirs, tfjit.Session(graph=graph) as ours:
        theirs.run("init")
        ours.run("init")
        for _ in range(4):
            for found, wanted in zip(ours.run(fetches), theirs.run(fetches), strict=True):
                np.testing.assert_allclose(found, wanted, 1e-5)
        variant = variant_of(ours, "end:0")
        assert variant.step is not None
        check_order(variant.step, variant)


@pytest.mark.usefixtures("eagerly")
def test_an_error_names_its_node_and_the_next_run_is_whole() -> None:
    with tf1.Graph().as_default() as graph:
        table = tf.constant(np.arange(3000, dtype="f4").reshape(1000, 3))
        made = []
        for k in range(5):
            index = tf1.placeholder(tf.int32, [400], name=f"i{k}")
            made.append(tf.gather(table, index, name=f"look{k}"))
        tf.concat([tf.reverse(m, [0]) for m in made], 0, name="out")
    rng = np.random.default_rng(0)
    good = {f"i{k}:0": rng.integers(0, 1000, 400).astype("i4") for k in range(5)}
    with tf1.Session(graph=graph) as theirs, tfjit.Session(graph=graph) as ours:
        wanted = theirs.run("out:0", good)
        np.testing.assert_array_equal(ours.run("out:0", good), wanted)
        variant = variant_of(ours, "out:0")
        assert variant.step is not None
        assert any(
            sum("look" in i.node.name for i in members) > 1 for members in variant.step.bundles
        )
        for bad in ((3,), (0,), (4, 1), (0, 1, 2, 3, 4)):
            feeds = {name: array.copy() for name, array in good.items()}
            for k in bad:
                feeds[f"i{k}:0"][17] = 1000 + k
            with pytest.raises(errors.InvalidArgumentError) as caught:
                ours.run("out:0", feeds)
            assert any(
                f"look{k}" in str(caught.value) and str(1000 + k) in str(caught.value) for k in bad
            )
            np.testing.assert_array_equal(ours.run("out:0", good), wanted)
