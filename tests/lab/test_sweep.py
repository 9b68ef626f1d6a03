"""Sizes of feeds: what a sweep spells, and the cases that it makes."""

from __future__ import annotations

import pytest

import tfjit
from tfjit.framework.errors import InvalidArgumentError
from tfjit.lab.sweep import Sweep, parse_sweep, swept_shapes


def small_graph() -> tfjit.Graph:
    graph = tfjit.Graph()
    with graph.as_default():
        tfjit.placeholder(tfjit.float32, [None, 8], name="images")
        tfjit.placeholder(tfjit.int32, [None], name="labels")
        tfjit.placeholder(tfjit.float32, [None, None], name="free")
        tfjit.placeholder(tfjit.float32, None, name="any")
    return graph


def test_a_sweep_is_read() -> None:
    assert parse_sweep("images.0=1,4") == Sweep((("images:0", 0),), (1, 4))
    assert parse_sweep("a/b:1.2=8").axes == (("a/b:1", 2),)
    assert parse_sweep("images.0,labels.0=2, 3").axes == (("images:0", 0), ("labels:0", 0))


@pytest.mark.parametrize(
    "text", ["images", "images=1", "images.x=1", ".0=1", "images.0=", "images.0=1,a", "images.0=-1"]
)
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="sweep"):
        parse_sweep(text)


def test_a_size_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="twice"):
        parse_sweep("images.0=1,2,1")


def test_cases_are_all_combinations() -> None:
    sweeps = [parse_sweep("images.0,labels.0=1,4"), parse_sweep("free.1=2")]
    found = swept_shapes(sweeps, small_graph(), {"free:0": (5, 7)})
    assert found == [
        (
            f"images.0,labels.0={n}, free.1=2",
            {"free:0": (5, 2), "images:0": (n, 8), "labels:0": (n,)},
        )
        for n in (1, 4)
    ]
    assert swept_shapes([], small_graph(), {}) == [("", {})]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("images.2=1", "the feed has 2 axes"),
        ("nothing.0=1", "sweep of nothing:0"),
        ("free.0=1", "axis 1 has no known size"),
        ("any.0=1", "its rank is not known"),
    ],
)
def test_sweeps_that_do_not_fit(text: str, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        swept_shapes([parse_sweep(text)], small_graph(), {})
