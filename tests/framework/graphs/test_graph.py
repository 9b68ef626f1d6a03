"""Graph, Operation and Tensor against TensorFlow's."""

from __future__ import annotations

import gc
import sys
import threading
import time
import weakref
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.framework.fresh_graphs import Ours, both, fresh_graph
from tfjit.framework.errors import InvalidGraphError, NotFoundError, UnimplementedError
from tfjit.framework.graphs import default_graph, operation
from tfjit.framework.graphs.graph import PRODUCER, Graph, GraphKeys
from tfjit.framework.graphs.operation import OperatorNotAllowedInGraphError, Tensor
from tfjit.framework.types import dtypes


def const(graph: Graph, value: Any, name: str | None = None) -> Tensor:
    array = np.asarray(value)
    return graph.create_op(
        "Const", name=name, attrs={"value": array, "dtype": array.dtype}
    ).outputs[0]


LOOKUPS: list[Any] = [
    "a",
    "zz",
    "a:0",
    "a:1",
    "zz:0",
    "a:x",
    "a:",
    ":0",
    "a:b:c",
    "^a",
    "",
    3,
    None,
    b"a:0",
    2.5,
    ["a"],
]


@pytest.mark.parametrize(
    "method", ["get_operation_by_name", "get_tensor_by_name", "as_graph_element"]
)
@pytest.mark.parametrize("key", LOOKUPS, ids=repr)
def test_lookup_by_name(method: str, key: Any) -> None:
    def build(library: Any, graph: Any) -> Any:
        library.placeholder("a")
        return getattr(graph, method)(key).name

    ours, theirs = both(build)
    assert ours == theirs


def test_negative_output_index_is_no_name() -> None:
    with fresh_graph(Ours) as graph:
        Ours.placeholder("a")
        with pytest.raises(ValueError, match="is not a valid one"):
            graph.get_tensor_by_name("a:-1")  # TensorFlow takes it for the last output


@pytest.mark.parametrize("tensor", [True, False])
@pytest.mark.parametrize("operation", [True, False])
@pytest.mark.parametrize("key", ["a", "a:0", "zz", "zz:0"])
def test_wanted_kind(key: str, tensor: bool, operation: bool) -> None:
    def build(library: Any, graph: Any) -> Any:
        library.placeholder("a")
        return graph.as_graph_element(key, allow_tensor=tensor, allow_operation=operation).name

    ours, theirs = both(build)
    assert ours == theirs


def test_elements_of_other_graphs_and_kinds() -> None:
    with fresh_graph(Ours) as graph:
        x = Ours.placeholder("x")
        with pytest.raises(
            ValueError,
            match=r'Tensor Tensor\("x:0", dtype=float32\) is not an element of this graph.',
        ):
            Graph().as_graph_element(x)
        with pytest.raises(ValueError, match="is not an element of this graph."):
            Graph().as_graph_element(x.op)
        with pytest.raises(TypeError, match="Can not convert a Tensor into a Operation."):
            graph.as_graph_element(x, allow_tensor=False)
        with pytest.raises(TypeError, match="Can not convert a Operation into a Tensor."):
            graph.as_graph_element(x.op, allow_operation=False)

        class Wrapped:
            def _as_graph_element(self) -> Tensor:
                return x

        assert graph.as_graph_element(Wrapped()) is x


def test_ids_and_version() -> None:
    graph = Graph()
    assert graph.version == 0
    ops = [graph.create_op("NoOp") for _ in range(3)]
    assert [op._id for op in ops] == [1, 2, 3]
    assert graph.version == 3
    assert graph.operations_after(1) == ops[1:]
    assert graph.get_operations() == ops
    assert graph.building_function is False
    assert graph.graph_def_versions.producer == PRODUCER == tf.Graph().graph_def_versions.producer


def test_finalize() -> None:
    graph = Graph()
    graph.finalize()
    assert graph.finalized
    with pytest.raises(RuntimeError, match="Graph is finalized and cannot be modified."):
        graph.create_op("NoOp")
    with pytest.raises(RuntimeError, match="Graph is finalized and cannot be modified."):
        graph.add_to_collection("a", 1)


def test_texts() -> None:
    with fresh_graph(Ours) as graph:
        x = Ours.placeholder("x", [2, None])
        with graph.device("/gpu:0"):
            y = Ours.placeholder("y")
    assert (repr(x), str(x)) == (
        "<tf.Tensor 'x:0' shape=(2, None) dtype=float32>",
        'Tensor("x:0", shape=(2, None), dtype=float32)',
    )
    assert str(y) == 'Tensor("y:0", dtype=float32, device=/device:GPU:0)'
    assert repr(x.op) == "<tf.Operation 'x' type=Placeholder>"
    assert 'name: "x"' in str(x.op)
    assert repr(x.ref()) == "<Reference wrapping <tf.Tensor 'x:0' shape=(2, None) dtype=float32>>"


def test_tensor_as_python_object() -> None:
    with fresh_graph(Ours):
        x = Ours.placeholder("x", [2])
        y = Ours.placeholder("y", [2])
    assert (
        x != y
        and x == x
        and len({x, y, x}) == 2
        and x.ref() == x.ref() != y.ref()
        and x.ref().deref() is x
    )
    with pytest.raises(OperatorNotAllowedInGraphError, match="as a Python `bool` is not allowed"):
        bool(x)
    with pytest.raises(OperatorNotAllowedInGraphError, match="Iterating over a symbolic"):
        list(x)
    with pytest.raises(TypeError, match=r"len is not well defined for a symbolic Tensor \(x:0\)"):
        len(x)
    with pytest.raises(
        NotImplementedError, match=r"Cannot convert a symbolic tf.Tensor \(x:0\) to a numpy array"
    ):
        np.asarray(x)
    with pytest.raises(TypeError):
        float(x)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Overriding __bool__ is disallowed"):
        Tensor._override_operator("__bool__", lambda x: True)
    assert issubclass(OperatorNotAllowedInGraphError, TypeError)


def test_set_shape() -> None:
    def build(library: Any, graph: Any) -> Any:
        x = library.placeholder("x", [2, None])
        x.set_shape([None, 3])
        y = library.placeholder("y")
        y.set_shape([None, 1])
        x.set_shape([4, 3])

    ours, theirs = both(build)
    assert ours == theirs
    assert ours[0] == (
        "ValueError",
        "Dimension 0 in both shapes must be equal, but are 2 and 4. Shapes are [2,3] and [4,3].",
    )


def test_consumers_and_inputs() -> None:
    def build(library: Any, graph: Any) -> Any:
        x = library.placeholder("x")
        y = library.add(x, x, "y")
        library.identity(y, "z")
        library.identity(x, "w")
        return [sorted(c.name for c in t.consumers()) for t in (x, y)]

    ours, theirs = both(build)
    assert ours == theirs
    assert ours[0] == [["w", "y", "y"], ["z"]]


def test_control_dependencies() -> None:
    def build(library: Any, graph: Any) -> Any:
        a, b = library.placeholder("a"), library.placeholder("b")
        c, s = library.identity(a, "c"), library.add(a, a, "s")
        with library.control_dependencies([a, b.op, a]):
            x = library.identity(c, "x")
            y = library.identity(x, "y")
            library.identity(a, "z")
            with library.control_dependencies([s]):
                library.identity(x, "w")
            with library.control_dependencies(None):
                library.identity(x, "v")
                with library.control_dependencies([b]):
                    library.identity(x, "v2")
            with library.control_dependencies([y]):
                library.identity(b, "u")
            with library.control_dependencies([]):
                library.no_op("n")
        library.no_op("m")
        inputs = {n.name: list(n.input) for n in graph.as_graph_def().node}
        with library.control_dependencies(["a", "b:0"]):
            library.no_op("q")
        return inputs

    ours, theirs = both(build)
    assert ours == theirs


@pytest.mark.parametrize("bad", [3, [3], [None], ["zz"]], ids=repr)
def test_bad_control_dependencies(bad: Any) -> None:
    def build(library: Any, graph: Any) -> Any:
        with library.control_dependencies(bad):
            pass

    ours, theirs = both(build)
    assert ours == theirs


def test_collections() -> None:
    def build(library: Any, graph: Any) -> Any:
        a = library.placeholder("scope/a")
        graph.add_to_collection("c", 1)
        graph.add_to_collections(["c", "d", "c"], a)
        graph.add_to_collections("e", 2)
        graph.add_to_collection(("tuple", "key"), 3)
        graph.get_collection_ref("new").append(4)
        graph.get_collection("c").append(99)
        seen = [
            sorted(graph.get_all_collection_keys()),
            len(graph.get_collection("c")),
            graph.get_collection("zz"),
            graph.get_collection("new"),
        ]
        seen.append([t.name for t in graph.get_collection("d", scope="scope")])
        seen.append([t.name for t in graph.get_collection("d", scope="a")])
        seen.append(graph.get_collection("c", scope="x"))
        graph.clear_collection("new")
        seen.append(graph.get_collection("new"))
        seen.append(sorted(map(str, graph.collections)))
        return seen

    ours, theirs = both(build)
    assert ours[0] == theirs[0]


def test_graph_keys() -> None:
    theirs = tf.compat.v1.GraphKeys
    known = {
        k: getattr(theirs, k)
        for k in dir(theirs)
        if k.isupper() and isinstance(getattr(theirs, k), str) and not k.startswith("_")
    }
    ours = {
        k: getattr(GraphKeys, k) for k in dir(GraphKeys) if k.isupper() and not k.startswith("_")
    }
    assert {k: v for k, v in known.items() if k in ours} == {
        k: v for k, v in ours.items() if k in known
    }
    assert set(known) - set(ours) <= {"STREAMING_MODEL_PORTS", "TRAINING_OP"}


def test_feedable_and_fetchable() -> None:
    with fresh_graph(Ours) as graph:
        a = Ours.placeholder("a")
        assert graph.is_feedable(a) and graph.is_fetchable(a) and graph.is_fetchable(a.op)
        graph.prevent_feeding(a)
        graph.prevent_fetching(a.op)
        assert (
            not graph.is_feedable(a) and not graph.is_fetchable(a) and not graph.is_fetchable(a.op)
        )


def test_attr_scopes() -> None:
    with fresh_graph(Ours) as graph:
        a = Ours.placeholder("a")
        with graph.gradient_override_map({"Identity": "Mine"}):
            assert Ours.identity(a).op.get_attr("_gradient_op_type") == b"Mine"
        with graph._attr_scope_block({"_mark": "here", "_n": 3}):
            op = Ours.identity(a).op
            assert (op.get_attr("_mark"), op.get_attr("_n")) == (b"here", 3)
        with graph._kernel_label_map({"Identity": "slow"}):
            assert Ours.identity(a).op.get_attr("_kernel") == b"slow"
        with graph.container("box"):
            variable = graph.create_op("VariableV2", attrs={"shape": [2], "dtype": dtypes.float32})
        assert variable.get_attr("container") == b"box"
        assert variable.outputs[0].dtype.name == "float32_ref"
        with (
            pytest.raises(TypeError, match="op_type_map must be a dictionary"),
            graph.gradient_override_map({1: "x"}),
        ):  # type: ignore[dict-item]
            pass


def test_attrs_as_tensorflow_gives_them() -> None:
    with fresh_graph(Ours) as graph:
        op = graph.create_op("Placeholder", attrs={"dtype": "float32", "shape": [2, None]})
        assert op.get_attr("dtype") is dtypes.float32
        assert [d.size for d in op.get_attr("shape").dim] == [2, -1]
        assert op.attr("shape").as_list() == [2, None]
        with pytest.raises(ValueError, match="Operation 'Placeholder' has no attr named 'foo'."):
            op.get_attr("foo")
        value = const(graph, np.arange(3)).op
        assert value.get_attr("value").dtype == 9
        assert not value.attr("value").flags.writeable
        op._set_attr("_marks", ["a", "b"])
        assert op.get_attr("_marks") == [b"a", b"b"]
        op._set_attr("_message", tf.compat.v1.AttrValue(i=3))
        assert op.get_attr("_message") == 3
        op._clear_attr("_message")
        assert "_message" not in op.attrs


def test_a_const_is_copied_once_and_never_written() -> None:
    graph = Graph()
    mine = np.arange(4.0)
    kept = const(graph, mine).op.attr("value")
    mine[0] = 99
    assert kept[0] == 0
    frozen = np.arange(4.0)
    frozen.setflags(write=False)
    assert const(graph, frozen).op.attr("value") is frozen


BAD_OPS: dict[str, tuple[Any, ...]] = {
    "too few inputs": ("AddV2", ["x"], {}),
    "too many inputs": ("Identity", ["x", "x"], {}),
    "types differ": ("AddV2", ["x", "i"], {}),
    "type not allowed": ("Sin", ["i"], {}),
    "attr contradicts input": ("Sin", ["x"], {"T": dtypes.float64}),
    "attr of another kind": ("Sum", ["x", "i"], {"keep_dims": 3}),
    "attr not allowed": ("Conv2D", ["x", "x"], {"strides": [1, 1, 1, 1], "padding": "FULL"}),
    "no list": ("Conv2D", ["x", "x"], {"strides": 3, "padding": "SAME"}),
    "list of others": ("Conv2D", ["x", "x"], {"strides": ["a"], "padding": "SAME"}),
    "attr below minimum": ("AddN", [], {"N": 0, "T": dtypes.float32}),
    "attr missing": ("Cast", ["x"], {}),
    "value for reference": ("Assign", ["x", "x"], {}),
    "no type": ("Cast", ["x"], {"DstT": "nope"}),
}


@pytest.mark.parametrize("case", BAD_OPS, ids=BAD_OPS)
def test_bad_operations(case: str) -> None:
    op_type, inputs, attrs = BAD_OPS[case]
    graph = Graph()
    with graph.as_default():
        tensors = {"x": Ours.placeholder("x"), "i": const(graph, np.array([1], np.int32), "i")}
    before = graph.version
    with pytest.raises((InvalidGraphError, TypeError)) as raised:
        graph.create_op(op_type, [tensors[name] for name in inputs], name="bad", attrs=attrs)
    if isinstance(raised.value, InvalidGraphError):
        assert "bad" in str(raised.value)
    assert graph.version == before
    assert not tensors["x"].consumers()


def test_messages_are_tensorflows() -> None:
    graph = Graph()
    with graph.as_default():
        x = Ours.placeholder("x")
        i = const(graph, np.array([1], np.int32), "i")
    with pytest.raises(
        ValueError,
        match="Value for attr 'T' of int32 is not in the list of allowed values: bfloat16, half, "
        "float, double, complex64, complex128\n"
        "\t; NodeDef: {{node s}}; Op<name=Sin; signature=x:T -> y:T;",
    ):
        graph.create_op("Sin", [i], name="s")
    with pytest.raises(ValueError, match="Inconsistent values for attr 'T' DT_INT32 vs. DT_FLOAT"):
        graph.create_op("AddV2", [x, i])
    with pytest.raises(ValueError, match="must be from the same graph"):
        Graph().create_op("Identity", [x])
    with pytest.raises(TypeError, match="Input #0 is not a tensor: a"):
        graph.create_op("Identity", ["a"])  # type: ignore[list-item]
    with pytest.raises(
        NotFoundError,
        match="Op type not registered 'NoSuchOp' in binary running on .*needed by node 'n'",
    ):
        graph.create_op("NoSuchOp", name="n")
    with pytest.raises(
        UnimplementedError,
        match="Op PlaceholderV2 is not available in GraphDef version 2474. It has been removed in "
        "version 23. ",
    ):
        graph.create_op("PlaceholderV2", attrs={"dtype": dtypes.float32, "shape": []})
    with pytest.raises(TypeError, match="gives"):
        graph.create_op("Identity", [x], dtypes=[dtypes.int32])
    with pytest.raises(TypeError, match="input 0 has type"):
        graph.create_op("Identity", [x], input_types=[dtypes.int32])


SHAPE_ERRORS: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("MatMul", [[2], [3, 4]], {}),
    ("MatMul", [[3, 4], [7, 5]], {}),
    ("AddV2", [[2], [3, 4]], {}),
    ("Softmax", [[]], {}),
]


@pytest.mark.parametrize(
    ("op_type", "shapes", "attrs"), SHAPE_ERRORS, ids=[f"{c[0]}-{c[1]}" for c in SHAPE_ERRORS]
)
def test_shape_errors_are_tensorflows(
    op_type: str, shapes: list[Any], attrs: dict[str, Any]
) -> None:
    def build(library: Any, graph: Any) -> Any:
        inputs = [library.placeholder(f"p{i}", shape) for i, shape in enumerate(shapes)]
        if library is Ours:
            return graph.create_op(op_type, inputs, name="bad", attrs=attrs).name
        names = {"MatMul": ("a", "b"), "AddV2": ("x", "y"), "Softmax": ("logits",)}[op_type]
        return getattr(tf.raw_ops, op_type)(name="bad", **dict(zip(names, inputs)), **attrs).op.name

    ours, theirs = both(build)
    assert ours[0] == theirs[0]


def test_default_graph_is_a_threads() -> None:
    main = Ours.get_default_graph()
    assert Ours.get_default_graph() is main
    seen: list[Any] = []

    def look() -> None:
        seen.append(Ours.get_default_graph())
        with Graph().as_default() as inner:
            seen.append(Ours.get_default_graph() is inner)
        seen.append(Ours.get_default_graph())

    with Graph().as_default() as graph:
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        assert Ours.get_default_graph() is graph
    assert seen[0] is seen[2] is not main and seen[1]
    assert Ours.get_default_graph() is main


def test_default_graph_stack() -> None:
    before = Ours.get_default_graph()
    first, second = Graph(), Graph()
    with (
        first.as_default(),
        pytest.raises(
            AssertionError, match=r"Do not use tf.reset_default_graph\(\) to clear nested graphs"
        ),
    ):
        Ours.reset_default_graph()
    a, b = first.as_default(), second.as_default()
    a.__enter__()
    b.__enter__()
    with pytest.raises(AssertionError, match="Nesting violated"):
        a.__exit__(None, None, None)
    b.__exit__(None, None, None)
    default_graph.pop(first)
    assert Ours.get_default_graph() is before
    Ours.reset_default_graph()
    assert Ours.get_default_graph() is not before
    with first:
        assert Ours.get_default_graph() is first


def test_scopes_are_a_threads() -> None:
    graph = Graph()
    names: list[str] = []

    def build() -> None:
        with graph.as_default():
            names.append(graph.create_op("NoOp", name="n").name)

    with (
        graph.as_default(),
        graph.name_scope("outer"),
        graph.device("/gpu:0"),
        graph.control_dependencies([graph.create_op("NoOp")]),
    ):
        thread = threading.Thread(target=build)
        thread.start()
        thread.join()
    op = graph.get_operation_by_name("n")
    assert names == ["n"] and op.device == "" and op.control_inputs == []


def test_many_threads_build_one_graph() -> None:
    graph = Graph()

    def build() -> None:
        with graph.as_default():
            for _ in range(200):
                x = Ours.placeholder("p")
                Ours.add(x, x)

    threads = [threading.Thread(target=build) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    names = [op.name for op in graph.get_operations()]
    assert len(names) == len(set(names)) == graph.version == 1600
    assert [op._id for op in graph.get_operations()] == list(range(1, 1601))


def test_run_and_eval_use_the_default_session() -> None:
    class FakeSession:
        def __init__(self, graph: Graph) -> None:
            self.graph = graph

        def run(self, fetches: Any, feed_dict: Any) -> Any:
            return fetches, feed_dict

    with fresh_graph(Ours) as graph:
        x = Ours.placeholder("x")
    old = operation._default_session
    try:
        operation.set_default_session_getter(lambda: None)
        with pytest.raises(
            ValueError,
            match=r"Cannot evaluate tensor using `eval\(\)`: No default session is registered. Use "
            r"`with sess.as_default\(\)` or pass",
        ):
            x.eval()
        with pytest.raises(
            ValueError,
            match=r"Cannot execute operation using `run\(\)`: No default session is registered.",
        ):
            x.op.run()
        operation.set_default_session_getter(lambda: FakeSession(graph))
        assert x.eval({1: 2}) == (x, {1: 2})
        assert x.op.run() is None
        with pytest.raises(
            ValueError, match="the tensor's graph is different from the session's graph"
        ):
            x.eval(session=FakeSession(Graph()))
        operation.set_default_session_getter(lambda: FakeSession(Graph()))
        with pytest.raises(ValueError, match="Cannot use the default session to execute operation"):
            x.op.run()
    finally:
        operation.set_default_session_getter(old)


def test_where_an_operation_was_built() -> None:
    op = Graph().create_op("NoOp")
    line = sys._getframe().f_lineno - 1
    [(path, found, function, text)] = op.traceback
    assert (path, found, function) == (__file__, line, "test_where_an_operation_was_built")
    assert text == 'op = Graph().create_op("NoOp")'
    assert op.built_at.endswith(f"test_graph.py:{line} in test_where_an_operation_was_built")


def test_update_input() -> None:
    with fresh_graph(Ours) as graph:
        x, y = Ours.placeholder("x"), Ours.placeholder("y")
        i = const(graph, np.array(1, np.int32))
        z = Ours.identity(x)
        z.op._update_input(0, y)
        assert z.op.inputs == (y,) and not x.consumers() and y.consumers() == [z.op]
        with pytest.raises(ValueError, match="Input 0 of node Identity was passed int32"):
            z.op._update_input(0, i)
        z.op._add_control_input(x.op)
        z.op._add_control_inputs([x.op, y.op])
        assert z.op.control_inputs == [x.op, y.op]
        z.op._remove_all_control_inputs()
        assert z.op.control_inputs == []
        with pytest.raises(ValueError, match="another graph"):
            z.op._add_control_input(Graph().create_op("NoOp"))


def test_a_dropped_graph_is_collected() -> None:
    graph = Graph()
    with graph.as_default():
        x = Ours.placeholder()
        Ours.add(x, x)
    ref = weakref.ref(graph)
    del graph, x
    gc.collect()
    assert ref() is None


def test_a_hundred_thousand_operations_take_seconds() -> None:
    graph = Graph()
    with graph.as_default():
        x = Ours.placeholder("x", [2, None])
        start = time.thread_time()
        for _ in range(100_000):
            x = Ours.identity(x)
        elapsed = time.thread_time() - start
    assert graph.version == 100_001 and x.name == "Identity_99999:0"
    assert elapsed < 15  # 1.5 s on an idle core
