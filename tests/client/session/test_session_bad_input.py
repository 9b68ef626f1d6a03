"""Faulty graphs and feeds through every door: TensorFlow's exception class, a message naming node
and cause, a session that works on.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tfjit.kernels import registry
from tfjit.protos import GraphDef
from tfjit.runtime.factory import SessionOptions, new_session

tf1 = tf.compat.v1
AttrValue = tf1.AttrValue


def good() -> Any:
    """x -> y = x + c -> z = 2 y, as TensorFlow's GraphDef."""
    graph = tf1.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [2], name="x")
        c = tf.constant([1.0, 2.0], name="c")
        y = tf.add(x, c, name="y")
        tf.multiply(y, 2.0, name="z")
    return graph.as_graph_def()


def node(graph_def: Any, name: str) -> Any:
    return next(n for n in graph_def.node if n.name == name)


def edit(name: str, change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda graph_def: change(node(graph_def, name))


def set_input(index: int, value: str) -> Callable[[Any], Any]:
    return lambda n: n.input.__setitem__(index, value)


def set_attr(name: str, **value: Any) -> Callable[[Any], Any]:
    return lambda n: n.attr[name].CopyFrom(AttrValue(**value))


def set_content(content: bytes) -> Callable[[Any], Any]:
    return lambda n: setattr(n.attr["value"].tensor, "tensor_content", content)


def set_size(size: int) -> Callable[[Any], Any]:
    return lambda n: setattr(n.attr["value"].tensor.tensor_shape.dim[0], "size", size)


# change of the good graph, the node and the cause that the message must name
FAULTS: dict[str, tuple[Callable[[Any], Any], str, str]] = {
    "unknown op": (
        edit("z", lambda n: setattr(n, "op", "NoSuchOp")),
        "z",
        "Op type not registered 'NoSuchOp' in binary",
    ),
    "unknown op unused": (
        lambda g: g.node.add(name="q", op="NoSuchOp", input=["x"]),
        "q",
        "Op type not registered 'NoSuchOp'",
    ),
    "dangling input": (
        edit("y", set_input(1, "nowhere")),
        "y",
        "Node 'y': Unknown input node 'nowhere'",
    ),
    "dangling control input": (
        edit("y", lambda n: n.input.append("^nowhere")),
        "y",
        "Node 'y': Unknown input node '^nowhere'",
    ),
    "no such output": (
        edit("y", set_input(1, "c:3")),
        "y",
        "Node 'y': Connecting to invalid output 3 of source node c which has 1 outputs",
    ),
    "malformed input": (
        edit("y", set_input(1, "c:abc")),
        "y",
        "Node 'y': Unknown input node 'c:abc'",
    ),
    "empty input": (edit("y", set_input(1, "")), "y", "Node 'y': Unknown input node ''"),
    "duplicate name": (lambda g: g.node.add(name="c", op="NoOp"), "c", "Node 'c' is not unique"),
    "cycle": (edit("y", set_input(1, "z")), "y", "2 nodes in a cycle"),
    "cycle of one": (edit("y", set_input(1, "y")), "y", "nodes in a cycle"),
    "too many inputs": (
        edit("y", lambda n: n.input.append("c")),
        "",
        "NodeDef expected inputs 'float, float' do not match 3 inputs specified; Op<name=AddV2",
    ),
    "too few inputs": (
        edit("y", lambda n: n.input.pop()),
        "",
        "do not match 1 inputs specified; Op<name=AddV2",
    ),
    "data after control": (
        edit("y", lambda n: n.input.insert(0, "^c")),
        "y",
        "Node 'y': Control dependencies must come after regular dependencies",
    ),
    "missing attr": (edit("y", lambda n: n.attr.pop("T")), "y", "NodeDef missing attr 'T' from"),
    "attr of another kind": (
        edit("y", set_attr("T", i=1)),
        "y",
        "AttrValue had value with type 'int' when 'type' expected",
    ),
    "attr not allowed": (
        edit("y", set_attr("T", type=10)),
        "y",
        "Value for attr 'T' of bool is not in the list of allowed values",
    ),
    "attr against input": (
        edit("y", set_attr("T", type=3)),
        "y",
        "Input 0 of node y was passed float from x:0 incompatible with expected int32.",
    ),
    "empty name": (
        lambda g: g.node.add(name="", op="NoOp"),
        "",
        "Node '': Node name contains invalid characters",
    ),
    "bad name": (
        lambda g: g.node.add(name="a b$", op="NoOp"),
        "a b$",
        "Node 'a b$': Node name contains invalid characters",
    ),
    "no op": (lambda g: g.node.add(name="q", op=""), "q", "Node 'q' does not specify an operation"),
    "short const": (edit("c", set_content(b"\0" * 4)), "c", "Cannot parse tensor from proto"),
    "long const": (edit("c", set_content(b"\0" * 12)), "c", "Cannot parse tensor from proto"),
    "const of negative size": (edit("c", set_size(-5)), "c", "Shape [-5] is not fully defined"),
    "const too big for its content": (
        edit("c", set_size(1 << 40)),
        "c",
        "Cannot parse tensor from proto",
    ),
    "const without value": (
        edit("c", lambda n: n.attr.pop("value")),
        "c",
        "NodeDef missing attr 'value' from",
    ),
    "const against dtype": (
        edit("c", set_attr("dtype", type=3)),
        "c",
        "Type mismatch between value (float) and dtype (int32)",
    ),
    "colocated with nothing": (
        edit("y", set_attr("_class", list=AttrValue.ListValue(s=[b"loc:@nope"]))),
        "y",
        "Node 'y' expects to be colocated with unknown node 'nope'",
    ),
    "negative placeholder": (
        edit("x", lambda n: n.attr["shape"].shape.dim.add(size=-7)),
        "x",
        "Shape [2,",
    ),
    "shapes that contradict": (
        edit("x", lambda n: setattr(n.attr["shape"].shape.dim[0], "size", 3)),
        "y",
        "Dimensions must be equal, but are 3 and 2",
    ),
    "malformed device": (
        edit("y", lambda n: setattr(n, "device", "/nonsense::")),
        "",
        "is encountered while parsing the device spec",
    ),
    "from the future": (
        lambda g: setattr(g.versions, "min_consumer", 1 << 30),
        "",
        "GraphDef min consumer version 1073741824 above current version",
    ),
}
# TensorFlow looks into these constants only when it runs them; of the last it refuses the consumer
LATE_IN_TENSORFLOW = (
    "short const",
    "long const",
    "const too big for its content",
    "const against dtype",
)


def faulty(name: str) -> Any:
    graph_def = good()
    FAULTS[name][0](graph_def)
    return graph_def


def tensorflows_error(name: str) -> BaseException:
    graph = tf1.Graph()
    with pytest.raises(Exception) as caught, graph.as_default():
        tf1.import_graph_def(faulty(name), name="")
        with tf1.Session(graph=graph) as session:
            session.run("z:0", {"x:0": [1, 1]})
    return caught.value


@pytest.mark.parametrize("name", FAULTS)
def test_a_faulty_graph_is_refused_in_tensorflows_words(name: str, tmp_path: Path) -> None:
    graph_def = faulty(name)
    _, where, cause = FAULTS[name]
    path = tmp_path / "graph.pb"
    path.write_bytes(graph_def.SerializeToString())
    theirs = tensorflows_error(name)
    if name not in LATE_IN_TENSORFLOW:
        assert cause in str(theirs)
    for source in (
        graph_def,
        GraphDef.FromString(path.read_bytes()),
        path.read_bytes(),
        path,
        str(path),
    ):
        with pytest.raises(tfjit.errors.OpError) as caught:
            tfjit.Session(graph=source)
        if isinstance(theirs, tf.errors.OpError):
            assert isinstance(caught.value, getattr(tfjit.errors, type(theirs).__name__))
        else:
            assert isinstance(caught.value, type(theirs))  # ValueError
            assert isinstance(caught.value, tfjit.errors.InvalidArgumentError)
        assert cause in str(caught.value)
        assert where in str(caught.value)


@pytest.mark.parametrize("name", FAULTS)
def test_a_session_refuses_a_faulty_extension_and_works_on(name: str) -> None:
    session = new_session(SessionOptions())
    session.create(GraphDef.FromString(good().SerializeToString()))
    x = np.ones(2, "f4")
    np.testing.assert_array_equal(session.run([("x:0", x)], ["z:0"], [])[0], [4, 6])
    extension = faulty(name)
    for n in extension.node:
        n.name = n.name and "more/" + n.name
        for i, source in enumerate(n.input):
            n.input[i] = source and (
                f"^more/{source[1:]}" if source.startswith("^") else f"more/{source}"
            )
    for _ in range(2):
        with pytest.raises(tfjit.errors.OpError):
            session.extend(GraphDef.FromString(extension.SerializeToString()))
        np.testing.assert_array_equal(session.run([("x:0", x)], ["z:0"], [])[0], [4, 6])
        np.testing.assert_array_equal(session.run([("x:0", x)], ["y:0"], ["z"])[0], [2, 3])
        with pytest.raises(
            tfjit.errors.NotFoundError, match="FetchOutputs node more/z:0: not found"
        ):
            session.run([("x:0", x)], ["more/z:0"], [])
    right = GraphDef()
    right.node.add(name="w", op="Neg", input=["z"]).attr["T"].type = 1
    session.extend(right)
    np.testing.assert_array_equal(session.run([("x:0", x)], ["w:0"], [])[0], [-4, -6])
    with pytest.raises(
        tfjit.errors.InvalidArgumentError,
        match="node 'w', which was created by a previous call to Create or Extend",
    ):
        session.extend(right)
    with pytest.raises(
        tfjit.errors.AlreadyExistsError, match="A Graph has already been created for this session"
    ):
        session.create(right)
    session.close()
    session.destroy()


def test_truncated_and_foreign_bytes(tmp_path: Path) -> None:
    data = good().SerializeToString()
    path = tmp_path / "cut.pb"
    for cut in (1, 7, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:cut])
        with pytest.raises(
            tfjit.errors.InvalidArgumentError,
            match=rf"cut\.pb \({cut} bytes\) cannot be parsed as a GraphDef",
        ):
            tfjit.Session(graph=path)
        with pytest.raises(
            tfjit.errors.InvalidArgumentError, match="cannot be parsed as a GraphDef"
        ):
            tfjit.Session(graph=data[:cut])
    with pytest.raises(tfjit.errors.InvalidArgumentError, match="cannot be parsed as a GraphDef"):
        tfjit.Session(graph=b"this is no graph")
    with pytest.raises(tfjit.errors.NotFoundError, match="nothing.pb; No such file or directory"):
        tfjit.Session(graph=tmp_path / "nothing.pb")
    with pytest.raises(TypeError, match='Argument `graph` must be a tf.Graph, but got "int"'):
        tfjit.Session(graph=3)
    with pytest.raises(TypeError, match="NodeDef"):
        tfjit.Session(graph=good().node[0])
    with pytest.raises(TypeError, match="ConfigProto"):
        tfjit.Session(graph=tfjit.Graph(), config=good())
    with tfjit.Session(graph=data) as session:
        np.testing.assert_array_equal(session.run("z:0", {"x:0": [1, 1]}), [4, 6])


def test_an_unplaceable_node_fails_only_runs_that_need_it() -> None:
    graph_def = good()
    node(graph_def, "z").device = "/device:GPU:7"
    with tfjit.Session(graph=graph_def, config=tfjit.ConfigProto()) as session:
        for _ in range(2):
            with pytest.raises(tfjit.errors.InvalidArgumentError) as caught:
                session.run("z:0", {"x:0": [1, 1]})
            text = str(caught.value)
            assert (
                "Cannot assign a device for operation z: {{node z}} was explicitly assigned to "
                "/device:GPU:7 but available devices are [" in text
            )
            assert "/job:localhost/replica:0/task:0/device:CPU:0" in text
            np.testing.assert_array_equal(session.run("y:0", {"x:0": [1, 1]}), [2, 3])
            np.testing.assert_array_equal(session.run("z:0", {"z:0": [5, 5]}), [5, 5])
    with tfjit.Session(
        graph=graph_def, config=tf1.ConfigProto(allow_soft_placement=True)
    ) as session:
        np.testing.assert_array_equal(session.run("z:0", {"x:0": [1, 1]}), [4, 6])
    graph = tf1.Graph()
    with graph.as_default():
        tf1.import_graph_def(graph_def, name="")
    with (
        tf1.Session(graph=graph, config=tf1.ConfigProto()) as theirs,
        pytest.raises(tf.errors.InvalidArgumentError) as expected,
    ):
        theirs.run("z:0", {"x:0": [1, 1]})
    assert "was explicitly assigned to /device:GPU:7 but available devices are [" in str(
        expected.value
    )


def test_an_op_without_a_kernel_is_imported_and_named_when_it_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert registry.find_reference("Svd") is not None
    monkeypatch.delitem(registry._REFERENCES, "Svd")
    graph = tf1.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [2, 2], name="x")
        tf.add(x, 1.0, name="y")
        tf.linalg.svd(x, name="svd")
    with tfjit.Session(graph=graph) as session:
        np.testing.assert_array_equal(session.run("y:0", {x: np.zeros((2, 2))}), np.ones((2, 2)))
        with pytest.raises(tfjit.errors.UnimplementedError, match=r"Svd.*\{\{node svd\}\}"):
            session.run("svd", {x: np.ones((2, 2))})
        np.testing.assert_array_equal(session.run("y:0", {x: np.ones((2, 2))}), np.full((2, 2), 2))


# what only a runtime session can be asked for

X = ("x:0", np.ones(2, "f4"))
CALLS: dict[str, tuple[Callable[[Any], Any], type[Exception], str]] = {
    "nothing asked": (
        lambda s: s.run([], [], []),
        tfjit.errors.InvalidArgumentError,
        "Must specify at least one target to fetch or execute.",
    ),
    "fed twice": (
        lambda s: s.run([X, X], ["z:0"], []),
        tfjit.errors.InvalidArgumentError,
        'Endpoint "x:0" fed more than once.',
    ),
    "fed and fetched": (
        lambda s: s.run([X], ["x:0"], []),
        tfjit.errors.InvalidArgumentError,
        "x:0 is both fed and fetched.",
    ),
    "unknown feed": (
        lambda s: s.run([("q:0", X[1])], ["z:0"], []),
        tfjit.errors.NotFoundError,
        "FeedInputs: unable to find feed output q:0",
    ),
    "unknown slot fed": (
        lambda s: s.run([("x:3", X[1])], ["z:0"], []),
        tfjit.errors.InvalidArgumentError,
        "FeedInputs: x:3 should have output index < 1",
    ),
    "unknown fetch": (
        lambda s: s.run([X], ["nope:0"], []),
        tfjit.errors.NotFoundError,
        "FetchOutputs node nope:0: not found",
    ),
    "unknown slot fetched": (
        lambda s: s.run([X], ["z:4"], []),
        tfjit.errors.InvalidArgumentError,
        "FetchOutputs z:4: output index too large, must be < 1",
    ),
    "unknown target": (
        lambda s: s.run([X], [], ["nope"]),
        tfjit.errors.NotFoundError,
        "PruneForTargets: Some target nodes not found: nope",
    ),
    "fetch without outputs": (
        lambda s: s.run([X], ["nothing:0"], []),
        tfjit.errors.InvalidArgumentError,
        "Session::Run API",
    ),
    "missing feed": (
        lambda s: s.run([], ["z:0"], []),
        tfjit.errors.InvalidArgumentError,
        "You must feed a value for placeholder tensor 'x' with dtype float and shape [2]\n\t "
        "[[{{node x}}]]",
    ),
    "wrong dtype": (
        lambda s: s.run([("x:0", np.ones(2))], ["z:0"], []),
        tfjit.errors.InvalidArgumentError,
        "x:0 has dtype float64, expected float",
    ),
    "wrong shape": (
        lambda s: s.run([("x:0", np.ones(3, "f4"))], ["z:0"], []),
        tfjit.errors.InvalidArgumentError,
        "Incompatible shapes: [3] vs. [2]",
    ),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("options", [None, tfjit.RunOptions()], ids=["plain", "with_options"])
def test_what_a_back_end_is_asked_wrongly(name: str, options: Any) -> None:
    call, kind, text = CALLS[name]
    session = new_session(SessionOptions())
    graph_def = GraphDef.FromString(good().SerializeToString())
    graph_def.node.add(name="nothing", op="NoOp")
    with pytest.raises(
        tfjit.errors.InvalidArgumentError,
        match=r"Session was not created with a graph before Run\(\)!",
    ):
        session.run([], ["z:0"], [])
    session.extend(graph_def)
    plain = session.run
    if options is not None:
        session.run = lambda feeds, fetches, targets: plain(feeds, fetches, targets, options)  # type: ignore[assignment,method-assign,misc]
    for _ in range(2):
        with pytest.raises(kind) as caught:
            call(session)
        assert text in str(caught.value)
        np.testing.assert_array_equal(plain([X], ["z:0"], [])[0], [4, 6])
    session.close()
    session.destroy()


def test_strict_placement_fails_every_run(monkeypatch: pytest.MonkeyPatch) -> None:
    graph_def = good()
    node(graph_def, "z").device = "/device:GPU:7"
    monkeypatch.setenv("TFJIT_STRICT_PLACEMENT", "1")
    with tfjit.Session(graph=graph_def, config=tfjit.ConfigProto()) as session:
        for _ in range(2):
            with pytest.raises(
                tfjit.errors.InvalidArgumentError, match="Cannot assign a device for operation z"
            ):
                session.run("y:0", {"x:0": [1, 1]})
    monkeypatch.delenv("TFJIT_STRICT_PLACEMENT")
    with tfjit.Session(graph=graph_def, config=tfjit.ConfigProto()) as session:
        session.run("y:0", {"x:0": [1, 1]})
