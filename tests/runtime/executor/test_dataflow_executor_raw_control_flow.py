"""Switch, Merge, Enter, Exit and NextIteration as GraphDefs put them, well formed or not:
TensorFlow's values and errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tests.runtime.error_texts import cause

tf1 = tf.compat.v1
GraphDef = tf1.GraphDef
TYPES = {"int": tf.int32, "float": tf.float32, "bool": tf.bool}
CPUS = [f"/device:CPU:{i}" for i in range(4)]


@pytest.fixture(autouse=True)
def old_control_flow() -> Iterator[None]:
    tf1.disable_control_flow_v2()
    yield
    tf1.enable_control_flow_v2()


def node(
    graph: GraphDef, name: str, op: str, inputs: list[str], device: str = "", **attrs: Any
) -> None:
    made = graph.node.add(name=name, op=op, input=inputs, device=device)
    for key, value in attrs.items():
        if isinstance(value, str) and value in TYPES:
            made.attr[key].type = TYPES[value].as_datatype_enum
        elif isinstance(value, str):
            made.attr[key].s = value.encode()
        elif isinstance(value, bool):
            made.attr[key].b = value
        else:
            made.attr[key].i = value


def constant(graph: GraphDef, name: str, value: Any, inputs: list[str] | None = None) -> None:
    tensor = tf.make_tensor_proto(value)
    made = graph.node.add(name=name, op="Const", input=inputs or [])
    made.attr["value"].tensor.CopyFrom(tensor)
    made.attr["dtype"].type = tensor.dtype


def placeholder(graph: GraphDef, name: str, dtype: str, *, scalar: bool = True) -> None:
    made = graph.node.add(name=name, op="Placeholder")
    made.attr["dtype"].type = TYPES[dtype].as_datatype_enum
    made.attr["shape"].shape.CopyFrom(tf.TensorShape([] if scalar else None).as_proto())


def add_loop(
    graph: GraphDef, frame: str = "f", prefix: str = "", count: int = 5, **attrs: Any
) -> None:
    """i = 0; while i < count: i += 1."""
    p = prefix
    constant(graph, p + "zero", 0)
    constant(graph, p + "n", count)
    node(graph, p + "enter", "Enter", [p + "zero"], T="int", frame_name=frame, **attrs)
    node(
        graph, p + "limit", "Enter", [p + "n"], T="int", frame_name=frame, is_constant=True, **attrs
    )
    node(graph, p + "merge", "Merge", [p + "enter", p + "next"], T="int", N=2)
    node(graph, p + "less", "Less", [p + "merge", p + "limit"], T="int")
    node(graph, p + "cond", "LoopCond", [p + "less"])
    node(graph, p + "switch", "Switch", [p + "merge", p + "cond"], T="int")
    node(graph, p + "inside", "Identity", [p + "switch:1"], T="int")
    constant(graph, p + "one", 1, ["^" + p + "inside"])
    node(graph, p + "add", "AddV2", [p + "inside", p + "one"], T="int")
    node(graph, p + "next", "NextIteration", [p + "add"], T="int")
    node(graph, p + "exit", "Exit", [p + "switch"], T="int")


def loop(**options: Any) -> GraphDef:
    graph = GraphDef()
    add_loop(graph, **options)
    return graph


def two_loops(count: int) -> GraphDef:
    graph = loop()
    add_loop(graph, prefix="q_", count=count)
    return graph


def branches(
    devices: list[str] | None = None, end: Callable[[GraphDef], None] = lambda graph: None
) -> GraphDef:
    """Switch x by p: -x or x * x."""
    on = devices or [""] * 4
    graph = GraphDef()
    placeholder(graph, "p", "bool", scalar=False)
    placeholder(graph, "x", "float")
    node(graph, "s", "Switch", ["x", "p"], on[0], T="float")
    node(graph, "a", "Neg", ["s"], on[1], T="float")
    node(graph, "b", "Square", ["s:1"], on[2], T="float")
    node(graph, "m", "Merge", ["a", "b"], on[3], T="float", N=2)
    end(graph)
    return graph


def waits_for_a(op: str, devices: list[str]) -> GraphDef:
    def end(graph: GraphDef) -> None:
        node(graph, "t", op, ["^a"], devices[3])
        constant(graph, "k", 1.0, ["^t"])

    return branches(devices, end)


def numbered() -> GraphDef:
    graph = GraphDef()
    placeholder(graph, "i", "int", scalar=False)
    constant(graph, "x", 3.0)
    node(graph, "s", "_SwitchN", ["x", "i"], T="float", num_outs=3)
    node(graph, "a", "Neg", ["s"], T="float")
    node(graph, "b", "Square", ["s:1"], T="float")
    node(graph, "m", "Merge", ["a", "b", "s:2"], T="float", N=3)
    return graph


def odd(*nodes: tuple[str, str, list[str], dict[str, Any]]) -> GraphDef:
    graph = GraphDef()
    constant(graph, "c", 1)
    constant(graph, "d", 2)
    for name, op, inputs, attrs in nodes:
        node(graph, name, op, inputs, T="int", **attrs)
    return graph


def enter(name: str, source: str, frame: str) -> tuple[str, str, list[str], dict[str, Any]]:
    return name, "Enter", [source], {"frame_name": frame}


# name -> (graph, fetches, feeds)
CASES: dict[str, tuple[GraphDef, Any, dict[str, Any]]] = {
    **{f"a loop, {k} at once": (loop(parallel_iterations=k), "exit:0", {}) for k in (1, 2, 10)},
    **{
        f"fetch {name}": (loop(), name, {})
        for name in ("add:0", "merge:0", "merge:1", "less:0", "switch:0", "switch:1", "next:0")
    },
    **{f"fetch {name}": (loop(), name, {}) for name in ("enter:0", "limit:0")},
    "fetch merge, no iteration": (loop(count=0), "merge:0", {}),
    "fetch outside and inside": (loop(), ["exit:0", "add:0"], {}),
    "run inside": (loop(), ["exit:0", "add"], {}),
    **{
        f"feed {name}": (loop(), "exit:0", {name: 3})
        for name in ("add:0", "merge:1", "switch:0", "switch:1", "enter:0", "exit:0", "one:0")
    },
    **{f"feed {name}": (loop(), "exit:0", {name: True}) for name in ("less:0", "cond:0")},
    **{f"two loops in one frame, {n}": (two_loops(n), ["exit:0", "q_exit:0"], {}) for n in (5, 0)},
    "no frame name": (odd(enter("e", "c", ""), ("x", "Exit", ["e"], {})), "x:0", {}),
    "exit from nothing": (odd(("x", "Exit", ["c"], {})), "x:0", {}),
    "from two frames": (
        odd(
            enter("e", "c", "f"),
            enter("g", "c", "g"),
            ("a", "AddV2", ["e", "g"], {}),
            ("x", "Exit", ["a"], {}),
        ),
        "x:0",
        {},
    ),
    "from outside": (
        odd(enter("e", "c", "f"), ("a", "AddV2", ["e", "c"], {}), ("x", "Exit", ["a"], {})),
        "x:0",
        {},
    ),
    "frame in frame": (
        odd(
            enter("e", "c", "f"),
            enter("g", "e", "g"),
            ("x", "Exit", ["g"], {}),
            ("y", "Exit", ["x"], {}),
        ),
        ["y:0", "e:0", "g:0"],
        {},
    ),
    "two live inputs": (odd(("m", "Merge", ["c", "d"], {"N": 2})), ["m:0", "m:1"], {}),
    **{
        f"switch {p} on {len(set(on))}": (branches(on), ["m:0", "m:1"], {"p:0": p, "x:0": 3})
        for p in (True, False)
        for on in ([""] * 4, CPUS)
    },
    **{
        f"a dead fetch {p}": (branches(CPUS), ["a:0", "m:0"], {"p:0": p, "x:0": 3})
        for p in (True, False)
    },
    **{
        f"a dead target {p}": (branches(CPUS), ["a", "m:0"], {"p:0": p, "x:0": 3})
        for p in (True, False)
    },
    **{
        f"{op} {p}": (waits_for_a(op, CPUS), "k:0", {"p:0": p, "x:0": 3})
        for op in ("ControlTrigger", "NoOp")
        for p in (True, False)
    },
    **{
        f"predicate {p}": (branches(), "m:0", {"p:0": p, "x:0": 3})
        for p in ([True], [[False]], np.zeros(0, bool))
    },
    **{
        f"switch to {i}": (numbered(), ["m:0", "m:1"], {"i:0": np.array(i, "i4")})
        for i in (0, 1, 2, 3, -1, [1])
    },
}


# which nodes TensorFlow tells of depends on how it orders them, and on what it has put in their
# place before
_UNORDERED = ("has inputs from different frames. The input", "has more than one LoopCond node")


@pytest.mark.parametrize("disabled", ["", "functionalize"])
@pytest.mark.parametrize("name", CASES)
def test_like_tensorflow(name: str, disabled: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFJIT_DISABLE", disabled)
    definition, fetches, feeds = CASES[name]
    graph = tf1.Graph()
    with graph.as_default():
        tf.import_graph_def(definition, name="")
    config = tf1.ConfigProto(device_count={"CPU": 4})
    with (
        tf1.Session(graph=graph, config=config) as theirs,
        tfjit.Session(graph=graph, config=config) as ours,
    ):
        try:
            expected = theirs.run(fetches, feeds)
        except tf.errors.OpError as error:
            for _ in range(2):
                with pytest.raises(getattr(tfjit.errors, type(error).__name__)) as caught:
                    ours.run(fetches, feeds)
                wanted, found = cause(error), cause(caught.value)
                phrase = next((phrase for phrase in _UNORDERED if phrase in wanted), None)
                assert found == wanted or (phrase is not None and phrase in found)
            return
        for _ in range(3):
            for one, other in zip(
                tf.nest.flatten(ours.run(fetches, feeds)), tf.nest.flatten(expected), strict=True
            ):
                np.testing.assert_array_equal(one, other)


def test_a_loop_without_a_condition_is_refused() -> None:
    graph = GraphDef()
    constant(graph, "c", 1)
    node(graph, "e", "Enter", ["c"], T="int", frame_name="f")
    node(graph, "m", "Merge", ["e", "next"], T="int", N=2)
    node(graph, "next", "NextIteration", ["m"], T="int")
    node(graph, "x", "Exit", ["m"], T="int")
    ours = tfjit.Graph()
    with ours.as_default():
        tfjit.import_graph_def(graph, name="")
    with (
        tfjit.Session(graph=ours) as session,
        pytest.raises(tfjit.errors.InvalidArgumentError, match="no condition"),
    ):
        session.run("x:0")


@pytest.mark.parametrize("index", [0, 1, 2, -1])
def test_a_reference_chosen_by_index(index: int) -> None:
    graph = tf1.Graph()
    with graph.as_default():
        v, w = (tf1.Variable(start, use_resource=False) for start in (1.0, 7.0))
        init = tf1.global_variables_initializer()
        chosen = tf.raw_ops.RefSelect(
            index=tf1.placeholder_with_default(index, []), inputs=[v._ref(), w._ref()]
        )
        with tf.control_dependencies([tf1.assign_add(chosen, 100.0)]):
            fetches = [tf.raw_ops.Identity(input=v._ref()), tf.raw_ops.Identity(input=w._ref())]
    found = []
    for session_class in (tf1.Session, tfjit.Session):
        with session_class(graph=graph) as session:
            session.run(init)
            try:
                found.append([session.run(fetches) for _ in range(2)])
            except Exception as error:
                found.append((type(error).__name__, cause(error)))
    assert found[0] == found[1]


def test_an_assertion_in_a_called_function() -> None:
    """What a body does beside its results happens, though nothing takes the result that it is told
    by.
    """
    tf1.enable_control_flow_v2()
    graph = tf1.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [])

        @tf.function
        def checked(x: Any) -> Any:
            tf.debugging.assert_less(x, 0.0, message="no!")
            return x

        y = checked(x)
    with tf1.Session(graph=graph) as theirs, tfjit.Session(graph=graph) as ours:
        assert ours.run(y, {x: -1.0}) == theirs.run(y, {x: -1.0})
        with pytest.raises(tf.errors.InvalidArgumentError) as wanted:
            theirs.run(y, {x: 1.0})
        for _ in range(3):
            with pytest.raises(tfjit.errors.InvalidArgumentError) as found:
                ours.run(y, {x: 1.0})
            assert cause(found.value) == cause(wanted.value)
