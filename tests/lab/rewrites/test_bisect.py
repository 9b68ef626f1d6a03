"""A wrong or slow rewrite, planted in each optional pass, is found by its pass and number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import tfjit as tf
from tests.lab.rewrites.planted import FEEDS, FETCHES, negate, plant, slow, small_program
from tfjit.kernels.ir.fused_group import FusedGroup
from tfjit.lab import bisect
from tfjit.passes.manager.pass_registry import PASSES

OPTIONAL = [name for name, info in PASSES.items() if not info.required]


@pytest.fixture(autouse=True)
def by_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFJIT_JIT", "off")


@pytest.fixture(scope="module")
def graph() -> tf.Graph:
    return small_program()


@pytest.mark.parametrize("name", OPTIONAL)
def test_a_wrong_rewrite_in_any_optional_pass_is_found(
    name: str, graph: tf.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = plant(monkeypatch, name, negate)
    found = bisect(graph, FETCHES, FEEDS)
    assert found.culprit is not None, found
    assert (found.culprit.pass_name, found.culprit.node) == (name, "planted")
    assert found.culprit.number == planted.number
    assert found.is_monotone
    assert "planted" in found.culprit.after and "planted" not in found.culprit.before
    assert f"pass {name}" in str(found) and "before" in found._repr_html_()


@pytest.mark.parametrize("name", ["simplify", "fuse"])
def test_a_slow_rewrite_is_found(
    name: str, graph: tf.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = plant(monkeypatch, name, slow)
    found = bisect(graph, FETCHES[:1], FEEDS, slower_than=3.0)
    assert found.culprit is not None, found
    assert (found.culprit.pass_name, found.culprit.number) == (name, planted.number)
    assert "times the unoptimised run" in found.note


def test_a_good_run_has_no_culprit(graph: tf.Graph) -> None:
    found = bisect(graph, FETCHES, FEEDS)
    assert found.culprit is None and found.note.startswith("nothing to find")
    assert found.rewrites > 5 and found.as_json()["culprit"] is None


def test_a_wrong_kernel_of_a_fused_group_is_the_rewrite_that_made_the_group(
    graph: tf.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = FusedGroup.run_reference

    def wrong(self: FusedGroup, inputs: Sequence[Any]) -> list[Any]:
        values = right(self, inputs)
        return [value + 1 for value in values] if "MatMul" in self.ops else values

    monkeypatch.setattr(FusedGroup, "run_reference", wrong)
    found = bisect(graph, ["y:0"], FEEDS)
    assert found.culprit is not None
    assert found.culprit.pass_name == "fuse" and "MatMul" in found.culprit.changes


def test_a_fault_without_any_rewrite_is_no_rewrites(graph: tf.Graph) -> None:
    right = [np.zeros((2, 2), np.float32)]
    found = bisect(graph, ["y:0"], FEEDS, against=right)
    assert found.culprit is None and "no rewrite is at fault" in found.note


def test_variables_are_set_by_an_operation_that_runs_first() -> None:
    with tf.Graph().as_default() as graph:
        v = tf.Variable(np.ones(3, np.float32), name="v")
        tf.identity(v * 2.0 + 1.0, name="y")
        init = tf.global_variables_initializer()
    found = bisect(graph, ["y:0"], first=[init.name])
    assert found.culprit is None and found.trials[0].good


def test_arguments_that_do_not_fit(graph: tf.Graph) -> None:
    with pytest.raises(ValueError, match="no fetch"):
        bisect(graph, [])
    with pytest.raises(ValueError, match="positive"):
        bisect(graph, FETCHES, FEEDS, slower_than=0.0)
    with pytest.raises(ValueError, match="expected 'unoptimised'"):
        bisect(graph, FETCHES, FEEDS, against="torch")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="2 fetches and 1 right values"):
        bisect(graph, FETCHES, FEEDS, against=[1.0])
