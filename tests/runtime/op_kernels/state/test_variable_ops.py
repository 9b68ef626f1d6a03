"""Variables and random streams: the same course of runs on TensorFlow's session and on tfjit's
gives the same values and errors.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tests import hardware
from tfjit.passes.text.text_format import parse_graph
from tfjit.runtime.op_kernels.state.variable_ops import variable_op

tf1 = tf.compat.v1

MODES = {
    "eager": {"TFJIT_JIT": "eager"},
    "off": {"TFJIT_JIT": "off"},
    "dataflow": {"TFJIT_JIT": "lazy", "TFJIT_DISABLE": "straight_line"},
    "plain": {
        "TFJIT_JIT": "eager",
        "TFJIT_DISABLE": "fuse,fold_constants,simplify,eliminate_common_subexpressions",
    },
}


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in MODES[request.param].items():
        monkeypatch.setenv(name, value)
    return str(request.param)


# Courses that compute: TensorFlow rounds the last bit otherwise.
ROUNDED = {"optimizers", "random_streams", "a_value_read_before_a_write_and_used_after_it"}
Step = tuple[Any, dict[Any, Any]]
Course = Callable[[], list[Step]]
COURSES: dict[str, Course] = {}


def course(make: Course) -> Course:
    COURSES[make.__name__] = make
    return make


def ref(name: str, value: Any, **kw: Any) -> Any:
    return tf1.Variable(value, name=name, use_resource=False, **kw)


def res(name: str, value: Any, **kw: Any) -> Any:
    return tf1.Variable(value, name=name, use_resource=True, **kw)


V = np.arange(4, dtype="f4")


@course
def assign_and_read() -> list[Step]:
    steps: list[Step] = []
    variables = [ref("f", V), res("r", V)]
    init = tf1.global_variables_initializer()
    x = tf1.placeholder(tf.float32, [4])
    for v in variables:
        steps += [(v.read_value(), {}), (v + 1.0, {})]  # uninitialised
    steps.append((init, {}))
    for v in variables:
        read = v.read_value()
        for change in (v.assign(x), v.assign_add(x), v.assign_sub(x)):
            steps += [(change, {x: V * 3}), (read, {}), ([read, v + 1.0, tf.reduce_sum(v)], {})]
        steps.append((init, {}))
        steps.append((read, {}))
    return steps


@course
def reads_before_and_after_a_write() -> list[Step]:
    """The graph orders each read before or after the update: a fetched read of a resource must not
    see a later one.
    """
    steps: list[Step] = []
    for v in (ref("f", V), res("r", V)):
        before = v.read_value()
        doubled = before * 2.0
        moved = tf.transpose(tf.reshape(before, [2, 2]))
        flat = tf.reshape(before, [4, 1])
        with tf.control_dependencies([before, doubled, moved, flat]):
            write = v.assign_add([10.0, 10.0, 10.0, 10.0])
        with tf.control_dependencies([write]):
            after = v.read_value()
            twice = v.assign(after * 2.0)
        with tf.control_dependencies([twice]):
            end = v.read_value()
        steps += [(v.initializer, {})]
        for fetches in (
            [before, write, after],
            [before, after],
            [before, end],
            [after, before, doubled],
            [doubled, end],
            [moved, end, flat, before],
            [end],
            [flat, after],
            [moved, write],
        ):
            wanted = [t for t in fetches if t is not write]
            steps += [([wanted, write.op], {}), (v.read_value(), {})]
    return steps


@course
def a_value_read_before_a_write_and_used_after_it() -> list[Step]:
    steps: list[Step] = []
    for v in (ref("f", V), res("r", V)):
        old = tf.identity(v.read_value())
        with tf.control_dependencies([old]):
            write = v.assign(tf.fill([4], 7.0))
        with tf.control_dependencies([write]):
            late = tf.tanh(old) + old
            late_view = tf.reshape(old, [2, 2]) + 0.0
            both = old + v.read_value()
        steps += [
            (v.initializer, {}),
            ([late, late_view, both], {}),
            (v.initializer, {}),
            ([both, old], {}),
            (v.read_value(), {}),
        ]
    return steps


@course
def chains_of_updates() -> list[Step]:
    steps: list[Step] = []
    for v in (ref("f", V), res("r", V)):
        chain = []
        previous: list[Any] = []
        for i in range(5):
            with tf.control_dependencies(previous):
                update = (
                    v.assign(v.read_value() * 2.0 + float(i))
                    if i % 2
                    else v.assign_add(tf.ones([4]) * float(i))
                )
            previous = [update]
            chain.append(update)
        with tf.control_dependencies(previous):
            last = v.read_value()
        steps += [
            (v.initializer, {}),
            (last, {}),
            (last, {}),
            (chain[2].op, {}),
            (v.read_value(), {}),
        ]
    return steps


@course
def one_variable_into_another() -> list[Step]:
    a, b = ref("a", V), res("b", V * 10)
    swap_first = a.assign(b)
    with tf.control_dependencies([swap_first]):
        then = b.assign_add(a.read_value())
    init = tf1.global_variables_initializer()
    copied = [a.assign(b.read_value()), b.assign_add([1.0] * 4)]
    return [
        (init, {}),
        (then.op, {}),
        ([a.read_value(), b.read_value()], {}),
        (copied[0].op, {}),
        (copied[1].op, {}),
        ([a.read_value(), b.read_value()], {}),
    ]


@course
def initialised_from_another() -> list[Step]:
    a = res("a", tf1.random_uniform([3], seed=4))
    b = res("b", a.initial_value * 2.0)
    c = ref("c", V)
    d = ref("d", c.initial_value + 1.0)
    init = tf1.global_variables_initializer()
    return [
        (d.initializer, {}),
        (init, {}),
        ([a.read_value(), b.read_value(), c.read_value(), d.read_value()], {}),
    ]


@course
def initialisation() -> list[Step]:
    a, b, c = ref("a", V), res("b", V), ref("c", 3)
    flags = [
        tf1.is_variable_initialized(a),
        tf.raw_ops.VarIsInitializedOp(resource=b.handle),
        tf1.is_variable_initialized(c),
    ]
    names = tf1.report_uninitialized_variables()
    del names  # needs string ops of its own
    return [
        (flags, {}),
        (a.initializer, {}),
        (flags, {}),
        (b.initializer, {}),
        (flags, {}),
        (c.read_value(), {}),
        (flags, {}),
    ]


@course
def uninitialised() -> list[Step]:
    """An update of what is not there is left out for the resource: TensorFlow's error depends on
    whether its container exists.
    """
    a, b = ref("a", V), res("b", V)
    steps: list[Step] = [(a.assign_add(V).op, {}), (tf1.scatter_add(a, [0], [1.0]).op, {})]
    for v in (a, b):
        steps += [
            (v.read_value(), {}),
            (v + 1.0, {}),
            (v.initializer, {}),
            (v + 1.0, {}),
        ]
    steps.append((tf.raw_ops.DestroyResourceOp(resource=b.handle, ignore_lookup_error=False), {}))
    steps.append((b.read_value(), {}))
    return steps


@course
def shapes_that_change() -> list[Step]:
    x = tf1.placeholder(tf.float32, None)
    f = tf1.Variable(V, name="f", use_resource=False, validate_shape=False)
    r = tf1.Variable(
        V, name="r", use_resource=True, validate_shape=False, shape=tf.TensorShape(None)
    )
    known = ref("known", V)
    steps: list[Step] = [(tf1.global_variables_initializer(), {})]
    for v in (f, r):
        change = tf1.assign(v, x, validate_shape=False)
        total, double, shape = tf.reduce_sum(v), v * 2.0, tf.shape(v)
        with tf.control_dependencies([change]):
            after = v.read_value() + 1.0
            after_shape = tf.shape(v.read_value())
        for value in (V, np.ones((2, 3)), np.float32(5), np.empty((0, 2)), np.ones((5,))):
            steps += [
                ([total, double, shape], {}),
                (change.op, {x: value}),
                ([total, double, shape], {}),
                ([after, after_shape], {x: value}),
                ([after, after_shape], {x: np.ones((3, 1))}),
            ]
    change = tf1.assign(known, x, validate_shape=False)
    with tf.control_dependencies([change]):
        after = tf.reduce_sum(known.read_value())
    double = tf.reduce_sum(known * 2.0)
    for value in (V, np.ones(9), np.ones((2, 2)), V):
        steps += [
            (after, {x: value}),
            (double, {}),
            (known.assign_add(x).op, {x: value}),
            (double, {}),
        ]
    return steps


@course
def wrong_shapes() -> list[Step]:
    x = tf1.placeholder(tf.float32, None)
    f, r = ref("f", V), res("r", V)
    steps: list[Step] = [(tf1.global_variables_initializer(), {})]
    for v in (f, r):
        for change in (v.assign, v.assign_add, v.assign_sub):
            update = change(x)
            steps += [
                (update.op, {x: np.ones(3)}),
                (v.read_value(), {}),
                (update.op, {x: np.ones(4)}),
                (v.read_value(), {}),
            ]
    return steps


@course
def scatters() -> list[Step]:
    i = tf1.placeholder(tf.int32, [None])
    x = tf1.placeholder(tf.float32, [None, 2])
    base = np.arange(10, dtype="f4").reshape(5, 2)
    steps: list[Step] = []
    f, r = ref("f", base), res("r", base)
    ops: list[Any] = [
        getattr(tf1, name)(f, i, x)
        for name in (
            "scatter_update",
            "scatter_add",
            "scatter_sub",
            "scatter_mul",
            "scatter_div",
            "scatter_min",
            "scatter_max",
        )
    ]
    raw = tf.raw_ops
    ops += [
        getattr(raw, f"ResourceScatter{name}")(resource=r.handle, indices=i, updates=x)
        for name in ("Update", "Add", "Sub", "Mul", "Div", "Min", "Max")
    ]
    init = tf1.global_variables_initializer()
    steps.append((init, {}))
    for op in ops:
        operation = op if isinstance(op, tf.Operation) else op.op
        for indices in ([0, 3], [1, 1, 1], []):
            updates = np.arange(2 * len(indices), dtype="f4").reshape(-1, 2) + 1
            steps += [(operation, {i: indices, x: updates}), ([f.read_value(), r.read_value()], {})]
        steps.append((operation, {i: [0, 7], x: np.ones((2, 2))}))
        # TensorFlow has written the rows before the wrong one, tfjit has not
        steps.append((init, {}))
    gathered = [
        tf.gather(f, i),
        tf.gather(r, i),
        raw.ResourceGather(resource=r.handle, indices=i, dtype=tf.float32),
    ]
    steps += [(gathered, {i: [4, 0, 4]}), (gathered[1], {i: [5]}), (gathered[2], {i: [-1]})]
    return steps


@course
def counters() -> list[Step]:
    f = ref("f", np.int64(0), dtype=tf.int64)
    r = res("r", 0)
    count = f.count_up_to(3)
    step = tf1.assign_add(r, 1)
    return [(tf1.global_variables_initializer(), {})] + [
        (fetch, {}) for _ in range(5) for fetch in (count, step, f.read_value())
    ]


@course
def dtypes_of_variables() -> list[Step]:
    steps: list[Step] = []
    values = [np.array([1, 2], d) for d in ("f8", "f2", "i4", "i8", "u1", "bool", "c8")] + [
        np.array([b"a", b"bc"], object)
    ]
    reads = []
    for i, value in enumerate(values):
        for make in (ref, res):
            v = make(f"{make.__name__}{i}", value)
            reads.append(v.read_value())
            if value.dtype.kind in "fic":
                steps.append((v.assign_add(value).op, {}))
    return [(tf1.global_variables_initializer(), {}), (reads, {}), *steps, (reads, {})]


@course
def feeding_what_reads_a_variable() -> list[Step]:
    f, r = ref("f", V), res("r", V)
    read_f, read_r = f.value(), r.read_value()
    out = [read_f * 2.0, read_r * 3.0]
    return [
        (out, {read_f: V + 1, read_r: V + 2}),  # uninitialised, and not needed
        (tf1.global_variables_initializer(), {}),
        (out, {read_f: V + 1}),
        (out, {}),
    ]


@course
def optimizers() -> list[Step]:
    """Reference and resource variables trained side by side by ops that write them in place."""
    x = tf1.placeholder(tf.float32, [4])
    steps: list[Step] = []
    updates = []
    reads = []
    for k, (make, kind) in enumerate((m, o) for m in (ref, res) for o in range(4)):
        v = make(f"v{k}", V + k)
        loss = tf.reduce_sum(tf.square(v - x) * 0.5)
        optimizer = [
            tf1.train.GradientDescentOptimizer(0.1),
            tf1.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
            tf1.train.AdamOptimizer(0.1),
            tf1.train.RMSPropOptimizer(0.1, momentum=0.5),
        ][kind]
        updates.append(optimizer.minimize(loss, var_list=[v]))
        reads += [v.read_value(), loss]
    init = tf1.global_variables_initializer()
    steps.append((init, {}))
    for i in range(5):
        steps += [(updates, {x: V * i}), (reads, {x: V})]
    return steps


# random streams


@course
def random_streams() -> list[Step]:
    tf1.set_random_seed(1234)
    n = tf1.placeholder(tf.int32, [])
    ops = [
        tf1.random_uniform([5], seed=3),
        tf1.random_uniform([5]),
        tf1.random_uniform([5]),
        tf1.random_normal([7], seed=3),
        tf1.random_uniform([4], 0, 100, tf.int32, seed=9),
        tf1.random_uniform([3], dtype=tf.float64, seed=1),
        tf1.truncated_normal([9], seed=8),
        tf1.random_uniform(tf.reshape(n, [1]), seed=5),
        tf1.random_normal([2, 3], dtype=tf.float64, seed=2),
    ]
    both = [tf.identity(ops[0]), ops[0] * 2.0]
    steps: list[Step] = [
        (ops, {n: 3}),
        (ops[0], {}),
        (ops[1:3], {}),
        (both, {}),
        (ops, {n: 9}),
        (ops[7], {n: 0}),
        (ops[7], {n: 2}),
    ]
    return steps * 2


def flat(value: Any) -> list[Any]:
    return [v for v in tf.nest.flatten(value) if v is not None]


def outcome(session: Any, step: Step) -> tuple[str, Any]:
    try:
        return "values", session.run(*step)
    except Exception as error:
        return "error", error


def assert_same(got: tuple[str, Any], want: tuple[str, Any], where: str, exact: bool) -> None:
    assert got[0] == want[0], f"{where}: {got[1]!r}, TensorFlow: {want[1]!r}"
    if want[0] == "error":
        assert type(got[1]).__name__ == type(want[1]).__name__, f"{where}: {got[1]!r}"
        return
    for a, b in zip(flat(got[1]), flat(want[1]), strict=True):
        assert type(a) is type(b), where
        if isinstance(a, (np.ndarray, np.generic)):
            assert a.dtype == b.dtype, where
            if exact or a.dtype.kind not in "fc":
                np.testing.assert_array_equal(a, b, where)
            else:
                np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6, err_msg=where)
        else:
            assert a == b, where


def is_silent(name: str, want: tuple[str, Any]) -> bool:
    """Whether a GPU passes over the indices that TensorFlow refuses on a CPU."""
    return hardware.gpu_count() > 0 and name == "scatters" and want[0] == "error"


@pytest.fixture(scope="module")
def answers() -> dict[str, tuple[Any, list[Step], list[tuple[str, Any]]]]:
    """Of each course: its graph, its steps and what TensorFlow answers."""
    found = {}
    for name, make in COURSES.items():
        graph, steps = built(make)
        with tf1.Session(graph=graph) as session:
            found[name] = (graph, steps, [outcome(session, step) for step in steps])
    return found


def built(make: Course) -> tuple[Any, list[Step]]:
    graph = tf1.Graph()
    with graph.as_default():
        steps = make()
    return graph, steps


@pytest.mark.parametrize("name", COURSES)
def test_a_course_of_runs(mode: str, name: str, answers: Any) -> None:
    graph, steps, wanted = answers[name]
    with tfjit.Session(graph=graph) as session:
        for i, (step, want) in enumerate(zip(steps, wanted, strict=True)):
            if is_silent(name, want) and mode != "off":
                kind, got = outcome(session, step)
                assert kind == "values", f"step {i}: {got!r}"
                assert not any(np.any(a) for a in flat(got) if a is not None)
                continue
            assert_same(
                outcome(session, step), want, f"step {i} of {name}", exact=name not in ROUNDED
            )
    if name == "random_streams":
        # a new session starts the streams anew
        with tfjit.Session(graph=graph) as session:
            assert_same(outcome(session, steps[0]), wanted[0], "a new session", exact=False)


@pytest.mark.parametrize("name", ["uninitialised", "wrong_shapes", "counters", "scatters"])
def test_errors_have_tensorflows_words(name: str, answers: Any) -> None:
    graph, steps, wanted = answers[name]
    with tfjit.Session(graph=graph) as session:
        for i, (step, want) in enumerate(zip(steps, wanted, strict=True)):
            kind, got = outcome(session, step)
            if want[0] == "error" and not is_silent(name, want):
                assert kind == "error"
                cause = [
                    line
                    for line in str(want[1]).split("\n\nOriginal stack")[0].splitlines()
                    if line.strip() and "[[" not in line
                ][-1]
                if "Could not find variable" in cause:
                    cause = cause.split(". (", 1)[0][:60]
                assert cause[:50] in str(got), f"step {i}: {got}"


def test_streams_go_on_from_reference_to_compiled_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same numbers whichever kernel draws them, and one stream when compiled code takes over in
    the middle.
    """
    graph = tf1.Graph()
    with graph.as_default():
        draws = [
            tf1.random_uniform([1000], seed=1),
            tf1.random_normal([1001], seed=2),
            tf1.truncated_normal([501], seed=3),
            tf1.random_uniform([77], 3, 1000, tf.int64, seed=4),
            tf1.random_normal([33], dtype=tf.float64, seed=5),
        ]
        shuffled = [d + tf.cast(0, d.dtype) for d in draws]
    courses = []
    for jit in ("off", "eager", "lazy"):
        monkeypatch.setenv("TFJIT_JIT", jit)
        with tfjit.Session(graph=graph) as session:
            seen = [session.run(draws)]
            if jit == "lazy":
                session.explain(draws)
            seen += [
                session.run(draws),
                session.run(shuffled),
                session.run(draws[:2]),
                session.run(draws),
            ]
            courses.append(seen)
    with tf1.Session(graph=graph) as session:
        courses.append([session.run(f) for f in (draws, draws, shuffled, draws[:2], draws)])
    for seen in courses[:-1]:
        for ours, theirs in zip(seen, courses[-1], strict=True):
            for a, b in zip(ours, theirs, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7)
    for ours, reference in zip(courses[1], courses[0], strict=True):
        for a, b in zip(ours, reference, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7)


def test_variables_of_two_signatures_are_one(mode: str) -> None:
    graph = tf1.Graph()
    with graph.as_default():
        v = res("v", V)
        shared = ref("w", 0.0)
        x = tf1.placeholder(tf.float32, [4])
        update, other = v.assign_add(x).op, tf1.assign_add(shared, tf.reduce_sum(v.read_value()))
        init = tf1.global_variables_initializer()
        read = v.read_value()
    with tfjit.Session(graph=graph) as session:
        session.run(init)
        for i in range(3):
            session.run(update, {x: np.ones(4)})
            np.testing.assert_array_equal(session.run(read), V + i + 1)
            np.testing.assert_array_equal(
                session.run([read, update], {x: np.zeros(4)})[0], V + i + 1
            )
            session.run(other)
        assert session.run(shared) == sum(6 + 4 * (i + 1) for i in range(3))
        session.run(init)
        np.testing.assert_array_equal(session.run(read), V)


def test_a_fetched_reference_is_read_at_the_end_of_a_straight_step(mode: str) -> None:
    """As in `run([train, loss, global_step])`: it neither sends the step to the dataflow executor
    nor shares the variable's memory.
    """
    graph = tf1.Graph()
    with graph.as_default():
        v, count = ref("v", V), ref("count", np.int64(0), dtype=tf.int64)
        init = tf1.global_variables_initializer()
        fetches = [v.op.outputs[0], count.op.outputs[0]]
        updates = [v.assign(v * 2.0).op, tf1.assign_add(count, 1)]
    with tfjit.Session(graph=graph) as session:
        with pytest.raises(tfjit.errors.FailedPreconditionError) as caught:
            session.run(fetches[0])
        node = "v/_0" if hardware.gpu_count() else "v"  # a GPU's value is sent to the client
        text = f"Attempting to use uninitialized value v\n\t [[{{{{node {node}}}}}]]"
        assert text in str(caught.value)
        session.run(init)
        for i in range(3):
            session.run(updates)
            value, number = session.run(fetches)
            np.testing.assert_array_equal(value, V * 2 ** (i + 1))
            assert number == i + 1
            value[...] = -1
        if mode == "eager":
            assert "straight-line" in session.explain([*fetches, *updates]).executor
            value, number, *_ = session.run([*fetches, *updates])
            np.testing.assert_array_equal(value, V * 16)
            assert number == 4


@pytest.mark.parametrize(("assigned", "wanted"), [("GPU:0", "GPU:0"), ("CPU:1", "CPU:0")])
def test_a_variable_of_an_accelerator_is_looked_up_there(assigned: str, wanted: str) -> None:
    """Its node runs in the host's partition where sizes are unknown."""
    (node,) = parse_graph("v = VariableV2(dtype=float32, shape=<2>)").op_nodes()
    node.assigned_device = assigned
    asked = []
    devices = SimpleNamespace(accelerator=lambda name: object() if name == "GPU:0" else None)
    ctx: Any = SimpleNamespace(
        step=SimpleNamespace(host=SimpleNamespace(devices=devices)),
        device=SimpleNamespace(name="CPU:0"),
        session=SimpleNamespace(variable=lambda device, *_: asked.append(device)),
        op=node.op,
        name=node.name,
        attrs=node.attrs,
    )
    variable_op(node).compute(ctx, [])
    assert asked == [wanted]
