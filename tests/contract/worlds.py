"""Run one graph in two front ends, and in TensorFlow's session.

A test of the contract takes `front` (see `both`), builds its graph with `world(front, build)` and
compares a tfjit session's behaviour with `outcome` of TensorFlow's session over the same build.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tests import hardware

tf1 = tf.compat.v1
Build = Callable[[Any], dict[str, Any]]
Call = Callable[[Any, SimpleNamespace], Any]

both = pytest.mark.parametrize("front", ["tfjit", "tf"])
"""Run a test over tfjit's own graphs and over a `tf.Graph`."""


def world(front: str, build: Build) -> SimpleNamespace:
    """Hold the results of `build(api)` by name, its `graph` and `api`.

    front: "tfjit", "tf", or "imported": built by TensorFlow, then imported into tfjit's graph, for
    graphs that tfjit's front end cannot make.
    """
    if front == "imported":
        theirs = world("tf", build)
        graph = tfjit.Graph()
        with graph.as_default():
            tfjit.import_graph_def(theirs.graph.as_graph_def(), name="")
        named = {
            name: graph.as_graph_element(value.name)
            for name, value in vars(theirs).items()
            if isinstance(value, (tf.Tensor, tf.Operation))
        }
        return SimpleNamespace(**named, graph=graph, api=tfjit)
    api = tfjit if front == "tfjit" else tf1
    graph = api.Graph()
    with graph.as_default():
        named = build(api)
    return SimpleNamespace(**named, graph=graph, api=api)


@functools.cache
def shared_world(front: str, build: Build) -> SimpleNamespace:
    """`world`, made once a process: for graphs that no test changes."""
    return world(front, build)


def ours(w: SimpleNamespace, config: Any = None) -> tfjit.Session:
    """tfjit's session over a world."""
    return tfjit.Session(graph=w.graph, config=config or tf1.ConfigProto())


def theirs(w: SimpleNamespace, config: Any = None) -> Any:
    """Return TensorFlow's session over a world of its front end."""
    # none would be eager execution's: soft placement
    return tf1.Session(graph=w.graph, config=config or tf1.ConfigProto())


def outcome(session: Any, w: SimpleNamespace, call: Call) -> tuple[str, Any]:
    """Return ("value", the result of the call) or ("error", the exception)."""
    try:
        return "value", call(session, w)
    except Exception as error:
        return "error", error


def agree(got: tuple[str, Any], expected: tuple[str, Any], *, text: bool = True) -> None:
    """Assert that two outcomes are the same.

    Values with their types, errors by class and, where `text`, by message.
    """
    assert got[0] == expected[0], f"{got[1]!r} instead of {expected[1]!r}"
    if got[0] == "value":
        same(got[1], expected[1])
        return
    assert type(got[1]).__name__ == type(expected[1]).__name__, got[1]
    if text:
        assert essence(got[1]) == essence(expected[1])


def same(got: Any, expected: Any) -> None:
    """Equal values of equal types, all the way down."""
    assert type(got).__name__ == type(expected).__name__, (got, expected)
    if isinstance(expected, dict):
        assert list(got) == list(expected)
        for key in expected:
            same(got[key], expected[key])
    elif isinstance(expected, (list, tuple)):
        assert len(got) == len(expected)
        for p, q in zip(got, expected, strict=True):
            same(p, q)
    elif isinstance(expected, (np.ndarray, np.generic)):
        assert got.dtype == expected.dtype
        assert got.shape == expected.shape
        rtol = hardware.rtol(got.dtype)
        if got.dtype.type.__module__ == "ml_dtypes":  # NumPy does not know ml_dtypes' NaNs as such
            got, expected = got.astype("f4"), expected.astype("f4")
        close(got, expected, rtol)
    elif isinstance(expected, (str, bytes, int, float, bool, type(None))):
        assert got == expected


def close(got: Any, expected: Any, rtol: float) -> None:
    """Equal arrays, or those of a GPU with a relative difference of at most `rtol`."""
    if rtol:
        np.testing.assert_allclose(got, expected, rtol=rtol, atol=rtol / 100)
    else:
        np.testing.assert_array_equal(got, expected)


def essence(error: BaseException) -> str:
    """Return a message without the parts that may differ between runs.

    Addresses, source lines, the frames around the cause.
    """
    text = re.sub(r"0x[0-9a-f]+", "0x", str(error))
    text = text.partition("\n\nOriginal stack")[0].partition("\n\nBuilt at")[0]
    text = re.sub(
        r"Detected at node '([^']*)' defined at [^\n]*(\n(?!Node: )[^\n]*)*",
        r"Detected at node '\1'",
        text,
    )
    return re.sub(r"'_\d+_", "'_N_", text).strip()  # queues without a shared name are counted


def cause(error: BaseException) -> str:
    """Return the kernel's part of a step's error.

    The lines after those that name the place.
    """
    lines = [line for line in essence(error).splitlines() if line.strip()]
    kept = [
        line
        for line in lines
        if not line.startswith(("Graph execution error:", "Detected at node", "Node: "))
    ]
    return "\n".join(kept).split("\n\t [[")[0]
