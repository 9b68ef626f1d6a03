"""Runners of the dataflow executor: a Reshape shares memory, and fails as TensorFlow's does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tfjit.framework.graphs.typing import TensorLike

tf1 = tf.compat.v1
OPTIONS = {"TFJIT_DISABLE": "stages"}


def _unknown(lib: Any, x: TensorLike) -> TensorLike:
    """A value of unknown shape: the dataflow executor serves the run."""
    return lib.numpy_function(lambda a: a, [x], lib.float32)


def _values(build: Callable[[Any, Any], Any], feed: np.ndarray, runs: int = 3) -> list[Any]:
    """The last results of TensorFlow and of tfjit; errors by their first line."""
    results: list[Any] = []
    for lib in (tf1, tfjit):
        with lib.Graph().as_default() as graph:
            x = lib.placeholder(lib.float32, name="x")
            fetch = build(lib, _unknown(lib, x))
            start = lib.global_variables_initializer()
        with lib.Session(graph=graph) as session:
            session.run(start)
            for _ in range(runs):
                try:
                    found = session.run(fetch, {x: feed})
                except (tf.errors.OpError, tfjit.errors.OpError) as error:
                    found = type(error).__name__, error.message.split("\n")[0].split("[[")[0]
            results.append(found)
    return results


@pytest.fixture(autouse=True)
def no_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in OPTIONS.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("target", [[6], [-1], [2, -1], [3, 2, 1], [1, 2, -1, 1]])
def test_shapes_of_a_constant(target: list[int]) -> None:
    feed = np.arange(6, dtype="f4").reshape(2, 3)
    expected, found = _values(lambda lib, y: lib.reshape(lib.transpose(y), target) * 2.0, feed)
    np.testing.assert_array_equal(found, expected)
    assert found.shape == expected.shape


@pytest.mark.parametrize(
    ("target", "feed"),
    [([4], np.ones(6)), ([4, -1], np.ones(6)), ([-1, 0], np.ones(0)), ([0], np.ones(0))],
)
def test_shapes_that_do_not_fit_fail_alike(target: list[int], feed: np.ndarray) -> None:
    expected, found = _values(lambda lib, y: lib.reshape(y, target), feed.astype("f4"))
    if isinstance(expected, tuple):
        assert found == expected
    else:
        np.testing.assert_array_equal(found, expected)


def test_a_reshaped_read_keeps_its_value() -> None:
    """The variable changes behind the read; the reshaped value does not."""

    def build(lib: Any, y: Any) -> Any:
        v = lib.Variable(lib.ones([2, 3]), use_resource=False)
        before = lib.reshape(lib.identity(v), [6])
        with lib.control_dependencies([before]):
            change = lib.assign_add(v, lib.reshape(y, [2, 3]))
        with lib.control_dependencies([change]):
            return lib.identity(before), lib.reshape(change, [3, 2]) + 0.0

    expected, found = _values(build, np.arange(6, dtype="f4"))
    for value, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(value, other)


def test_a_fetched_view_is_the_callers_own() -> None:
    with tfjit.Graph().as_default() as graph:
        x = tfjit.placeholder(tfjit.float32, name="x")
        y = _unknown(tfjit, x) + 1.0
        fetches = [y, tfjit.reshape(y, [6])]
    with tfjit.Session(graph=graph) as session:
        for _ in range(3):
            whole, flat = session.run(fetches, {x: np.zeros((2, 3), "f4")})
            np.testing.assert_array_equal(flat, np.ones(6))
            whole[:] = 7.0
        again = session.run(fetches, {x: np.zeros((2, 3), "f4")})
    np.testing.assert_array_equal(again[0], np.ones((2, 3)))
