"""Section 2.5: names, scopes, devices, colocation, seeds, stacks, collection keys and shapes, as
TensorFlow's front end has them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import tensorflow as tf

import tfjit

tf1 = tf.compat.v1
both = pytest.mark.parametrize("api", [tfjit, tf1], ids=["tfjit", "tf"])


@both
def test_patterns(api: Any) -> None:
    with api.Graph().as_default():
        for name in ("a", "A.b/c-d>e\\f_g", "9", ".a"):
            assert api.no_op(name=name).name == name
        for name in ("_a", "-a", "a b", "a:b", "é", "a^"):
            with pytest.raises(
                ValueError, match="is not a valid (node|op|root scope) name|is not a valid"
            ):
                api.no_op(name=name)
        for name in ("_a", "-a", "a b"):
            with (
                pytest.raises(ValueError, match="is not a valid root scope name"),
                api.name_scope(name),
            ):
                pass
        with api.name_scope("outer"):
            for name in ("_in", "-in", ".in"):
                with api.name_scope(name):
                    assert api.no_op(name="x").name == f"outer/{name}/x"
            with (
                pytest.raises(ValueError, match="is not a valid scope name"),
                api.name_scope("in side"),
            ):
                pass


@both
def test_unique_names(api: Any) -> None:
    with api.Graph().as_default():
        assert [api.no_op(name=name).name for name in ("a", "a", "A", "a_1", "a", "b")] == [
            "a",
            "a_1",
            "A_2",
            "a_1_1",
            "a_3",
            "b",
        ]
    with api.Graph().as_default():
        scopes = []
        for name in ("s", "s", "S"):
            with api.name_scope(name) as scope:
                scopes.append(scope)
        assert scopes == ["s/", "s_1/", "S_2/"]
        assert api.no_op(name="s").name == "s_3"
        graph = api.get_default_graph()
        assert [graph.unique_name("s", mark_as_used=False) for _ in range(2)] == ["s_4", "s_4"]
        assert [graph.unique_name("s") for _ in range(2)] == ["s_4", "s_5"]


@both
def test_scopes(api: Any) -> None:
    with api.Graph().as_default() as graph:
        with api.name_scope("s") as scope:
            assert api.no_op(name="a").name == "s/a"
            with graph.name_scope(None) as root:
                assert root == ""
                assert api.no_op(name="top").name == "top"
            with graph.name_scope("") as root:
                assert root == ""
        with graph.name_scope(scope) as again:
            assert again == "s/"
            assert api.no_op(name="a").name == "s/a_1"
            with graph.name_scope("in"):
                assert graph.get_name_scope() == "s/in"
        with graph.name_scope("s"):
            assert api.no_op(name="a").name == "s_1/a"
        with graph.name_scope("x/"):
            assert api.no_op(name="a").name == "x/a"


@both
def test_devices(api: Any) -> None:
    def inside(*blocks: Any) -> str:
        with api.Graph().as_default():
            entered = [api.device(block) for block in blocks]
            for block in entered:
                block.__enter__()
            try:
                device: str = api.no_op(name="n").device
                return device
            finally:
                for block in reversed(entered):
                    block.__exit__(None, None, None)

    assert inside("/job:w", "/gpu:1") == "/job:w/device:GPU:1"
    assert inside("/gpu:1", "/cpu:0") == "/device:CPU:0"
    assert inside("/job:a/task:1", "/job:b") == "/job:b/task:1"
    assert inside("/job:w", None) == ""
    assert inside("/job:w", None, "/cpu:1") == "/device:CPU:1"
    assert {inside(text) for text in ("/gpu:1", "/GPU:1", "gpu:1", "/device:GPU:1")} == {
        "/device:GPU:1"
    }
    assert (
        inside("/job:w", lambda op: "/cpu:0" if op.type == "NoOp" else "") == "/job:w/device:CPU:0"
    )
    seen: list[Any] = []
    inside(lambda op: seen.append((op.name, op.type)) or "/cpu:0")
    assert seen == [("n", "NoOp")]


@pytest.mark.parametrize(
    "text",
    [
        "/job:*/device:GPU:*",
        "/gpu:*",
        "/device:GPU:*",
        "/job:*",
        "/task:*",
        "/replica:*",
        "/device:*:*",
        "*",
    ],
)
def test_wildcards(text: str) -> None:
    """What TensorFlow reads as no wish, and what it refuses."""
    outcomes = []
    for api in (tf1, tfjit):
        try:
            with api.Graph().as_default(), api.device(text):
                outcomes.append(api.no_op().device)
        except ValueError:
            outcomes.append("refused")
    assert outcomes[1] == outcomes[0]


@both
def test_colocation(api: Any) -> None:
    with api.Graph().as_default():
        with api.device("/cpu:1"):
            a = api.constant(1.0, name="a")
        with api.device("/gpu:0"), api.colocate_with(a):
            b = api.identity(a, name="b")
        assert b.op.get_attr("_class") == [b"loc:@a"]
        assert b.op.device == "/device:CPU:1"
        assert b.op.colocation_groups() == [b"loc:@a"]
        assert a.op.colocation_groups() == [b"loc:@a"]


@both
def test_stacks(api: Any) -> None:
    """Control dependencies, default graphs and default sessions belong to a thread, and are left in
    order.
    """
    first, second = api.Graph(), api.Graph()
    with first.as_default():
        waited = api.no_op(name="waited")
        seen: list[Any] = []

        def elsewhere() -> None:
            with first.as_default():
                seen.append(api.no_op(name="elsewhere").control_inputs)

        with api.control_dependencies([waited]):
            here = api.no_op(name="here")
            thread = threading.Thread(target=elsewhere)
            thread.start()
            thread.join()
        assert [op.name for op in here.control_inputs] == ["waited"]
        if api is tfjit:  # TensorFlow's belong to a thread once `switch_to_thread_local` was called
            assert seen == [[]]

    problems: list[Any] = []

    def out_of_order() -> None:  # in a thread, whose stack goes with it
        one, two = first.as_default(), second.as_default()
        one.__enter__()
        two.__enter__()
        try:
            one.__exit__(None, None, None)
        except AssertionError as error:
            problems.append(str(error))
        problems.append(api.get_default_graph())

    thread = threading.Thread(target=out_of_order)
    thread.start()
    thread.join()
    assert "Nesting violated for default stack of" in problems[0]
    assert problems[1] is second


@both
def test_seeds(api: Any) -> None:
    def seeds(graph_seed: int | None, *op_seeds: int | None) -> list[Any]:
        with api.Graph().as_default():
            if graph_seed is not None:
                api.set_random_seed(graph_seed)
            return [api.get_seed(seed) for seed in op_seeds]

    assert seeds(None, None) == [(None, None)]
    assert seeds(None, 42) == [(87654321, 42)]
    assert seeds(99, 42) == [(99, 42)]
    assert seeds(99, None, None, 7, None) == [(99, 0), (99, 1), (99, 7), (99, 2)]
    assert seeds(0, 0) == [(0, 2**31 - 1)]
    assert seeds(2**31 - 1, 2**31 - 1) == [(0, 2**31 - 1)]
    with api.Graph().as_default():
        ops = [api.random_uniform([2], seed=seed).op for seed in (None, 42)]
        assert [(op.get_attr("seed"), op.get_attr("seed2")) for op in ops] == [
            (0, 0),
            (87654321, 42),
        ]


def test_seeds_by_the_rule_of_1_15(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFJIT_SEED_RULE", "1")
    with tfjit.Graph().as_default():
        tfjit.set_random_seed(99)
        assert tfjit.get_seed(None) == (99, 0)
        for _ in range(3):
            tfjit.no_op()
        assert [tfjit.get_seed(None), tfjit.get_seed(None), tfjit.get_seed(5)] == [
            (99, 3),
            (99, 3),
            (99, 5),
        ]


def test_graph_keys() -> None:
    names = [name for name in vars(tf1.GraphKeys) if name.isupper() and not name.startswith("_")]
    assert len(names) > 30
    for name in names:
        assert getattr(tfjit.GraphKeys, name) == getattr(tf1.GraphKeys, name)


@pytest.fixture(params=["v2", "v1"])
def tensorshapes(request: pytest.FixtureRequest) -> Iterator[None]:
    """Both of TensorFlow's ways with the sizes of a shape."""
    if request.param == "v1":
        tf1.disable_v2_tensorshape()
        tfjit.disable_v2_tensorshape()
    else:  # whatever a test before has left
        tf1.enable_v2_tensorshape()
        tfjit.enable_v2_tensorshape()
    yield
    tf1.enable_v2_tensorshape()
    tfjit.enable_v2_tensorshape()


SHAPES: dict[str, Callable[[Any, Any], Any]] = {
    "size": lambda s, u: s[1],
    "unknown size": lambda s, u: s[0],
    "last": lambda s, u: s[-1],
    "beyond": lambda s, u: s[7],
    "rest": lambda s, u: s[1:],
    "none of it": lambda s, u: s[:0],
    "of unknown rank": lambda s, u: u[0],
    "rest of unknown rank": lambda s, u: u[1:],
    "part of unknown rank": lambda s, u: u[1:3],
    "list": lambda s, u: list(s),
    "list of unknown rank": lambda s, u: list(u),
    "len": lambda s, u: len(s),
    "len of unknown rank": lambda s, u: len(u),
    "dims": lambda s, u: [s.dims, u.dims],
    "rank": lambda s, u: [s.ndims, s.rank, u.rank],
    "as_list": lambda s, u: s.as_list(),
    "as_list of unknown rank": lambda s, u: u.as_list(),
    "truth": lambda s, u: [bool(s), bool(u)],
    "text": lambda s, u: [str(s), repr(s), str(u), repr(u), str(s[1:2])],
    "equality": lambda s, u: [s == [None, 2, 3], s[1:] == (2, 3), u == None, s == u, s != u],  # noqa: E711
    "sums": lambda s, u: [s + [1], [1] + s, s.concatenate(s)],
    "elements": lambda s, u: [s.num_elements(), s[1:].num_elements()],
    "merged": lambda s, u: [s.merge_with([5, None, 3]), u.merge_with(s)],
    "merged wrongly": lambda s, u: s.merge_with([5, None]),
    "incompatible": lambda s, u: s.assert_is_compatible_with([1, 2, 4]),
    "with_rank": lambda s, u: s.with_rank(2),
    "arithmetic": lambda s, u: [
        s.dims[1] + 1,
        1 + s.dims[0],
        s.dims[1] * s.dims[2],
        s.dims[2] // 2,
        7 % s.dims[2],
        s.dims[1] < s.dims[2],
    ],
    "comparisons": lambda s, u: [
        s.dims[0] == 2,
        s.dims[1] == 2,
        s.dims[0] == None,  # noqa: E711
        s.dims[1] != 3,
        s.dims[0] > 1,
    ],
    "ints": lambda s, u: [int(s.dims[1]), [0, 1, 2][s.dims[1]]],
    "true division": lambda s, u: s.dims[1] / 2,
    "membership": lambda s, u: [2 in s, None in s],
}


@pytest.mark.parametrize("name", SHAPES)
def test_shapes(name: str, tensorshapes: None) -> None:
    outcomes = []
    for api in (tf1, tfjit):
        try:
            outcomes.append(
                repr(SHAPES[name](api.TensorShape([None, 2, 3]), api.TensorShape(None)))
            )
        except (ValueError, TypeError, IndexError) as error:
            outcomes.append(f"{type(error).__name__} {error}".replace("tuple index", "list index"))
    assert outcomes[1] == outcomes[0]
