"""Generic variants: feed shapes never seen are served by code for symbolic sizes, with the values
of TensorFlow; small, empty and other shapes by ordinary variants.
"""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tfjit
from tfjit.kernels.jit.store import store
from tfjit.kernels.source import KernelSource
from tfjit.runtime.lowering.lowering import native_call
from tfjit.runtime.plan.background import BACKGROUND
from tfjit.runtime.plan.generic_variant import GenericVariant
from tfjit.runtime.plan.plan import Plan
from tfjit.runtime.plan.size_class import SizeClass
from tfjit.runtime.plan.upgrades import unfinished
from tfjit.runtime.plan.variant import Variant
from tfjit.runtime.sizes import traced_calls
from tfjit.runtime.sizes.size_formulas import NotGeneric
from tfjit.runtime.sizes.size_samples import LEAST, SymbolicShapes, corners

tf1 = tf.compat.v1

FEATURES = 6


def _weights(*shape: int) -> Any:
    return tf.constant(np.random.default_rng(len(shape)).standard_normal(shape, "f4") * 0.5)


def _mlp(x: Any) -> list[Any]:
    """A layer, a mean over the batch and its gradients, which divide by the batch."""
    w = tf1.get_variable("w", initializer=_weights(FEATURES, 5))
    h = tf.nn.relu(tf.matmul(x, w) + _weights(5))
    loss = tf.reduce_mean(tf.square(h - 1.0))
    return [loss, h, *tf.gradients(loss, [w, x])]


def _shapes(x: Any) -> list[Any]:
    """Sizes as values: they make shapes, and numbers beside the data."""
    n = tf.shape(x)[0]
    flat = tf.reshape(x, [n * FEATURES])
    ones = tf.ones([n, 1])
    return [
        tf.reshape(flat, [n, 2, 3]) * 2.0,
        tf.concat([x, ones], 1) + tf.cast(n, tf.float32),
        tf.reduce_sum(x, 0) / tf.cast(n, tf.float32),
        tf.tile(tf.expand_dims(x, 1), [1, 3, 1]) + x[:, tf.newaxis, :],
    ]


def _rows(x: Any) -> list[Any]:
    """Reductions along both axes, and their results beside the data."""
    mean, variance = tf.nn.moments(x, [0])
    scaled = (x - mean) / tf.sqrt(variance + 1e-3)
    return [tf.nn.softmax(x), scaled, tf.reduce_max(x, 0), tf.reduce_sum(x * x, 1)]


def _feed(n: int) -> np.ndarray:
    return np.random.default_rng(n).standard_normal((n, FEATURES), "f4")


def _mask(x: Any) -> list[Any]:
    """Comparisons of sizes: a mask of a row for each size, and numbers behind a check of sizes."""
    n = tf.shape(x)[0]
    later = tf.range(n)[:, None] >= tf.range(n)
    scores = tf.matmul(x, x, transpose_b=True)
    allowed = tf.cast(later, tf.float32)
    shares = tf.nn.softmax(scores * allowed - 1e9 * (1 - allowed))
    same = tf1.assert_equal(tf.shape(shares)[0], n)
    with tf.control_dependencies([same]):
        last = tf.pad(x, [[1, 0], [0, 0]])[-1, :]
        return [tf.matmul(shares, x), last, x[: n - 1, 2:], tf.where(later, scores, -scores)]


def _attention(x: Any) -> list[Any]:
    """Attention of two heads: its kernel reads masks that depend on the size, row by row."""
    n = tf.shape(x)[0]
    heads = tf.transpose(tf.reshape(x, [1, n, 2, 3]), [0, 2, 1, 3])
    allowed = tf.reshape(tf.cast(tf.range(n)[:, None] >= tf.range(n), tf.float32), [1, 1, n, n])
    scores = tf.matmul(heads, heads, transpose_b=True) * 0.5
    shares = tf.nn.softmax(scores * allowed - 1e9 * (1 - allowed))
    return [tf.reshape(tf.transpose(tf.matmul(shares, heads), [0, 2, 1, 3]), [n, FEATURES])]


MODELS: dict[str, Callable[[Any], list[Any]]] = {
    "mlp": _mlp,
    "shapes": _shapes,
    "rows": _rows,
    "mask": _mask,
    "attention": _attention,
}


class Program:
    """One model in TensorFlow and in tfjit, with the plan that serves it."""

    def __init__(self, model: str) -> None:
        self.graph = tf1.Graph()
        with self.graph.as_default():
            self.x = tf1.placeholder(tf.float32, [None, FEATURES])
            self.fetches = MODELS[model](self.x)
            start = tf1.global_variables_initializer()
        self.oracle, self.session = tf1.Session(graph=self.graph), tfjit.Session(graph=self.graph)
        self.oracle.run(start)
        self.session.run(start)

    def check(self, n: int) -> None:
        batch = _feed(n)
        expected = self.oracle.run(self.fetches, {self.x: batch})
        for found, value in zip(self.session.run(self.fetches, {self.x: batch}), expected):
            assert np.shape(found) == np.shape(value)
            np.testing.assert_allclose(found, value, rtol=1e-4, atol=1e-5)

    @property
    def plan(self) -> Plan:
        plans = self.session._runtime_session.plan_cache.plans()
        return next(plan for plan in plans if plan.feeds)

    def generic(self) -> GenericVariant:
        """The generic variant, once it serves."""
        end = time.monotonic() + 300
        while self.plan.generic is None or not self.plan.generic.ready:
            assert time.monotonic() < end, "no generic variant"
            time.sleep(0.01)
        return self.plan.generic


@pytest.fixture(scope="module", params=MODELS)
def program(request: pytest.FixtureRequest) -> Program:
    made = Program(request.param)
    for n in (9, 14, 30):
        made.check(n)
    made.generic()
    assert made.session.wait_until_compiled(300)
    return made


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.integers(0, 140))
def test_any_size_gives_tensorflows_values(program: Program, n: int) -> None:
    program.check(n)


def test_new_sizes_make_no_variants(program: Program) -> None:
    generic = program.generic()
    (low, high), *_ = generic.bounds
    for n in (50, 100):  # the kernels of two size classes
        program.check(n)
    assert program.session.wait_until_compiled(300)
    before = len(program.plan.variants)
    for n in (35, 36, 41, 64, 63, 77):
        assert low <= n <= high
        program.check(n)
    assert len(program.plan.variants) == before


def test_sizes_that_change_what_broadcasts_have_ordinary_variants(program: Program) -> None:
    for n in (0, 1, 2):
        program.check(n)
        assert ((n, FEATURES),) in program.plan.variants


def test_a_size_that_repeats_gets_a_variant_of_its_own(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tfjit.runtime.plan.generic_variant.REPEATS", 3)
    prepared: list[Any] = []
    monkeypatch.setattr(program.plan, "prepare", prepared.append)
    program.generic()._bindings.clear()
    for _ in range(4):
        program.check(52)
    assert prepared == [((52, FEATURES),)]


def test_threads_with_different_sizes_do_not_mix(program: Program) -> None:
    failures: list[BaseException] = []

    def work(sizes: list[int]) -> None:
        try:
            for n in sizes * 6:
                program.check(n)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=([20 + k, 45 - k, 33],)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@pytest.mark.parametrize("resource", [False, True], ids=["reference", "resource"])
def test_updates_of_any_number_of_rows(resource: bool) -> None:
    """An embedding's rows are read, updated by an optimizer's rule, and scattered into."""
    raw = tf.raw_ops
    with tf1.Graph().as_default() as graph:
        index = tf1.placeholder(tf.int32, [None])
        table = tf1.get_variable("table", initializer=_weights(20, FEATURES), use_resource=resource)
        squares = tf1.get_variable("squares", initializer=tf.ones([20, FEATURES]),
                                   use_resource=resource)  # fmt: skip
        gradient = tf.gather(table, tf.minimum(index, 19)) * 0.5
        rows = {"lr": 0.1, "grad": gradient, "indices": index}
        if resource:
            update = raw.ResourceSparseApplyAdagrad(var=table.handle, accum=squares.handle, **rows)
        else:
            update = raw.SparseApplyAdagrad(var=table, accum=squares, **rows).op
        with tf.control_dependencies([gradient, update]):
            if resource:
                added = raw.ResourceScatterAdd(
                    resource=table.handle, indices=index, updates=gradient
                )
            else:
                added = raw.ScatterAdd(ref=table, indices=index, updates=gradient).op
        with tf.control_dependencies([added]):
            result = table.read_value() * 1.0
        start = tf1.global_variables_initializer()
    random = np.random.default_rng(5)
    with tf1.Session(graph=graph) as oracle, tfjit.Session(graph=graph) as session:
        oracle.run(start)
        session.run(start)

        def check(n: int) -> None:
            feed = {index: random.integers(0, 20, n)}
            np.testing.assert_allclose(
                session.run(result, feed), oracle.run(result, feed), rtol=1e-4, atol=1e-6
            )

        for n in (9, 14, 30):
            check(n)
        (plan,) = (p for p in session._runtime_session.plan_cache.plans() if p.feeds)
        end = time.monotonic() + 300
        while plan.generic is None or not plan.generic.ready:
            assert time.monotonic() < end, "no generic variant"
            time.sleep(0.01)
        before = len(plan.variants)
        for n in (35, 50, 21, 63, 33):
            check(n)
        for n in (41, 63):  # the message names the place, whichever size the code was made for
            with pytest.raises(
                tfjit.errors.InvalidArgumentError, match=f"Index 20 at offset {n - 1} "
            ):
                session.run(result, {index: [*[3] * (n - 1), 20]})
        assert len(plan.variants) == before


def test_a_variable_of_another_shape_goes_to_the_ordinary_variant() -> None:
    with tf1.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [None])
        v = tf1.Variable(tf.constant(2.0), use_resource=True, shape=tf.TensorShape(None))
        y, change = x * v, v.assign(tf.constant([3.0]))
        start = tf1.global_variables_initializer()
    with tfjit.Session(graph=graph) as session:
        session.run(start)
        for n in (4, 7, 9, 12):
            np.testing.assert_allclose(session.run(y, {x: np.ones(n, "f4")}), np.full(n, 2.0))
        session.run(change)
        np.testing.assert_allclose(session.run(y, {x: np.ones(13, "f4")}), np.full(13, 3.0))


@pytest.mark.parametrize(
    "decide",
    [
        lambda x, n: tf.cond(n > 20, lambda: x * 2.0, lambda: x),
        lambda x, n: x * tf.cast(n % 2, tf.float32),
        lambda x, n: x + tf.cast(tf.equal(n, 33), tf.float32),
        lambda x, n: x[: tf.minimum(n, 25)],
        lambda x, n: x + tf.reduce_sum(tf.cast(tf.equal(tf.range(n), 33), tf.float32)),
        lambda x, n: x + tf.cast(tf.reduce_any(tf.equal(tf.range(n), 33)), tf.float32),
    ],
    ids=["cond", "remainder", "equal", "minimum", "sum", "any"],
)
def test_sizes_that_decide_are_decided_for_each(decide: Callable[[Any, Any], Any]) -> None:
    with tf1.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [None])
        y = decide(x, tf.shape(x)[0])
    with tf1.Session(graph=graph) as oracle, tfjit.Session(graph=graph) as session:
        for n in (10, 15, 30, 12, 33, 34, 21, 20):
            batch = np.arange(n, dtype="f4")
            np.testing.assert_array_equal(
                session.run(y, {x: batch}), oracle.run(y, {x: batch}), err_msg=str(n)
            )
            time.sleep(0.02)  # for the background's build


def test_lengths_that_vary_apart_share_few_size_classes() -> None:
    with tf1.Graph().as_default() as graph:
        lists = [tf1.placeholder(tf.float32, [None, FEATURES]) for _ in range(3)]
        y = tf.concat([tf.reduce_sum(tf.nn.relu(x), 0) for x in lists], 0)
    sizes = [
        (9, 14, 20),
        (5, 30, 11),
        *[(3 + k % 26, 3 + 5 * k % 23, 3 + 7 * k % 28) for k in range(30)],
    ]
    with tf1.Session(graph=graph) as oracle, tfjit.Session(graph=graph) as session:
        for k, lengths in enumerate(sizes):
            feeds = dict(zip(lists, map(_feed, lengths)))
            found, expected = session.run(y, feeds), oracle.run(y, feeds)
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
            if k == 1:
                session.wait_until_compiled(300)
        (plan,) = session._runtime_session.plan_cache.plans()
        assert plan.generic is not None and plan.generic.ready
        assert plan.generic.builds <= 2 and len(plan.variants) <= 2


def test_passes_choose_one_form_for_all_samples() -> None:
    """Two readers of one tensor share a loop from a size on; a range of sizes has one form."""
    with tf1.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [None, 64])
        fetches = [x * 2.0, tf.transpose(tf.exp(x)), tf.sqrt(tf.abs(x)), tf.reduce_sum(x, 0)]
    with tfjit.Session(graph=graph) as session:
        host = session._runtime_session
        for rows in (4, 900):
            session.run(fetches, {x: np.ones((rows, 64), "f4")})
        (plan,) = host.plan_cache.plans()
        texts = []
        for rows in (5, 901):
            partitions, _ = plan.build(((rows, 64),), sampled=True)
            texts.append([(node.name, node.op) for node in partitions[0].graph.op_nodes()])
        assert texts[0] == texts[1]


def _feed(n: int) -> np.ndarray:
    return np.random.default_rng(n).standard_normal((n, FEATURES), "f4")


@pytest.fixture(scope="module")
def compiled_mlp() -> None:
    """The kernels of a model, loaded."""
    made = Program("mlp")
    for n in (9, 14, 30):
        made.check(n)
    made.generic()
    made.session.wait_until_compiled(300)


def test_the_run_with_the_second_shape_builds_the_generic_variant(
    compiled_mlp: None,
) -> None:
    made = Program("mlp")
    for n in (9, 14):
        made.check(n)
    plan = made.plan
    assert plan.generic is not None and plan.generic.ready
    for n in (30, 47, 25):
        made.check(n)
    assert list(plan.variants) == [((9, FEATURES),)]


def test_an_upgrade_waits_while_the_generic_variant_serves(
    compiled_mlp: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Variant, "_start_compiled", lambda self, known: False)
    monkeypatch.setattr("tfjit.runtime.plan.generic_variant.REPEATS", 3)
    jobs: list[Callable[[], None]] = []
    monkeypatch.setattr(BACKGROUND, "submit", lambda job, share: jobs.append(job))
    made = Program("mlp")
    for n in (9, 14, 9):  # the last one is a run of the generic variant
        made.check(n)
    plan = made.plan
    variant = plan.variants[(9, FEATURES),]
    while jobs:
        jobs.pop(0)()
    assert not variant.compile_done.is_set() and variant not in unfinished(plan.session)
    for _ in range(3):
        made.check(9)
    assert unfinished(plan.session)
    while jobs:
        jobs.pop(0)()
    assert variant.inline is not None and not unfinished(plan.session)


def test_sizes_that_it_does_not_serve_start_no_generic_variant(compiled_mlp: None) -> None:
    made = Program("mlp")
    for n in (1, 2, 9, 0):
        made.check(n)
    assert made.plan.generic is None and len(made.plan.variants) == 4
    made.check(14)
    assert made.plan.generic is not None and len(made.plan.variants) == 4


def test_a_large_graph_builds_its_generic_variant_in_the_background(
    compiled_mlp: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tfjit.runtime.plan.met_shapes._AT_ONCE_NODES", 0)
    jobs: list[Callable[[], None]] = []
    monkeypatch.setattr(BACKGROUND, "submit", lambda job, share: jobs.append(job))
    made = Program("mlp")
    for n in (9, 14):
        made.check(n)
    assert made.plan.generic is None and len(made.plan.variants) == 2
    while made.plan.generic is None:
        jobs.pop(0)()
    assert made.plan.generic.ready


def test_attention_with_masks_of_the_size_gets_its_own_kernel() -> None:
    made = Program("attention")
    for n in (9, 14, 30):
        made.check(n)
    assert made.session.wait_until_compiled(300)
    generic = made.generic()
    for n in (30, 21, 17):
        made.check(n)
    known = next(known for known in generic.classes if known.covers((30,)))
    owners = [one for run in known.step.layout.native_runs for one in run.owners]
    titles = [one.launch.source.title for launch in owners for one in launch]
    assert not known.wanted and any("attention" in title for title in titles)


@pytest.mark.parametrize("fused", [False, True])
def test_batches_and_lengths_that_vary_share_code(fused: bool) -> None:
    """The places of a batch's matrices are found at the step, with attention and without."""
    with tf1.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [None, None, 8])
        n, length = tf.shape(x)[0], tf.shape(x)[1]
        heads = tf.transpose(tf.reshape(x, [n, length, 2, 4]), [0, 2, 1, 3])
        scores = tf.matmul(heads, heads, transpose_b=True) * 0.3
        shares = tf.nn.softmax(scores) if fused else scores
        y = tf.reshape(tf.transpose(tf.matmul(shares, heads), [0, 2, 1, 3]), [n, length, 8])
        z = tf.reduce_sum(tf.matmul(x, x, transpose_a=True), [1, 2])
    rng = np.random.default_rng(0)
    with tf1.Session(graph=graph) as oracle, tfjit.Session(graph=graph) as session:
        for k in range(40):
            shape = (3 + 5 * k % 14, 10 + 7 * k % 23, 8)
            feeds = {x: rng.standard_normal(shape, "f4")}
            for found, expected in zip(session.run([y, z], feeds), oracle.run([y, z], feeds)):
                np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)
            (plan,) = session._runtime_session.plan_cache.plans()
            if k < 20:  # the first sizes are learned from
                assert session.wait_until_compiled(300)
                known = len(plan.variants)
        assert plan.generic is not None and plan.generic.ready
        assert len(plan.variants) == known


def _layers(x: Any, count: int) -> Any:
    """Equal layers with weights of their own, and a mask of the size between them."""
    n = tf.shape(x)[0]
    later = tf.cast(tf.range(n)[:, None] >= tf.range(n), tf.float32)
    for number in range(count):
        w = tf1.get_variable(f"w{number}", initializer=_weights(FEATURES, FEATURES) * 0.1)
        x = tf.matmul(later, tf.tanh(tf.matmul(x, w)))
    return x


def test_a_range_without_formulas_is_narrowed(monkeypatch: pytest.MonkeyPatch) -> None:
    def best(x: Any) -> list[Any]:
        count = tf.minimum(tf.shape(x)[0], 20)  # no formula below 20 rows
        values, rows = tf.nn.top_k(tf.reduce_sum(x, 1), count)
        return [values, tf.gather(x, rows) * 2.0]

    monkeypatch.setitem(MODELS, "best", best)
    made = Program("best")
    for n in (40, 47, 44):
        made.check(n)
    generic = made.generic()
    (low, high), *_ = generic.bounds
    assert 20 <= low <= 40 and high >= 47
    for n in (41, 45, 12, 100):
        made.check(n)


def test_equal_layers_share_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODELS, "layers", lambda x: [_layers(x, 5)])
    made = Program("layers")
    for n in (9, 14, 30):
        made.check(n)
    generic = made.generic()
    instructions = generic.partition.instructions
    products = [one for one in instructions if one.spec and one.instruction.node.op != "Const"]
    assert len({one.alike for one in products}) < len(products) / 2
    asked: list[str] = []

    def counted(backend: Any, spec: Any) -> Any:
        asked.append(spec.name)
        return native_call(backend, spec)

    monkeypatch.setattr(traced_calls, "native_call", counted)
    SizeClass(generic, (30,))
    assert 0 < len(asked) < len(products)  # members of a group among them
    made.check(29)


def test_further_size_classes_wait_for_the_kernels_of_groups(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = Program("mlp")
    for n in (9, 14, 30):
        made.check(n)
    generic = made.generic()
    waiting: list[tuple[list[Any], Callable[[], None]]] = []
    submitted: list[Any] = []
    monkeypatch.setattr(store, "when_ready", lambda *args: waiting.append(args))
    monkeypatch.setattr(generic, "_submit", lambda job, share: submitted.append(job))
    generic.classes[0].wanted = [KernelSource("missing", (), module=__name__)]
    generic.make_more_later()
    ((sources, go_on),) = waiting
    assert sources == [one for known in generic.classes for one in known.wanted] and not submitted
    go_on()
    assert submitted == [generic.make_more]


def test_groups_run_member_by_member_until_their_kernels_arrive(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with tf1.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [None, FEATURES])
        y = tf.nn.relu(x * 2.0 - 1.0)
    with tfjit.Session(graph=graph) as session:
        for n in (9, 14, 30):
            session.run(y, {x: _feed(n)})
        session.wait_until_compiled(300)
        (plan,) = session._runtime_session.plan_cache.plans()
        generic = plan.generic
        (group,) = (i.spec for one in generic.partition.instructions if (i := one.instruction).spec)
        whole, _ = native_call(generic.backend, group)
        members = generic.backend.member_call(
            group.attrs["group"], {}, lambda spec: native_call(generic.backend, spec)[0]
        )
        store.compile(members.sources())
        with monkeypatch.context() as patch:
            present = traced_calls.is_present
            patch.setattr(
                traced_calls, "is_present", lambda s: s not in whole.sources() and present(s)
            )
            made = SizeClass(generic, (30,))
        assert made.wanted == list(whole.sources())
        feed = _feed(30)
        (found,) = made.run(made.bind((30,)), [feed])
        np.testing.assert_allclose(found, np.maximum(feed * 2 - 1, 0), rtol=1e-6)
        generic._classes[:] = [made]
        generic._replace_class(made, (30,))
        (better,) = generic.classes
        assert better is not made and better.covers((30,)) and not better.wanted


def test_closed_sessions_are_freed() -> None:
    made = Program("mlp")
    for n in (9, 14, 30):
        made.check(n)
    generic = weakref.ref(made.generic())
    made.check(40)
    gc.collect()
    gc.disable()
    try:
        made.session.close()
        del made
        end = time.monotonic() + 60
        while generic() is not None and time.monotonic() < end:  # the background job's own frame
            time.sleep(0.02)
        assert generic() is None
    finally:
        gc.enable()


def test_sizes_that_vary_together_are_one_symbol() -> None:
    shapes = SymbolicShapes([((4, 9), (4,)), ((6, 9), (6,)), ((5, 9), (5,))])
    assert shapes.count == 1 and shapes.sizes(((8, 9), (8,))) == (8,)
    assert shapes.sizes(((8, 9), (7,))) is None and shapes.sizes(((8, 3), (8,))) is None
    assert shapes.shapes((8,)) == ((8, 9), (8,))


def test_ranks_do_not_vary() -> None:
    with pytest.raises(NotGeneric, match="ranks"):
        SymbolicShapes([((4, 9),), ((6,),), ((5, 9),)])


def test_samples_have_all_remainders_and_different_sizes() -> None:
    shapes = SymbolicShapes([((4, 20),), ((16, 30),), ((33, 25),)])
    low, high = shapes.ranges()[0]
    ends = corners(low, high)
    between = shapes.between(ends, {16, 20}, 4)
    for k in range(2):
        assert {sizes[k] % 4 for sizes in between} == {0, 1, 2, 3}
    assert all(len(set(sizes)) == 2 for sizes in [*ends, *between])
    assert {min(column) for column in zip(*ends)} == {LEAST}


def test_ranges_are_tried_from_the_widest_to_halves_of_the_sizes_seen() -> None:
    ranges = SymbolicShapes([((40,),), ((60,),)]).ranges()
    assert ranges[:2] == [((3,), (245,)), ((9,), (245,))]  # odd: sizes of layers are even
    widths = [high - low for (low,), (high,) in ranges]
    assert widths == sorted(widths, reverse=True)
    assert all(low[0] >= 39 and high == (61,) for low, high in ranges[-3:])


def test_one_sample_between_odd_ends_is_even() -> None:
    shapes = SymbolicShapes([((40,),), ((60,),)])
    (sample,) = shapes.between([(9,), (245,)], set(), 1)
    assert sample[0] % 2 == 0
