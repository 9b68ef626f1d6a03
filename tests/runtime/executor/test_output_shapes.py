"""Output shapes that the graph leaves open follow from the inputs of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

import tfjit.compat.v1 as tf1
from tfjit.kernels.jit.store import store
from tfjit.kernels.registry import NodeSpec
from tfjit.kernels.source import KernelSource
from tfjit.passes.ir.dataflow_graph import DataflowGraph
from tfjit.runtime.executor.output_shapes import OutputShapes
from tfjit.runtime.schedule import kernel_selection


def node(build: Callable[[], Any]) -> OutputShapes:
    """The shapes of the node "y"."""
    with tf1.Graph().as_default() as graph:
        build()
    data = DataflowGraph.from_graph_def(graph.as_graph_def())
    return OutputShapes(data.node("y"))


def open_vector(name: str, dtype: Any = tf1.float32) -> Any:
    return tf1.placeholder(dtype, [None], name=name)


def test_shapes_of_inputs() -> None:
    shapes = node(lambda: tf1.add(open_vector("a"), open_vector("b"), name="y"))
    arrays = [np.ones(3, np.float32), np.ones(1, np.float32)]
    assert shapes.of(arrays) == (((3,),), {})
    assert shapes.key(arrays) == ((3,), (1,))


def test_shapes_that_are_read_from_values_have_these_in_the_key() -> None:
    shapes = node(lambda: tf1.fill(open_vector("dims", tf1.int32), 1.0, name="y"))
    arrays = [[np.array(dims, np.int32), np.ones((), np.float32)] for dims in ([2, 3], [4, 3])]
    assert shapes.of(arrays[0])[0] == ((2, 3),)
    found, read = shapes.of(arrays[1])
    assert found == ((4, 3),)
    assert [value.tolist() for value in read.values()] == [[4, 3]]
    assert shapes.key(arrays[0]) != shapes.key(arrays[1])
    assert read[0] is not arrays[1][0]


def test_open_shapes() -> None:
    unique = node(lambda: tf1.unique(open_vector("a"), name="y"))
    assert unique.of([np.ones(3, np.float32)])[0] is None
    many = node(lambda: tf1.fill(open_vector("dims", tf1.int32), 1.0, name="y"))
    assert many.of([np.ones(17, np.int32), np.ones((), np.float32)])[0] is None
    wrong = node(lambda: tf1.add(open_vector("a"), open_vector("b"), name="y"))
    assert wrong.of([np.ones(3, np.float32), np.ones(2, np.float32)])[0] is None


def test_a_sparse_product_is_compiled_for_each_number_of_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TFJIT_JIT", "lazy")
    # A plan for the value of the shape would serve the rows that recur.
    monkeypatch.setenv("TFJIT_DISABLE", "fed_sizes")
    request, native_call = store.request, kernel_selection.native_call
    compiled: list[tuple[int, ...]] = []

    def compile_now(sources: Iterable[KernelSource]) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(store, "request", request)
            store.compile(sources)

    def counted(backend: Any, spec: NodeSpec) -> Any:
        if spec.op == "SparseTensorDenseMatMul":
            compiled.append(spec.outputs[0].shape)
        return native_call(backend, spec)

    monkeypatch.setattr(store, "request", compile_now)
    monkeypatch.setattr(kernel_selection, "native_call", counted)
    with tf1.Graph().as_default():
        places = tf1.placeholder(tf1.int64, [None, 2])
        values = tf1.placeholder(tf1.float32, [None])
        shape = tf1.placeholder(tf1.int64, [2])
        dense = tf1.placeholder(tf1.float32, [None, 16])
        product = tf1.sparse_tensor_dense_matmul(tf1.SparseTensor(places, values, shape), dense)
        session = tf1.Session()
    rng = np.random.default_rng(0)
    fed = rng.integers(0, 50, (2000, 2))
    right = rng.integers(0, 9, (50, 16)).astype(np.float32)
    for rows in (1000, 1001, 1000):
        wanted = np.zeros((rows, 16), np.float32)
        np.add.at(wanted, fed[:, 0], right[fed[:, 1]])
        feeds = {places: fed, values: np.ones(2000), shape: [rows, 50], dense: right}
        for _ in range(3):
            np.testing.assert_array_equal(session.run(product, feeds), wanted)
    with pytest.raises(tf1.errors.InvalidArgumentError, match=r"m \(49\) from index"):
        session.run(product, feeds | {shape: [49, 50], places: np.full((2000, 2), 49)})
    assert compiled == [(1000, 16), (1001, 16)]
    session.close()
