"""Variables, variable scopes and initializers: the same calls make the same graph as TensorFlow's, and the same values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow

import tfjit

tf1 = tensorflow.compat.v1
Program = Callable[[Any], Any]
IGNORED_ATTRS = {"_has_manual_control_dependencies"}  # a mark for TensorFlow 2's function inliner


@pytest.fixture(autouse=True, scope="module")
def tensorflow_one() -> Iterator[None]:
    """TensorFlow as version 1 was: reference variables, and control flow of Switch and Merge."""
    tf1.disable_control_flow_v2()
    tf1.disable_resource_variables()
    yield
    tf1.enable_control_flow_v2()
    tf1.enable_resource_variables()


def nodes(graph: Any) -> dict[str, Any]:
    """Everything of a GraphDef's nodes, by name, in a form that prints."""
    found = {}
    for node in graph.as_graph_def().node:
        attrs = {}
        for key, value in node.attr.items():
            if key == "value":
                tensor = value.tensor
                array = (tensorflow.make_ndarray if "tensorflow" in type(value).__module__ else tfjit.make_ndarray)(tensor)
                attrs[key] = (array.dtype.str, array.shape, array.tolist())
            elif key not in IGNORED_ATTRS:
                attrs[key] = str(value)
        found[node.name] = (node.op, list(node.input), node.device, attrs)
    return found


def collections(graph: Any) -> dict[str, list[str]]:
    return {
        key: [getattr(item, "name", str(item)) for item in graph.get_collection(key)]
        for key in sorted(graph.get_all_collection_keys())
        if key != "cond_context"
    }


def shapes(graph: Any) -> dict[str, Any]:
    return {t.name: (t.shape.as_list() if t.shape.rank is not None else None) for op in graph.get_operations() for t in op.outputs}


def same_graph(program: Program) -> None:
    """`program` makes the same nodes, collections and static shapes with both libraries, and gives the same description."""
    graphs, results = [], []
    for tf in (tf1, tfjit):
        graph = tf.Graph()
        with graph.as_default():
            results.append(program(tf))
        graphs.append(graph)
    theirs, ours = (nodes(g) for g in graphs)
    assert (ours.keys() - theirs.keys(), theirs.keys() - ours.keys()) == (set(), set())
    for name, node in theirs.items():
        assert ours[name] == node, name
    theirs_shapes, ours_shapes = (shapes(g) for g in graphs)
    assert ours_shapes == theirs_shapes
    assert collections(graphs[1]) == collections(graphs[0])
    assert results[0] == results[1]


def same_values(program: Program) -> None:
    """`program(tf)` gives fetches to run one after another after the initializer; values agree bit for bit."""
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
        pytest.param(lambda tf, use=use: program(tf, use), id=f"{program.__name__}-{'resource' if use else 'ref'}") for use in (False, True)
    ]


# What Variable makes


def plain(tf: Any, use: bool) -> Any:
    return describe(tf.Variable(3.0, use_resource=use))


def named(tf: Any, use: bool) -> Any:
    first = tf.Variable([1, 2], name="v", trainable=False, use_resource=use)
    return describe(first) + describe(tf.Variable(np.eye(3), name="v", use_resource=use))


def with_dtype(tf: Any, use: bool) -> Any:
    return describe(tf.Variable([1, 2], dtype=tf.float32, use_resource=use)) + describe(tf.Variable(True, use_resource=use))


def from_callable(tf: Any, use: bool) -> Any:
    return describe(tf.Variable(lambda: tf.zeros([2, 3]), name="v", dtype=tf.float32, use_resource=use))


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
    made = [v + 1.0, 1.0 - v, v * v, v / 2.0, -v, v**2.0, abs(v), v > 0.5, v @ v, v[0], v[:, 1:], v[..., tf.newaxis]]
    made += [tf.matmul(v, v, transpose_b=True), tf.nn.relu(v), tf.reduce_sum(v), tf.identity(v), tf.concat([v, v], 0), tf.stack([v, v])]
    made += [v.read_value(), v.value(), tf.add_n([v, v])]
    return [t.name for t in made]


def assigned(tf: Any, use: bool) -> Any:
    v = tf.Variable([1.0, 2.0], name="v", use_resource=use)
    made = [v.assign([2.0, 3.0]), v.assign_add(v), v.assign_sub([1.0, 1.0], name="down"), v.assign(v * 2, use_locking=True)]
    made += [v.assign([0.0, 0.0], read_value=False), v.assign_add([0.0, 0.0], read_value=False, name="quiet")]
    made += [tf.assign(v, [5.0, 5.0]), tf.assign_add(v, [5.0, 5.0], name="more"), tf.assign_sub(v, [5.0, 5.0])]
    return [t.name for t in made] + [t.op.name if hasattr(t, "op") else None for t in made]


def assigned_in_chain(tf: Any, use: bool) -> Any:
    v = tf.Variable(1.0, name="v", use_resource=use)
    chained = v.assign(2.0)
    return [(chained + 1.0).name, tf.assign_add(chained, 1.0).name if not use else chained.assign_add(1.0).name]


def scattered(tf: Any, use: bool) -> Any:
    v = tf.Variable(np.zeros((4, 2), "f4"), name="v", use_resource=use)
    for function in (tf.scatter_update, tf.scatter_add, tf.scatter_sub, tf.scatter_mul, tf.scatter_div, tf.scatter_min, tf.scatter_max):
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
    return describe(tf.Variable(tf.placeholder(tf.float32, [None, 2]), name="v", validate_shape=False))


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
    return [v.name, [t.name for t in tf.trainable_variables()], [t.name for t in tf.local_variables()]]


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
    return [before, made is tf.train.get_global_step(), made is tf.train.get_or_create_global_step(), repr(made)]


def initializing(tf: Any) -> Any:
    tf.Variable(1.0, name="a")
    tf.Variable(2.0, use_resource=True, name="b")
    tf.get_variable("c", [], collections=[tf.GraphKeys.LOCAL_VARIABLES])
    made = [tf.global_variables_initializer(), tf.local_variables_initializer(), tf.variables_initializer([], name="none")]
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
    return [[v.name for v in tf.global_variables(s)] for s in ("one", "two", ".*w", "none")] + [inside]


def in_blocks(tf: Any) -> Any:
    """A resource variable stands for its handle where only its operation matters."""
    v = tf.Variable(1.0, name="v", use_resource=True)
    with tf.control_dependencies([v, v.assign(2.0)]):
        tf.constant(1.0, name="after")
    with tf.colocate_with(v):
        tf.constant(1.0, name="beside")
    return None


SCOPES = [
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
