"""Section 6, point 30: where TensorFlow crashes, hangs or eats the machine's memory, tfjit says
what is wrong.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tests.contract.worlds import both, ours, shared_world, world
from tfjit.kernels import memory_limits

tf1 = tf.compat.v1


def build(api: Any) -> dict[str, Any]:
    n = api.placeholder(api.int32, [], name="n")
    ids = api.placeholder(api.int32, [None], name="ids")
    none = api.constant(np.zeros(0, "f4"))
    return {
        "n": n,
        "ids": ids,
        "one_hot": api.one_hot(ids, n, name="one_hot"),
        "bincount": api.raw_ops.Bincount(arr=ids, size=n, weights=none, name="bincount"),
        "dense_bincount": api.raw_ops.DenseBincount(
            input=ids, size=n, weights=none, name="dense_bincount"
        ),
        "fill": api.fill([n, 4], 1.0, name="fill"),
        "range": api.range(n, name="range"),
        "tile": api.tile(api.constant([1.0, 2.0]), [n], name="tile"),
        "broadcast": api.broadcast_to(api.constant(1.0), [n, 2], name="broadcast"),
        "pad": api.pad(api.constant([1.0, 2.0]), [[0, n]], name="pad"),
    }


SIZES = ("one_hot", "bincount", "dense_bincount", "fill", "range", "tile", "broadcast", "pad")


@both
@pytest.mark.parametrize("name", SIZES)
def test_what_needs_too_much_memory(front: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_limits, "available_bytes", lambda: 1 << 30)
    w = shared_world(front, build)
    with ours(w) as session:
        for _ in range(2):
            with pytest.raises(
                tfjit.errors.ResourceExhaustedError, match="OOM when allocating tensor with shape"
            ) as caught:
                session.run(getattr(w, name), {w.n: 2**31 - 8, w.ids: [1, 2]})
            assert caught.value.op is w.graph.get_operation_by_name(name)
        # and the session works on
        assert session.run(getattr(w, name), {w.n: 3, w.ids: [1, 2]}).size


def test_what_the_machine_has() -> None:
    available = memory_limits.available_bytes()
    assert available is None or 1 << 20 < available < 1 << 50
    memory_limits.check_fits_in_memory((1000, 1000), np.float32)
    if available is not None:
        with pytest.raises(
            tfjit.errors.ResourceExhaustedError,
            match=r"shape\[1073741824,1073741824\] and type double by allocator cpu",
        ):
            memory_limits.check_fits_in_memory((1 << 30, 1 << 30), np.float64)


def endless(api: Any) -> dict[str, Any]:
    enter = api.raw_ops.Enter(data=api.constant(1.0), frame_name="frame", name="enter")
    merged = api.raw_ops.Merge(inputs=[enter, enter], name="merged")[0]
    following = api.raw_ops.NextIteration(data=api.raw_ops.Neg(x=merged), name="following")
    merged.op._update_input(1, following)
    return {
        "out": api.raw_ops.Exit(data=merged, name="out"),
        "fine": api.constant(3.0, name="fine"),
    }


@both
def test_a_loop_without_a_condition(front: str) -> None:
    w = world(front, endless)
    with ours(w) as session:
        for _ in range(2):
            with pytest.raises(
                tfjit.errors.InvalidArgumentError, match="has no condition"
            ) as caught:
                session.run(w.out, options=tf1.RunOptions(timeout_in_ms=20_000))
            assert caught.value.op is w.graph.get_operation_by_name("following")
        assert session.run(w.fine) == 3


def calls_itself(how: str) -> Any:
    graph_def = tf1.GraphDef()
    function = graph_def.library.function.add()
    function.signature.name = "f"
    function.signature.input_arg.add(name="x", type=1)
    function.signature.output_arg.add(name="y", type=1)
    inner = function.node_def.add(
        name="inner", op="f" if how == "by its name" else "PartitionedCall", input=["x"]
    )
    outer = graph_def.node.add(name="outer", op="PartitionedCall", input=["p"])
    graph_def.node.add(name="p", op="Placeholder").attr["dtype"].type = 1
    for node in (inner, outer):
        if node.op == "PartitionedCall":
            node.attr["f"].func.name = "f"
            node.attr["Tin"].list.type.append(1)
            node.attr["Tout"].list.type.append(1)
    function.ret["y"] = "inner:y:0" if how == "by its name" else "inner:output:0"
    return graph_def


@pytest.mark.parametrize("how", ["by its name", "by a call"])
def test_a_function_that_calls_itself(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFJIT_RECURSION", "50")
    with tfjit.Session(graph=calls_itself(how)) as session:
        for _ in range(2):
            with pytest.raises(
                tfjit.errors.ResourceExhaustedError, match="calls itself more than 50 calls deep"
            ):
                session.run("outer:0", {"p:0": 1.0})
        assert session.run("p:0", {"p:0": 1.0}) == 1
