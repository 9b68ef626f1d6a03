"""Variables, variable scopes and initializers: the same calls make the same graph as TensorFlow's,
and the same values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tfjit
from tests.client.variables.same_graphs import Program, same_graph, tf1


@pytest.fixture(autouse=True, scope="module")
def tensorflow_one() -> Iterator[None]:
    """TensorFlow as version 1 was: reference variables, and control flow of Switch and Merge."""
    tf1.disable_control_flow_v2()
    tf1.disable_resource_variables()
    yield
    tf1.enable_control_flow_v2()
    tf1.enable_resource_variables()


def same_values(program: Program) -> None:
    """`program(tf)` gives fetches to run one after another after the initializer; values agree bit
    for bit.
    """
    values = []
    for tf in (tf1, tfjit):
        with tf.Graph().as_default():
            steps = program(tf)
            init = tf.global_variables_initializer()
            with tf.Session() as session:
                session.run(init)
                values.append([session.run(step) for step in steps])
    for theirs, ours in zip(*values, strict=True):
        np.testing.assert_equal(ours, theirs)


def describe(v: Any) -> list[Any]:
    initial = v.initial_value
    return [
        repr(v),
        v.name,
        v.op.name,
        v.op.type,
        v.dtype.name,
        v.shape.as_list() if v.shape.rank is not None else None,
        v.get_shape().rank,
        v.device,
        v.initializer.name,
        None if initial is None else initial.name,
        v.trainable,
    ]


def both_kinds(program: Callable[[Any, bool], Any]) -> list[Any]:
    return [
        pytest.param(
            lambda tf, use=use: program(tf, use),
            id=f"{program.__name__}-{'resource' if use else 'ref'}",
        )
        for use in (False, True)
    ]


# What Variable makes


def plain(tf: Any, use: bool) -> Any:
    return describe(tf.Variable(3.0, use_resource=use))


def named(tf: Any, use: bool) -> Any:
    first = tf.Variable([1, 2], name="v", trainable=False, use_resource=use)
    return describe(first) + describe(tf.Variable(np.eye(3), name="v", use_resource=use))


def with_dtype(tf: Any, use: bool) -> Any:
    return describe(tf.Variable([1, 2], dtype=tf.float32, use_resource=use)) + describe(
        tf.Variable(True, use_resource=use)
    )


def from_callable(tf: Any, use: bool) -> Any:
    return describe(
        tf.Variable(lambda: tf.zeros([2, 3]), name="v", dtype=tf.float32, use_resource=use)
    )


def from_random(tf: Any, use: bool) -> Any:
    return describe(tf.Variable(tf.truncated_normal([2, 3], seed=3), name="w", use_resource=use))


def in_collections(tf: Any, use: bool) -> Any:
    tf.Variable(1.0, collections=[tf.GraphKeys.LOCAL_VARIABLES, "mine"], use_resource=use)
    tf.Variable(1.0, collections=["mine"], trainable=False, use_resource=use)
    return [v.name for v in tf.local_variables()]


def in_scopes(tf: Any, use: bool) -> Any:
    with tf.control_dependencies([tf.constant(1.0)]), tf.name_scope("s"), tf.device("/cpu:0"):
        a = tf.Variable(lambda: tf.ones([2]), name="v", use_resource=use)
        b = tf.Variable(tf.ones([2]), name="v", use_resource=use)
        return describe(a) + describe(b) + describe(tf.Variable(4.0, use_resource=use))


def cached(tf: Any, use: bool) -> Any:
    v = tf.Variable([1.0, 2.0], name="v", caching_device="/cpu:0", use_resource=use)
    return [v.value().name, (v + 1.0).name]


def used(tf: Any, use: bool) -> Any:
    v = tf.Variable(tf.zeros([2, 2]), name="w", use_resource=use)
    made = [
        v + 1.0,
        1.0 - v,
        v * v,
        v / 2.0,
        -v,
        v**2.0,
        abs(v),
        v > 0.5,
        v @ v,
        v[0],
        v[:, 1:],
        v[..., tf.newaxis],
    ]
    made += [
        tf.matmul(v, v, transpose_b=True),
        tf.nn.relu(v),
        tf.reduce_sum(v),
        tf.identity(v),
        tf.concat([v, v], 0),
        tf.stack([v, v]),
    ]
    made += [v.read_value(), v.value(), tf.add_n([v, v])]
    return [t.name for t in made]


def assigned(tf: Any, use: bool) -> Any:
    v = tf.Variable([1.0, 2.0], name="v", use_resource=use)
    made = [
        v.assign([2.0, 3.0]),
        v.assign_add(v),
        v.assign_sub([1.0, 1.0], name="down"),
        v.assign(v * 2, use_locking=True),
    ]
    made += [
        v.assign([0.0, 0.0], read_value=False),
        v.assign_add([0.0, 0.0], read_value=False, name="quiet"),
    ]
    made += [
        tf.assign(v, [5.0, 5.0]),
        tf.assign_add(v, [5.0, 5.0], name="more"),
        tf.assign_sub(v, [5.0, 5.0]),
    ]
    return [t.name for t in made] + [t.op.name if hasattr(t, "op") else None for t in made]


def assigned_in_chain(tf: Any, use: bool) -> Any:
    v = tf.Variable(1.0, name="v", use_resource=use)
    chained = v.assign(2.0)
    return [
        (chained + 1.0).name,
        tf.assign_add(chained, 1.0).name if not use else chained.assign_add(1.0).name,
    ]


def scattered(tf: Any, use: bool) -> Any:
    v = tf.Variable(np.zeros((4, 2), "f4"), name="v", use_resource=use)
    for function in (
        tf.scatter_update,
        tf.scatter_add,
        tf.scatter_sub,
        tf.scatter_mul,
        tf.scatter_div,
        tf.scatter_min,
        tf.scatter_max,
    ):
        function(v, [0, 2], [[1.0, 2.0], [3.0, 4.0]])
    return None


def counted(tf: Any, use: bool) -> Any:
    v = tf.Variable(0, name="n", use_resource=use)
    return [tf.count_up_to(v, 3).name, v.count_up_to(4).name]


def initialized(tf: Any, use: bool) -> Any:
    v = tf.Variable(0, name="n", use_resource=use)
    return [tf.is_variable_initialized(v).name]


GRAPHS = [
    case
    for program in (
        plain,
        named,
        with_dtype,
        from_callable,
        from_random,
        in_collections,
        in_scopes,
        cached,
        used,
        assigned,
        assigned_in_chain,
        scattered,
        counted,
        initialized,
    )
    for case in both_kinds(program)
]


def unknown_shape(tf: Any) -> Any:
    return describe(
        tf.Variable(tf.placeholder(tf.float32, [None, 2]), name="v", validate_shape=False)
    )


def from_other_variable(tf: Any) -> Any:
    w = tf.Variable(tf.truncated_normal([2, 3], seed=3), name="w")
    u = tf.Variable(w.initialized_value() * 2.0, name="u")
    tf.Variable(w * 2.0 + u, name="x")
    return None


def get_variable_in_scopes(tf: Any) -> Any:
    with tf.variable_scope("a") as scope:
        v = tf.get_variable("w", [2, 3])
        with tf.variable_scope("b", initializer=tf.constant_initializer(0.5)) as inner:
            tf.get_variable("w", [2, 3])
            tf.constant(1)
    with tf.variable_scope(scope, reuse=True):
        again = tf.get_variable("w", [2, 3])
        tf.constant(1)
    with tf.variable_scope("a"):
        tf.constant(1)
    with tf.variable_scope(None, "a") as unique:
        tf.get_variable("w", initializer=tf.constant([1, 2]))
        tf.get_variable("w4", initializer=np.arange(3.0, dtype="f4"))
        tf.get_variable("w5", shape=[2], dtype=tf.int32)
        tf.get_variable("w6", shape=[2], dtype=tf.float64, use_resource=True, trainable=False)
        tf.get_variable("w7", shape=[2], dtype=tf.bool)
    with tf.variable_scope(inner, auxiliary_name_scope=False):
        tf.get_variable("deep", [1], initializer=tf.ones_initializer)
        tf.constant(1)
    with tf.variable_scope("a", reuse=tf.AUTO_REUSE) as auto:
        tf.get_variable("w", [2, 3])
        tf.get_variable("new", [], initializer=tf.zeros_initializer())
    with tf.name_scope("n"), tf.variable_scope("v"):
        tf.get_variable("x", [1])
        tf.Variable(1.0, name="y")
    scopes = (scope, inner, unique, auto, tf.get_variable_scope())
    return [again is v, [(s.name, s.original_name_scope, bool(s.reuse)) for s in scopes]]


def nested_unique_scopes(tf: Any) -> Any:
    names = []
    for _ in range(2):
        with tf.variable_scope(None, default_name="block") as block:
            for _ in range(2):
                with tf.variable_scope(None, "layer") as layer:
                    tf.get_variable("w", [1])
                    names += [block.name, layer.name, layer.original_name_scope]
    return names


def reuse_in_the_middle(tf: Any) -> Any:
    with tf.variable_scope("m") as scope:
        a = tf.get_variable("a", [1])
        scope.reuse_variables()
        b = tf.get_variable("a", [1])
        with tf.variable_scope("deeper"):
            inherited = tf.get_variable_scope().reuse
    return [a is b, inherited, tf.get_variable_scope().reuse]


def custom_getter(tf: Any) -> Any:
    asked = []

    def outer(getter: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        asked.append("outer " + name)
        return getter(name, *args, **kwargs)

    def inner(getter: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        asked.append("inner " + name)
        return getter(name + "_changed", *args, **kwargs)

    with tf.variable_scope("s", custom_getter=outer), tf.variable_scope("t", custom_getter=inner):
        tf.get_variable("w", [1])
    return asked


def local_variable(tf: Any) -> Any:
    v = tf.get_local_variable("x", [2], initializer=tf.zeros_initializer())
    return [
        v.name,
        [t.name for t in tf.trainable_variables()],
        [t.name for t in tf.local_variables()],
    ]


def resource_scope(tf: Any) -> Any:
    with tf.variable_scope("r", use_resource=True):
        a = tf.get_variable("a", [1])
        b = tf.Variable(1.0)
        with tf.variable_scope("s"):
            c = tf.get_variable("c", [1], use_resource=False)
    return [type(v).__name__ == "RefVariable" for v in (a, b, c)]


def global_step(tf: Any) -> Any:
    before = tf.train.get_global_step()
    made = tf.train.get_or_create_global_step()
    return [
        before,
        made is tf.train.get_global_step(),
        made is tf.train.get_or_create_global_step(),
        repr(made),
    ]


def initializing(tf: Any) -> Any:
    tf.Variable(1.0, name="a")
    tf.Variable(2.0, use_resource=True, name="b")
    tf.get_variable("c", [], collections=[tf.GraphKeys.LOCAL_VARIABLES])
    made = [
        tf.global_variables_initializer(),
        tf.local_variables_initializer(),
        tf.variables_initializer([], name="none"),
    ]
    return [op.name for op in made]


def reporting(tf: Any) -> Any:
    tf.Variable(1.0, name="a")
    tf.Variable(2.0, use_resource=True, name="b")
    tf.report_uninitialized_variables()
    tf.report_uninitialized_variables([])
    return None


def asserting(tf: Any) -> Any:
    tf.Variable(1.0, name="a")
    tf.Variable([2.0], name="b")
    return tf.assert_variables_initialized().name


def selected(tf: Any) -> Any:
    with tf.variable_scope("one"):
        tf.get_variable("w", [1])
    with tf.variable_scope("two") as scope:
        tf.get_variable("w", [1], trainable=False)
        inside = [v.name for v in scope.global_variables() + scope.trainable_variables()]
    return [[v.name for v in tf.global_variables(s)] for s in ("one", "two", ".*w", "none")] + [
        inside
    ]


def in_blocks(tf: Any) -> Any:
    """A resource variable stands for its handle where only its operation matters."""
    v = tf.Variable(1.0, name="v", use_resource=True)
    with tf.control_dependencies([v, v.assign(2.0)]):
        tf.constant(1.0, name="after")
    with tf.colocate_with(v):
        tf.constant(1.0, name="beside")
    return None


def grouped(tf: Any) -> Any:
    """`group` ties by device; `tuple` keeps each tensor beside where it was made."""
    with tf.device("/cpu:0"):
        a = tf.constant(1.0, name="a")
    with tf.device("/cpu:1"):
        b = tf.constant(1.0, name="b")
        c = tf.constant(2.0, name="c")
    v = tf.Variable(1.0, name="v")
    r = tf.Variable(1.0, name="r", use_resource=True)
    made = [
        tf.group(a, [b, {"k": c}], v, name="g"),
        tf.group(a, name="h"),
        tf.group(b, c),
        tf.group(),
        tf.group(v.initializer, r.initializer),
    ]
    tied = tf.tuple([a, None, b, v, r], control_inputs=[c])
    return [op.name for op in made] + [None if t is None else t.name for t in tied]


SCOPES = [
    grouped,
    unknown_shape,
    from_other_variable,
    get_variable_in_scopes,
    nested_unique_scopes,
    reuse_in_the_middle,
    custom_getter,
    local_variable,
    resource_scope,
    global_step,
    initializing,
    reporting,
    asserting,
    selected,
    in_blocks,
]


@pytest.mark.parametrize("program", GRAPHS)
def test_a_variable_makes_tensorflows_nodes(program: Program) -> None:
    same_graph(program)


@pytest.mark.parametrize("program", SCOPES, ids=lambda program: program.__name__)
def test_scopes_make_tensorflows_nodes(program: Program) -> None:
    same_graph(program)


# What variables do when they run


def assign_values(tf: Any, use: bool) -> list[Any]:
    v = tf.Variable([1.0, 2.0, 3.0], name="v", use_resource=use)
    steps = [
        v,
        v.value(),
        v + 1.0,
        v.assign([4.0, 5.0, 6.0]),
        v,
        v.assign_add([1.0, 1.0, 1.0]),
        v.assign_sub(v),
        v,
        v[1:],
    ]
    steps += [
        v.assign_add([0.5, 0.5, 0.5], read_value=False),
        v,
        tf.assign(v, v * 2.0 + 1.0),
        tf.assign_add(v, v),
        [v, v.read_value()],
        v,
    ]
    return steps


def scatter_values(tf: Any, use: bool) -> list[Any]:
    v = tf.Variable(np.arange(12, dtype="f4").reshape(4, 3), name="v", use_resource=use)
    w = tf.Variable(np.zeros((3, 3), "i4"), name="w", use_resource=use)
    rows, updates = [2, 0, 2], np.arange(9, dtype="f4").reshape(3, 3) + 1.0
    steps: list[Any] = []
    for function in (
        tf.scatter_add,
        tf.scatter_sub,
        tf.scatter_mul,
        tf.scatter_div,
        tf.scatter_min,
        tf.scatter_max,
        tf.scatter_update,
    ):
        steps += [function(v, rows[:2], updates[:2]), v]
    steps += [
        tf.scatter_add(v, rows, updates),
        v,
        tf.scatter_add(v, [[0, 1]], 5.0),
        v,
        tf.scatter_update(v, np.zeros(0, "i4"), np.zeros((0, 3), "f4")),
        v,
    ]
    steps += [
        tf.scatter_nd_update(w, [[0, 1], [2, 2]], [7, 8]),
        w,
        tf.scatter_nd_add(w, [[0, 1], [0, 1]], [7, 8]),
        w,
    ]
    steps += [tf.scatter_nd_sub(w, [[1]], [[1, 2, 3]]), w]
    return steps


def chain_values(tf: Any, use: bool) -> list[Any]:
    """One initializer for variables that depend on each other."""
    a = tf.Variable(2.0, name="a", use_resource=use)
    if use:
        return [a, a.assign(a.assign_add(3.0) + 1.0), a]
    b = tf.Variable(a.initialized_value() * 3.0, name="b", use_resource=use)
    c = tf.Variable(a * b + 1.0, name="c", use_resource=use)
    return [a, b, c, c.assign(a + b), c, c.initialized_value()]


def dtype_values(tf: Any, use: bool) -> list[Any]:
    made = [
        tf.Variable(np.arange(4).astype(name), name=name, use_resource=use)
        for name in (
            "float16",
            "float64",
            "int8",
            "int16",
            "int32",
            "int64",
            "uint8",
            "complex64",
            "bool",
        )
    ]
    words = tf.Variable(["a", "bc"], name="words", use_resource=use)
    empty = tf.Variable(np.zeros((0, 3)), name="empty", use_resource=use)
    return [
        made,
        words,
        words.assign(["x", "yz"]),
        words,
        empty,
        empty.assign(np.ones((0, 3))),
        *[v.assign(v) for v in made],
        made,
    ]


def shape_changing_values(tf: Any, use: bool) -> list[Any]:
    if use:
        v = tf.Variable(np.ones(3), shape=tf.TensorShape([None]), name="v", use_resource=True)
        return [v, v.assign(np.zeros(5)), v + 1.0]
    v = tf.Variable(np.ones(3), validate_shape=False, name="v")
    return [v, tf.assign(v, np.zeros((2, 2)), validate_shape=False), v + 1.0, v]


@pytest.mark.parametrize(
    "program",
    [
        case
        for program in (
            assign_values,
            scatter_values,
            chain_values,
            dtype_values,
            shape_changing_values,
        )
        for case in both_kinds(program)
    ],
)
def test_values(program: Program) -> None:
    same_values(program)


@pytest.mark.parametrize("use", [False, True], ids=["ref", "resource"])
def test_counting_ends(use: bool) -> None:
    with tfjit.Graph().as_default():
        v = tfjit.Variable(0, use_resource=use)
        step = v.count_up_to(3)
        with tfjit.Session() as session:
            session.run(v.initializer)
            assert [session.run(step) for _ in range(3)] == [0, 1, 2]
            for _ in range(2):
                with pytest.raises(tfjit.errors.OutOfRangeError):
                    session.run(step)
            assert session.run(v) == 3


@pytest.mark.parametrize("use", [False, True], ids=["ref", "resource"])
def test_a_variable_in_a_session(use: bool) -> None:
    with tfjit.Graph().as_default() as graph:
        v = tfjit.Variable([1.0, 2.0], use_resource=use)
        other = tfjit.Variable(lambda: tfjit.zeros([2]), use_resource=use, dtype=tfjit.float32)
        total = v + other
        with tfjit.Session() as session:
            with pytest.raises(tfjit.errors.FailedPreconditionError):
                session.run(v)
            np.testing.assert_array_equal(
                session.run(tfjit.report_uninitialized_variables()),
                [v.op.name.encode(), other.op.name.encode()],
            )
            assert not v.is_initialized().eval()
            session.run(v.initializer)
            assert tfjit.is_variable_initialized(v).eval()
            assert session.run(tfjit.report_uninitialized_variables()).tolist() == [
                other.op.name.encode()
            ]
            np.testing.assert_array_equal(v.eval(), [1, 2])
            v.load([3.0, 4.0])
            other.load(np.array([10, 20]), session)
            np.testing.assert_array_equal(session.run({"v": v, "t": [total]})["t"][0], [13, 24])
            size = len(graph.get_operations())
            v.load([5.0, 6.0])
            assert len(graph.get_operations()) == size
        with pytest.raises(ValueError, match="Either session argument"):
            v.load([1.0, 2.0])
        with tfjit.Session() as session, pytest.raises(tfjit.errors.FailedPreconditionError):
            session.run(total)  # each session has variables of its own


def test_feeding_a_variable() -> None:
    values = []
    for tf in (tf1, tfjit):
        with tf.Graph().as_default():
            v = tf.Variable([1.0, 2.0], name="v")
            y = v * 2.0
            assigned = v.assign_add([1.0, 1.0])
            with tf.Session() as session:
                values.append(
                    [
                        session.run(y, {v.value(): [5.0, 5.0]}),
                        session.run([y], {v: [6.0, 6.0]}),
                        session.run(y, {"v:0": [8.0, 8.0]}),
                    ]
                )
                session.run(v.initializer)
                values[-1] += [session.run(assigned), session.run(v)]
    np.testing.assert_equal(values[1], values[0])


@pytest.mark.parametrize("use", [False, True], ids=["ref", "resource"])
def test_proto(use: bool) -> None:
    """A variable survives as the names of its nodes, in TensorFlow's bytes."""
    protos = []
    for tf in (tf1, tfjit):
        with tf.Graph().as_default():
            with tf.name_scope("s"):
                v = tf.Variable([1.0, 2.0], name="v", use_resource=use, trainable=not use)
            protos.append(
                (v.to_proto(), v.to_proto(export_scope="s"), v.to_proto(export_scope="other"))
            )
            again = (
                type(v).from_proto(v.to_proto())
                if tf is tf1
                else tfjit.Variable.from_proto(v.to_proto())
            )
            assert describe(again) == describe(v)
            with tf.Session() as session:
                session.run(again.initializer)
                np.testing.assert_array_equal(session.run([v, again + 1.0])[1], [2, 3])
                np.testing.assert_array_equal(session.run(again.assign([7.0, 8.0])), session.run(v))
    theirs, ours = protos
    assert [p and p.SerializeToString(deterministic=True) for p in ours] == [
        p and p.SerializeToString(deterministic=True) for p in theirs
    ]


def test_two_threads_and_graphs() -> None:
    """A variable is used in its own graph, whatever the default is."""
    with tfjit.Graph().as_default() as graph:
        v = tfjit.Variable(1.0)
        r = tfjit.Variable(1.0, use_resource=True)
    with tfjit.Graph().as_default() as other:
        for made in (
            v + 1.0,
            r + 1.0,
            v.assign(2.0),
            tfjit.assign_add(r, 1.0),
            tfjit.is_variable_initialized(v),
            r.is_initialized(),
            v.read_value(),
        ):
            assert made.graph is graph
        assert not other.get_operations()
        with pytest.raises(ValueError, match="must be from the same graph"):
            tfjit.add(v, tfjit.constant(1.0))


def in_scope_twice(tf: Any) -> Any:
    with tf.variable_scope("s"):
        tf.get_variable("v", [1])
        tf.get_variable("v", [1])


WRONG: dict[str, Program] = {
    "no initial value": lambda tf: tf.Variable(),
    "unknown shape": lambda tf: tf.Variable(tf.placeholder(tf.float32)),
    "collections": lambda tf: tf.Variable(1.0, collections="variables"),
    "constraint": lambda tf: tf.Variable(1.0, constraint=3),
    "wrong dtype": lambda tf: tf.Variable("text", dtype=tf.float32),
    "tensor of another dtype": lambda tf: tf.Variable(tf.constant(1), dtype=tf.float32),
    "bool": lambda tf: bool(tf.Variable(1.0) > 0.0),
    "iterate": lambda tf: list(tf.Variable([1.0])),
    "assign a string": lambda tf: tf.Variable(1.0, use_resource=False).assign("a"),
    "assign an int tensor": lambda tf: tf.Variable(1.0, use_resource=False).assign(tf.constant(1)),
    "assign another shape": lambda tf: tf.Variable([1.0, 2.0], use_resource=False).assign(
        [1.0, 2.0, 3.0]
    ),
    "assign another shape to a resource": lambda tf: tf.Variable(
        [1.0, 2.0], use_resource=True
    ).assign([1.0, 2.0, 3.0]),
    "assign an int tensor to a resource": lambda tf: tf.Variable(1.0, use_resource=True).assign(
        tf.constant(1)
    ),
    "add of another dtype": lambda tf: tf.Variable(1.0) + tf.constant(1),
    "made twice": in_scope_twice,
    "not made": lambda tf: (
        tf.get_variable("nope", [1]) if tf.get_variable_scope().reuse_variables() is None else None
    ),
    "no shape": lambda tf: tf.get_variable("v"),
    "unknown size": lambda tf: tf.get_variable("v", [None, 3]),
    "constant and shape": lambda tf: tf.get_variable("v", [2], initializer=tf.constant([1.0, 2.0])),
    "initializer's dtype": lambda tf: tf.get_variable("v", dtype=tf.float32, initializer=[1, 2]),
    "shared shape": lambda tf: [
        tf.get_variable("v", [2]),
        tf.get_variable_scope().reuse_variables(),
        tf.get_variable("v", [3]),
    ],
    "shared dtype": lambda tf: [
        tf.get_variable("v", [2]),
        tf.get_variable_scope().reuse_variables(),
        tf.get_variable("v", [2], tf.int32),
    ],
    "no name": lambda tf: tf.variable_scope(None).__enter__(),
    "no such reuse": lambda tf: tf.variable_scope("s", reuse="yes").__enter__(),
    "scope of a number": lambda tf: tf.variable_scope(3).__enter__(),
    "reuse without a name": lambda tf: tf.variable_scope(None, "s", reuse=True).__enter__(),
    "eval without session": lambda tf: tf.Variable(1.0).eval(),
    "second global step": lambda tf: [tf.train.create_global_step(), tf.train.create_global_step()],
    "global step of floats": lambda tf: [
        tf.Variable(1.0, name="global_step"),
        tf.train.get_global_step(),
    ],
}


@pytest.mark.parametrize("name", WRONG)
def test_errors(name: str) -> None:
    caught = []
    for tf in (tf1, tfjit):
        with tf.Graph().as_default(), pytest.raises((ValueError, TypeError)) as info:
            WRONG[name](tf)
        caught.append(info.value)
    theirs, ours = caught
    assert isinstance(ours, TypeError if isinstance(theirs, TypeError) else ValueError), ours
    assert str(ours)[:24] in str(theirs)


def test_resource_variables_by_default() -> None:
    with tfjit.Graph().as_default():
        tfjit.enable_resource_variables()
        try:
            assert tfjit.resource_variables_enabled()
            assert (
                tfjit.Variable(1.0).op.type == tfjit.get_variable("g", [1]).op.type == "VarHandleOp"
            )
            with tfjit.variable_scope("s", use_resource=False):
                assert (
                    tfjit.Variable(1.0).op.type
                    == tfjit.get_variable("g", [1]).op.type
                    == "VariableV2"
                )
        finally:
            tfjit.disable_resource_variables()
        assert tfjit.Variable(1.0).op.type == "VariableV2"
        assert isinstance(tfjit.Variable(1.0, use_resource=True), tfjit.Variable)
