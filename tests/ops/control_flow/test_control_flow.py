"""`cond`, `case`, loops, folds and TensorArray: the nodes that TensorFlow makes, name by name, its
values and errors, what can be fed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import tfjit
from tests.ops.control_flow_programs import PROGRAMS, Program, deep, spoiled

tf1 = tf.compat.v1


@pytest.fixture(scope="module", autouse=True)
def references() -> Iterator[None]:
    """The nodes are TensorFlow's, whose loops and branches are compiled in the tests of runtime/ and
    of passes/: here the compiler would only work behind runs that do not wait for it.
    """
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TFJIT_JIT", "off")
        yield


@pytest.fixture(scope="module", autouse=True)
def old_control_flow() -> Iterator[None]:
    tf1.disable_control_flow_v2()
    tf1.disable_tensor_equality()
    yield
    tf1.enable_tensor_equality()
    tf1.enable_control_flow_v2()


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
                tfjit.errors.InvalidArgumentError, match="None of conditions evaluated as True"
            ):
                session.run(without, {x: 9})


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
