"""Names of operations and scopes against TensorFlow's."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.framework.fresh_graphs import Ours, both, fresh_graph

names = st.sampled_from(
    [
        "a",
        "A",
        "a_1",
        "a_1_1",
        "A_2",
        "b",
        "s",
        "S",
        "s_1",
        "a/b",
        "x.y",
        "a-b",
        "x>y",
        "Placeholder",
    ]
)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["op", "scope", "exit", "unique", "peek"]), names, st.booleans()),
        max_size=14,
    )
)
def test_any_order_of_names_and_scopes(steps: list[tuple[str, str, bool]]) -> None:
    def build(library: Any, graph: Any) -> list[str]:
        seen = []
        with contextlib.ExitStack() as outer:
            open_scopes: list[contextlib.ExitStack] = []
            for kind, name, slash in steps:
                if kind == "op":
                    seen.append(library.placeholder(name).op.name)
                elif kind == "scope":
                    stack = contextlib.ExitStack()
                    outer.push(stack)
                    seen.append(
                        stack.enter_context(graph.name_scope(name + "/" if slash else name))
                    )
                    open_scopes.append(stack)
                elif kind == "exit" and open_scopes:
                    open_scopes.pop().close()
                elif kind in ("unique", "peek"):
                    seen.append(graph.unique_name(name, mark_as_used=kind == "unique"))
            while open_scopes:
                open_scopes.pop().close()
        return seen

    ours, theirs = both(build)
    assert ours == theirs


def test_known_cases() -> None:
    with fresh_graph(Ours) as graph:
        assert [graph.unique_name(n) for n in ("a", "a", "A", "a_1", "zz/", "zz/", "")] == [
            "a",
            "a_1",
            "A_2",
            "a_1_1",
            "zz/",
            "zz/_1",
            "",
        ]
        for scope in ("s", "s", "S"):
            with graph.name_scope(scope):
                pass
        assert Ours.placeholder("s").op.name == "s_3"


def inside(name: Any) -> Any:
    """Enter a scope inside a scope, and make an operation there."""

    def build(library: Any, graph: Any) -> Any:
        with library.name_scope("sc"), library.name_scope(name) as scope:
            return scope, graph.get_name_scope(), library.placeholder("k").name

    return build


@pytest.mark.parametrize("name", [None, "", "t", "sc/", "a/b/", "_ok-", "a b", "é", "sc", "a:0"])
def test_scope_in_scope(name: Any) -> None:
    ours, theirs = both(inside(name))
    assert ours == theirs


@pytest.mark.parametrize("name", ["_a", "a b", "-a", "a", ".a", "a\\b", "a>b", "q:0", 3, None, ""])
def test_scope_at_the_root(name: Any) -> None:
    def build(library: Any, graph: Any) -> Any:
        with graph.name_scope(name) as scope:
            return scope

    ours, theirs = both(build)
    assert ours == theirs


@pytest.mark.parametrize(
    "arguments",
    [
        (None, None, []),
        (None, "deflt", None),
        ("n", "deflt", None),
        (None, 3, None),
        (3, None, None),
    ],
)
def test_scope_arguments(arguments: tuple[Any, ...]) -> None:
    def build(library: Any, graph: Any) -> Any:
        with library.name_scope(*arguments) as scope:
            return scope

    ours, theirs = both(build)
    if isinstance(theirs[0], tuple) and theirs[0][0] in ("TypeError", "ValueError"):
        assert ours[0][0] == theirs[0][0]
    else:
        assert ours == theirs


@pytest.mark.parametrize("name", ["_q", "q q", "q:0", "é", "q*"])
def test_bad_operation_names(name: str) -> None:
    def build(library: Any, graph: Any) -> Any:
        return library.placeholder(name).name

    ours, theirs = both(build)
    assert ours[0][0] == theirs[0][0] == "ValueError"
    assert name in ours[0][1]


def test_trailing_slash_takes_the_name_as_it_is() -> None:
    def build(library: Any, graph: Any) -> Any:
        return [library.placeholder(n).op.name for n in ("rr/", "", None, "a/b/", "rr/")]

    ours, theirs = both(build)
    assert ours == theirs
    assert ours[0] == ("ValueError", "Duplicate node name in graph: 'rr'")
    with fresh_graph(Ours):
        Ours.placeholder("rr/")
        # TensorFlow refuses this name as a duplicate, since it forgot to count the first.
        assert Ours.placeholder("rr").op.name == "rr_1"


def test_scope_enters_the_graph_of_its_values() -> None:
    for library in (Ours,):
        with fresh_graph(library) as first:
            x = library.placeholder("x")
        with fresh_graph(library) as second:
            with library.name_scope("s", values=[x]):
                assert library.get_default_graph() is first
            assert library.get_default_graph() is second
            y = library.placeholder("y")
            with (
                pytest.raises(ValueError, match="must be from the same graph"),
                library.name_scope("s", values=[x, y]),
            ):
                pass
            with (
                pytest.raises(ValueError, match="not a valid"),
                library.name_scope("!", values=[x]),
            ):
                pass
            assert library.get_default_graph() is second
