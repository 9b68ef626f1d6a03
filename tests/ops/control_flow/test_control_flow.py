"""`cond`, `case`, loops, folds and TensorArray: the nodes that TensorFlow makes, name by name, its
values and errors, what can be fed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import tfjit

tf1 = tf.compat.v1
Program = Callable[[Any], Any]
PROGRAMS: dict[str, Program] = {}


@pytest.fixture(scope="module", autouse=True)
def old_control_flow() -> Iterator[None]:
    tf1.disable_control_flow_v2()
    tf1.disable_tensor_equality()
    yield
    tf1.enable_tensor_equality()
    tf1.enable_control_flow_v2()


def program(build: Program) -> Program:
    PROGRAMS[build.__name__] = build
    return build


def nodes(graph: Any) -> dict[str, tuple[Any, ...]]:
    """What a node is, by name; of the attrs that runtimes add, where it is placed."""
    found = {}
    for node in graph.as_graph_def().node:
        if node.op == "Const":  # in one of several encodings
            value = tf.make_ndarray(
                tf.compat.v1.AttrValue.FromString(node.attr["value"].SerializeToString()).tensor
            )
            found[node.name] = (node.op, list(node.input), node.device, value.dtype, value.tolist())
            continue
        attrs = {
            key: value.SerializeToString(deterministic=True)
            for key, value in node.attr.items()
            if key == "_class" or key[0] != "_"
        }
        found[node.name] = (node.op, list(node.input), node.device, attrs)
    return found


def protected(graph: Any) -> tuple[set[str], set[str]]:
    """What can not be fetched, and what of loops and branches can not be fed."""
    ops = graph.get_operations()
    inside = [op for op in ops if op._get_control_flow_context() is not None]
    unfed = {value.name for op in inside for value in op.outputs if not graph.is_feedable(value)}
    return {op.name for op in ops if not graph.is_fetchable(op)}, unfed


def build_both(build: Program) -> list[tuple[Any, Any]]:
    found = []
    for module in (tf1, tfjit):
        graph = module.Graph()
        with graph.as_default():
            found.append((graph, build(module)))
    return found


def check(build: Program, run: bool = True) -> None:
    (their_graph, their_fetches), (our_graph, our_fetches) = build_both(build)
    theirs, ours = nodes(their_graph), nodes(our_graph)
    assert ours == theirs
    assert protected(our_graph) == protected(their_graph)
    for collection in ("while_context", "cond_context"):
        contexts = [
            [c.name for c in g.get_collection(collection)] for g in (our_graph, their_graph)
        ]
        assert contexts[0] == contexts[1]
        messages = [
            [str(c.to_proto()) for c in g.get_collection(collection)]
            for g in (our_graph, their_graph)
        ]
        assert messages[0] == messages[1]
    flat = tf.nest.flatten(their_fetches)
    assert [value.name for value in tf.nest.flatten(our_fetches)] == [value.name for value in flat]
    assert [value.shape.rank for value in tf.nest.flatten(our_fetches)] == [
        value.shape.rank for value in flat
    ]
    tf.nest.assert_same_structure(
        tf.nest.map_structure(lambda x: 0, our_fetches),
        tf.nest.map_structure(lambda x: 0, their_fetches),
    )
    if run:
        with tf1.Session(graph=their_graph) as a, tfjit.Session(graph=our_graph) as b:
            for mine, other in zip(b.run(tf.nest.flatten(our_fetches)), a.run(flat), strict=True):
                np.testing.assert_allclose(mine, other, rtol=1e-6)


@program
def one_of_two(m: Any) -> Any:
    x, y = m.constant(3.0), m.constant(4.0)
    return m.cond(m.constant(True), lambda: m.add(x, y), lambda: x * 2.0)


@program
def passed_on(m: Any) -> Any:
    x = m.constant(3.0)
    return m.cond(m.constant(False), lambda: (x, m.constant(1.0)), lambda: (m.constant(2.0), x))


@program
def one_in_the_other(m: Any) -> Any:
    x, q = m.constant(3.0), m.constant(False)
    inner = m.cond(m.constant(True), lambda: m.cond(q, lambda: x + 1.0, lambda: x + 2.0), lambda: x)
    with m.device("/cpu:0"):
        return inner, m.cond(
            x > 0,
            lambda: m.cond(x > 1, lambda: m.constant(1.0), lambda: x),
            lambda: m.constant(7.0),
            name="named",
        )


@program
def a_sequence_of_one(m: Any) -> Any:
    p = m.constant(True)
    strict = m.cond(p, lambda: [m.constant(1.0)], lambda: [m.constant(2.0)], strict=True)
    return strict, m.cond(p, lambda: [m.constant(1.0)], lambda: [m.constant(2.0)])


@program
def operations(m: Any) -> Any:
    x = m.constant(1.0)
    return m.cond(x > 0, lambda: m.group(x), lambda: m.no_op())


@program
def arrays_in_branches(m: Any) -> Any:
    array = m.TensorArray(m.float32, 1)
    return m.cond(
        m.constant(True), lambda: array.write(0, 1.0), lambda: array.write(0, 2.0)
    ).stack()


@program
def cases(m: Any) -> Any:
    x = m.constant(3)
    return m.case(
        [(m.less(x, 2), lambda: m.constant(1)), (m.less(x, 4), lambda: m.constant(2))],
        default=lambda: m.constant(3),
    )


@program
def count(m: Any) -> Any:
    return m.while_loop(lambda i: m.less(i, 10), lambda i: m.add(i, 1), [m.constant(0)])


@program
def count_numbers(m: Any) -> Any:
    with m.name_scope("s"):
        return m.while_loop(lambda i: i < 3, lambda i: m.identity(i + 1), [0], name="named")


@program
def invariant(m: Any) -> Any:
    k = m.constant(2.0)
    return m.while_loop(
        lambda i, x: i < 5, lambda i, x: (i + 1, x * k + k), [m.constant(0), m.constant([1.0, 2.0])]
    )


@program
def loop_in_a_loop(m: Any) -> Any:
    def body(i: Any, x: Any) -> Any:
        return i + 1, m.while_loop(
            lambda j, y: j < 3, lambda j, y: (j + 1, y + m.cast(i, m.float32)), [m.constant(0), x]
        )[1]

    return m.while_loop(lambda i, x: i < 4, body, [m.constant(0), m.constant(1.0)])


@program
def branch_in_a_loop(m: Any) -> Any:
    def body(i: Any, x: Any) -> Any:
        return i + 1, m.cond(m.less(i, 2), lambda: x + 1.0, lambda: x * 2.0)

    return m.while_loop(lambda i, x: i < 4, body, [m.constant(0), m.constant(1.0)])


@program
def loop_in_a_branch(m: Any) -> Any:
    x = m.constant(2.0)
    return m.cond(
        m.constant(True),
        lambda: m.while_loop(lambda i, y: i < 4, lambda i, y: (i + 1, y * x), [m.constant(0), x])[
            1
        ],
        lambda: x,
    )


@program
def deep(m: Any) -> Any:
    x = m.constant(1.0)

    def body(i: Any, x: Any) -> Any:
        def inner(j: Any, y: Any) -> Any:
            return j + 1, y + m.cond(y > 5.0, lambda: x, lambda: m.constant(1.0))

        return i + 1, m.cond(
            x > 3.0, lambda: m.while_loop(lambda j, y: j < i, inner, [0, x])[1], lambda: x * 2.0
        )

    return m.while_loop(lambda i, x: i < 5, body, [0, x])


@program
def bounded(m: Any) -> Any:
    body = lambda i, x: (i + 1, x + 1.0)  # noqa: E731
    return (
        m.while_loop(
            lambda i, x: i < 40, body, (m.constant(0), m.constant(1.0)), maximum_iterations=3
        ),
        m.while_loop(lambda i: i < 3, lambda i: i + 1, [0], maximum_iterations=m.constant(2)),
        m.while_loop(
            lambda i: i < 3,
            lambda i: (i + 1,),
            (m.constant(0),),
            return_same_structure=True,
            maximum_iterations=9,
        ),
        m.while_loop(lambda i: i < 3, lambda i: i + 1, [m.constant(0)], return_same_structure=True),
    )


@program
def control_dependencies(m: Any) -> Any:
    x = m.constant(2.0)
    outside = m.identity(x, name="outside")

    def body(i: Any, y: Any) -> Any:
        with m.control_dependencies([outside]):
            z = y * 2.0
        with m.control_dependencies([z]):
            return i + 1, m.identity(y) + m.constant(1.0)

    with m.control_dependencies([m.no_op(name="before")]):
        return m.while_loop(lambda i, y: i < 4, body, [m.constant(0), x])


@program
def invariants(m: Any) -> Any:
    return m.while_loop(
        lambda i, x: i < 3,
        lambda i, x: (i + 1, m.concat([x, x], 0)),
        [m.constant(0), m.constant([1.0])],
        shape_invariants=[m.TensorShape([]), m.TensorShape([None])],
        parallel_iterations=3,
        swap_memory=True,
        back_prop=False,
    )


@program
def nested_variables(m: Any) -> Any:
    start = {"b": m.constant(1.0), "a": (m.constant(2.0), m.constant(0))}
    return m.while_loop(
        lambda d: d["a"][1] < 3,
        lambda d: [{"b": d["b"] * 2.0, "a": (d["a"][0] + d["b"], d["a"][1] + 1)}],
        [start],
    )


@program
def written_elements(m: Any) -> Any:
    array = m.TensorArray(m.float32, 3)
    return array.write(0, m.constant(1.0)).write(1, 2.0).write(2, 3.0).stack()


@program
def every_method(m: Any) -> Any:
    array = m.TensorArray(m.float32, 3, clear_after_read=False).unstack(
        m.constant([[1.0], [2.0], [3.0]])
    )
    gradient = array.grad("q")
    cut = m.TensorArray(
        m.float32,
        size=2,
        infer_shape=False,
        colocate_with_first_write_call=False,
        name="cut",
        tensor_array_name="t",
    )
    first = array.read(0)
    return (
        array.read(1),
        array.gather([0, 2]),
        array.concat(),
        array.size() + array.size(),
        array.identity().stack(),
        gradient.write(1, m.constant([5.0])).stack(),
        gradient.size(),
        cut.split(m.constant([1.0, 2.0, 3.0]), [1, 2]).concat(),
        m.TensorArray(m.float32, size=2).split(m.constant([[1.0], [2.0]]), [1, 1]).stack(),
        first,
    )


@program
def closed(m: Any) -> Any:
    array = m.TensorArray(m.float32, 1).write(0, 1.0)
    value = array.read(0)
    with m.control_dependencies([value]), m.control_dependencies([array.close()]):
        return m.identity(value)


@program
def written_in_a_loop(m: Any) -> Any:
    array = m.TensorArray(m.float32, size=0, dynamic_size=True, element_shape=[2])
    return m.while_loop(
        lambda i, a: i < 4,
        lambda i, a: (i + 1, a.write(i, m.fill([2], 1.5))),
        [m.constant(0), array],
    )[1].stack()


@program
def mapped(m: Any) -> Any:
    a, b = m.constant([[1.0, 2.0], [3.0, 4.0]]), m.constant([1, 2])
    dtypes = (m.float32, m.int32, m.float32)
    return (
        m.map_fn(lambda x: x * 2.0, m.constant([1.0, 2.0])),
        m.map_fn(lambda t: (t[0] * 2.0, t[1] + 1, m.reduce_sum(t[0])), (a, b), dtype=dtypes),
        m.map_fn(lambda x: m.cast(x, m.int32), a, dtype=m.int32),
    )


@program
def folded(m: Any) -> Any:
    a, b = m.constant([1.0, 2.0, 5.0]), m.constant([[1.0, 2.0], [3.0, 4.0]])
    return (
        m.scan(lambda s, x: s + x, a),
        m.scan(lambda s, x: (s[0] + x, s[1] + 1), b, initializer=(m.zeros([2]), m.constant(0))),
        m.scan(lambda s, x: s * x, b, reverse=True),
        m.foldl(lambda s, x: s - x, a),
        m.foldr(lambda s, x: s - x, a),
        m.foldl(lambda s, x: s - x, b, initializer=m.zeros([2])),
        m.foldr(lambda s, x: s - x, b, initializer=m.zeros([2])),
    )


@program
def folded_of_unknown_size(m: Any) -> Any:
    p = m.placeholder_with_default(np.array([1.0, 2.0], np.float32), [None])
    return (
        m.map_fn(lambda x: x * 2.0, p),
        m.scan(lambda s, x: s + x, p),
        m.scan(lambda s, x: s + x, p, reverse=True),
        m.foldl(lambda s, x: s - x, p),
        m.foldr(lambda s, x: s - x, p),
    )


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program(name: str) -> None:
    check(PROGRAMS[name], run=name != "operations")


@pytest.mark.parametrize("use_resource", [False, True])
def test_variables_inside(use_resource: bool) -> None:
    def build(m: Any) -> Any:
        v = m.Variable(3.0, use_resource=use_resource, name="v")
        more = (lambda: v.assign_add(1.0)) if use_resource else (lambda: m.assign_add(v, 1.0))
        chosen = m.cond(m.constant(True), more, lambda: v * 2.0)
        return chosen, m.while_loop(lambda i: i < 3, lambda i: i + v, [m.constant(0.0)])

    check(build, run=False)
    (_, _), (graph, fetches) = build_both(build)
    with tfjit.Session(graph=graph) as session:
        with graph.as_default():
            init = tfjit.global_variables_initializer()
        session.run(init)
        assert session.run(fetches[0]) == 4
        assert session.run(fetches[1]) == 4


# programs of random structure: a list of choices, each taken from what there is so far
CHOICES = st.lists(
    st.tuples(
        st.sampled_from(["add", "mul", "cond", "while", "const", "array"]), st.integers(0, 9)
    ),
    max_size=6,
)


def random_program(m: Any, choices: list[tuple[str, int]], depth: int, known: list[Any]) -> Any:
    values = list(known)
    for number, (kind, pick) in enumerate(choices):
        x, y = values[pick % len(values)], values[-1]
        rest = choices[number + 1 :]
        if kind == "add":
            values.append(x + y)
        elif kind == "mul":
            values.append(x * 0.5 + 1.0)
        elif kind == "const":
            values.append(m.constant(float(pick)))
        elif kind == "array":
            array = m.TensorArray(m.float32, 2, clear_after_read=False).write(0, x).write(1, y)
            values.append(m.reduce_sum(array.stack()) + array.read(pick % 2))
        elif depth and kind == "cond":
            inside = list(values)
            values.append(
                m.cond(
                    x > y - 1.0,
                    lambda rest=rest, inside=inside: random_program(m, rest, depth - 1, inside),
                    lambda inside=inside: inside[0] - 1.0,
                )
            )
        elif depth:
            inside = list(values)

            def body(i: Any, z: Any, rest: Any = rest, inside: Any = inside) -> Any:
                return i + 1, random_program(m, rest, depth - 1, [*inside, z]) * 0.25

            values.append(m.while_loop(lambda i, z, n=pick % 3: i < n, body, [m.constant(0), x])[1])
    return values[-1]


@settings(
    max_examples=15, deadline=None, derandomize=True
)  # TensorFlow folds some of these programs wrongly: "Retval[0] does not have value"
@given(CHOICES)
def test_random_programs(choices: list[tuple[str, int]]) -> None:
    check(lambda m: m.identity(random_program(m, choices, 2, [m.constant(1.5), m.constant(-0.5)])))


@pytest.mark.parametrize("chosen", [-1, 0, 1, 2, 3, 7])
def test_switch_case(chosen: int) -> None:
    """TensorFlow makes a Case with functions of it; here it is conditionals."""
    with tfjit.Graph().as_default():
        x = tfjit.constant(2.0)
        branches = [lambda: x + 1.0, lambda: x * 5.0, lambda: x - 1.0]
        index = tfjit.constant(chosen)
        fetches = [
            tfjit.switch_case(index, branches),
            tfjit.switch_case(index, dict(enumerate(branches)), default=lambda: x),
        ]
        fetches.append(tfjit.switch_case(index, branches[:1], default=lambda: x * 0.0))
        values = [3, 10, 1]
        with tfjit.Session() as session:
            got = session.run(fetches)
    inside = 0 <= chosen < 3
    assert got == [
        values[chosen] if inside else 1,
        values[chosen] if inside else 2,
        3 if chosen == 0 else 0,
    ]


def test_case_checks_its_predicates() -> None:
    with tfjit.Graph().as_default():
        x = tfjit.placeholder(tfjit.int32, [])
        pairs = [(x < 2, lambda: tfjit.constant(1)), (x < 4, lambda: tfjit.constant(2))]
        exclusive, without = (
            tfjit.case(pairs, exclusive=True, default=lambda: tfjit.constant(3)),
            tfjit.case(pairs),
        )
        with tfjit.Session() as session:
            assert [session.run(exclusive, {x: value}) for value in (2, 9)] == [2, 3]
            assert [session.run(without, {x: value}) for value in (1, 3)] == [1, 2]
            with pytest.raises(tfjit.errors.InvalidArgumentError, match="more than 1 conditions"):
                session.run(exclusive, {x: 1})
            with pytest.raises(
                tfjit.errors.InvalidArgumentError, match="None of the conditions evaluated as True"
            ):
                session.run(without, {x: 9})


def spoiled(m: Any) -> dict[str, Program]:
    true, one = lambda m: m.constant(True), lambda m: m.constant(1)
    less = lambda i: i < 3  # noqa: E731
    return {
        "a bool for a predicate": lambda m: m.cond(True, lambda: 1, lambda: 2),
        "no function": lambda m: m.cond(true(m), 3, lambda: 2),
        "no second function": lambda m: m.cond(true(m), lambda: 1),
        "two first functions": lambda m: m.cond(true(m), lambda: 1, lambda: 2, fn1=lambda: 2),
        "nothing returned": lambda m: m.cond(true(m), lambda: None, lambda: one(m)),
        "other dtypes": lambda m: m.cond(true(m), lambda: one(m), lambda: m.constant(1.0)),
        "a number for a predicate": lambda m: m.cond(one(m), lambda: one(m), lambda: one(m)),
        "no condition": lambda m: m.while_loop(3, lambda i: i, [1]),
        "no body": lambda m: m.while_loop(less, 3, [1]),
        "no variables": lambda m: m.while_loop(lambda: True, lambda: 1, []),
        "no parallel iterations": lambda m: m.while_loop(
            less, lambda i: i + 1, [one(m)], parallel_iterations=0
        ),
        "a fraction of iterations": lambda m: m.while_loop(
            less, lambda i: i + 1, [one(m)], parallel_iterations=2.0
        ),
        "a shape that grows": lambda m: m.while_loop(
            lambda x: m.reduce_sum(x) < 3, lambda x: m.concat([x, x], 0), [m.constant([1])]
        ),
        "an invariant that does not fit": lambda m: m.while_loop(
            lambda x: m.reduce_sum(x) < 3,
            lambda x: x,
            [m.constant([1])],
            shape_invariants=[m.TensorShape([2])],
        ),
        "a body that gives nothing": lambda m: m.while_loop(less, lambda i: None, [one(m)]),
        "iterations that are a vector": lambda m: m.while_loop(
            less, lambda i: i, [one(m)], maximum_iterations=[1, 2]
        ),
        "no pairs": lambda m: m.case(3),
        "three of a pair": lambda m: m.case([(1, 2, 3)]),
        "a bool in a pair": lambda m: m.case([(True, lambda: 1)]),
        "no function in a pair": lambda m: m.case([(true(m), 1)]),
        "no branches": lambda m: m.switch_case(one(m), 3),
        "an index left out": lambda m: m.switch_case(one(m), {0: lambda: 1, 2: lambda: 1}),
        "a word for an index": lambda m: m.switch_case(one(m), {"a": lambda: 1}),
        "a float for an index": lambda m: m.switch_case(m.constant(1.0), [lambda: 1]),
        "a scalar mapped": lambda m: m.map_fn(lambda x: x, one(m)),
        "nothing mapped": lambda m: m.map_fn(lambda x: x, []),
        "an array of no size": lambda m: m.TensorArray(m.float32),
        "a size beside a handle": lambda m: m.TensorArray(m.float32, size=1, handle=one(m)),
        "a name beside a handle": lambda m: m.TensorArray(
            m.float32, handle=one(m), tensor_array_name="x"
        ),
        "no flow": lambda m: m.TensorArray(m.float32, handle=one(m)),
        "another element shape": lambda m: m.TensorArray(m.float32, 2, element_shape=[2]).write(
            0, m.constant([1.0])
        ),
        "a second shape": lambda m: (
            m.TensorArray(m.float32, 2).write(0, m.constant([1.0])).write(1, m.constant([1.0, 2.0]))
        ),
        "other rows": lambda m: m.TensorArray(m.float32, 2, element_shape=[2]).unstack(
            m.constant([[1.0]])
        ),
    }


@pytest.mark.parametrize("name", spoiled(None))
def test_an_error(name: str) -> None:
    told = []
    for module in (tf1, tfjit):
        with module.Graph().as_default():
            try:
                spoiled(module)[name](module)
            except Exception as error:
                told.append((type(error).__name__, str(error)))
    assert told[1:] == told[:1]


def test_a_failed_body_leaves_no_context_behind() -> None:
    with tfjit.Graph().as_default() as graph:
        for build in (
            lambda: tfjit.cond(tfjit.constant(True), lambda: 1 / 0, lambda: 2),
            lambda: tfjit.while_loop(lambda i: i < 3, lambda i: 1 / 0, [0]),
        ):
            with pytest.raises(ZeroDivisionError):
                build()
            assert graph._get_control_flow_context() is None
        with tfjit.Session() as session:
            assert session.run(tfjit.while_loop(lambda i: i < 3, lambda i: i + 1, [0])) == 3


def test_a_session_that_is_open_takes_later_loops() -> None:
    with tfjit.Graph().as_default(), tfjit.Session() as session:
        x = tfjit.constant(2.0)
        assert session.run(x) == 2
        y = tfjit.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * x), [0, x])[1]
        assert session.run(y) == 16
        z = tfjit.cond(
            y > 3.0,
            lambda: tfjit.map_fn(lambda v: v + y, tfjit.stack([x, y])),
            lambda: tfjit.stack([x, x]),
        )
        np.testing.assert_array_equal(session.run(z), [18, 32])


@pytest.mark.parametrize("scope", ["", "s"])
def test_contexts_live_through_a_meta_graph(scope: str) -> None:
    """Written by tfjit and read by both; then loops and branches can be built upon as if they had
    been made here.
    """
    with tfjit.Graph().as_default() as graph:
        tfjit.identity(deep(tfjit)[1], name="result")
        meta = tfjit.train.export_meta_graph()
    written = [
        c.to_proto().SerializeToString(deterministic=True)
        for c in graph.get_collection("while_context")
    ]
    theirs = tf1.MetaGraphDef.FromString(meta.SerializeToString())
    read = []
    for module, message in ((tf1, theirs), (tfjit, meta)):
        with module.Graph().as_default() as copy:
            module.train.import_meta_graph(message, import_scope=scope or None)
            loops = copy.get_collection("while_context")
            read.append([str(loop.to_proto()) for loop in loops])
            inside = copy.get_operation_by_name(
                f"{scope}/while/cond/Merge" if scope else "while/cond/Merge"
            )
            assert inside._get_control_flow_context() is loops[0]
    assert read[0] == read[1]
    if not scope:
        assert [
            m.SerializeToString(deterministic=True) for m in (c.to_proto() for c in loops)
        ] == written
