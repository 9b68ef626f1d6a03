"""Benches of a small graph over sizes, by reference kernels."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import tfjit
from tfjit.lab import bench

QUICK: dict[str, Any] = {"rounds": 4, "sessions": 2, "block_s": 0.0005, "seed": 0}
QUICK |= {"fetches": ["y:0"], "candidates": ["default", "default without fuse"]}


@pytest.fixture(autouse=True)
def uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFJIT_JIT", "off")


def small_graph() -> tfjit.Graph:
    graph = tfjit.Graph()
    with graph.as_default():
        x = tfjit.placeholder(tfjit.float32, [None, 3], name="x")
        tfjit.nn.relu(x, name="y")
    return graph


def test_sizes_and_threads_are_cases() -> None:
    work: list[str] = []
    found = bench(small_graph(), sweeps=["x.0=1,5"], threads=[1, 2], report=work.append, **QUICK)
    assert [(row.case, row.threads) for row in found.rows[::2]] == [
        (f"x.0={n}, {count} threads", count) for n in (1, 5) for count in (1, 2)
    ]
    assert found.agrees and set(found.yardstick_us) == {row.case for row in found.rows}
    assert [row.ratio is None for row in found.rows] == [True, False] * 4
    assert work[0].startswith("x.0=1, 1 threads: opening")
    assert json.loads(json.dumps(found.as_json()))["rows"][0]["name"] == "default"
    assert "default without fuse" in str(found) and "<table>" in found._repr_html_()


def test_one_case() -> None:
    found = bench(small_graph(), shapes={"x:0": (2, 3)}, threads=[1], **QUICK)
    assert {row.case for row in found.rows} == {"all"}


def test_a_swept_feed_has_no_value() -> None:
    with pytest.raises(ValueError, match="sweep of x:0: it has a value"):
        bench(small_graph(), feeds={"x:0": np.ones((1, 3))}, sweeps=["x.0=1"], **QUICK)
