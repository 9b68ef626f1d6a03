"""Device tensors at the ends of a run: edges that the pass marks, copies that it adds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

import tfjit as tf
from tests.simulated_gpu import GPU, simulated_gpu
from tfjit.framework.types.device_ends import DeviceEnds
from tfjit.passes.ir.dataflow_graph import DataflowGraph
from tfjit.passes.ir.run_spec import RunSpec


@pytest.fixture(autouse=True)
def gpu() -> Iterator[None]:
    with simulated_gpu():
        yield


def marked(
    feeds: tuple[str, ...], fetches: tuple[str, ...], handle: bool = False
) -> dict[str, list[str]]:
    """Return the edges of y = tanh(x) on the device and z = y - x on the host.

    feeds, fetches: of x, y and z, those in the device's memory.
    """
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [4, 5], name="x")
        with tf.device("/device:GPU:0"):
            y = tf.tanh(x, name="y")
            if handle:
                tf.identity(tf.get_session_handle(y), name="h")
        with tf.device("/device:CPU:0"):
            tf.subtract(y, x, name="z")
    ends = DeviceEnds(tuple((n, GPU) for n in feeds), tuple((n, GPU) for n in fetches))
    fetched = ("y:0", "z:0", *(("h:0",) if handle else ()))
    with tf.Session(graph=graph) as session:
        session._extend()
        runtime: Any = session._runtime_session
        ((partition,), _) = runtime.build_partitions(RunSpec(("x:0",), fetched, ends=ends))
        partition.graph.verify()
        return edges(partition.graph)


def edges(graph: DataflowGraph) -> dict[str, list[str]]:
    """Return the nodes between the ends, with the dtypes of inputs and outputs."""
    return {
        re.sub(r"/_\d$", "", node.name): [d.name for d in (*node.input_dtypes, *node.output_dtypes)]
        for node in graph.op_nodes()
        if node.op in ("_Offload", "_Arg", "_Retval", "GetSessionHandle")
    }


def between(rows: int | None) -> dict[str, list[str]]:
    """Return the edges of y = tanh(x) and w = y + z, with z of the host between both."""
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [rows, 128], name="x")
        with tf.device("/device:GPU:0"):
            y = tf.tanh(x, name="y")
        with tf.device("/device:CPU:0"):
            z = tf.py_func(lambda v: v, [y], tf.float32, name="z")
        with tf.device("/device:GPU:0"):
            tf.add(y, z, name="w")
    with tf.Session(graph=graph) as session:
        session._extend()
        runtime: Any = session._runtime_session
        ((partition,), _) = runtime.build_partitions(RunSpec(("x:0",), ("w:0",)))
        partition.graph.verify()
        return edges(partition.graph)


ARG, Y, Z = "_arg_x_0_0", "_retval_y_0_0", "_retval_z_0_1"


def test_without_such_ends_nothing_changes() -> None:
    assert marked((), ()) == {
        ARG: ["float32"],
        "y/offload": ["float32", "float32"],
        Y: ["float32"],
        Z: ["float32"],
    }


def test_a_feed_with_a_user_on_the_host() -> None:
    assert marked(("x:0",), ()) == {
        ARG: ["variant"],
        "y/offload": ["variant", "float32"],
        f"{ARG}/copy": ["variant", "float32"],
        Y: ["float32"],
        Z: ["float32"],
    }


def test_a_fetch_that_the_host_uses_too() -> None:
    """It has both forms."""
    assert marked((), ("y:0",)) == {
        ARG: ["float32"],
        "y/offload": ["float32", "float32", "variant"],
        Y: ["variant"],
        Z: ["float32"],
    }


def test_a_fetch_that_the_host_makes() -> None:
    assert marked((), ("z:0",)) == {
        ARG: ["float32"],
        "y/offload": ["float32", "float32"],
        f"{Z}/copy": ["float32", "variant"],
        Y: ["float32"],
        Z: ["variant"],
    }


def test_a_stored_tensor() -> None:
    found = marked((), (), handle=True)
    assert found["GetSessionHandle"] == ["variant", "string"]
    assert found["y/offload"] == ["float32", "float32", "variant"]


@pytest.mark.parametrize("rows", [128, None])
def test_a_value_of_two_programs(rows: int | None) -> None:
    """The host's copy is a result of its own."""
    found = between(rows)
    assert found["y/offload"] == ["float32", "float32", "variant"]
    assert found["w/offload"] == ["variant", "float32", "float32"]


def test_a_small_value_of_two_programs() -> None:
    """It passes through the host where the host waits for the first program anyway."""
    found = between(4)
    assert found["y/offload"] == ["float32", "float32"]
    assert found["w/offload"] == ["float32", "float32", "float32"]
