"""Ragged tensors in sessions, and the errors of wrong arguments, beside TensorFlow's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit

tf1 = tf.compat.v1
MODULES = [tf1, tfjit]


def world(m: Any) -> Any:
    """Return a graph with ragged placeholders, and its tensors."""
    with m.Graph().as_default() as graph:
        fed = m.ragged.placeholder(m.float32, 1, value_shape=[], name="fed")
        nested = m.ragged.placeholder(m.int32, 2, value_shape=[2], name="nested")
        doubled = fed * 2.0
        rows = m.RaggedTensor.from_row_lengths([b"a", b"b", b"c"], [1, 2], name="rows")
        unfed = m.ragged.placeholder(m.string, 1)
    made = {"graph": graph, "fed": fed, "nested": nested, "doubled": doubled, "rows": rows}
    return {**made, "unfed": unfed, "m": m}


def floats(m: Any) -> Any:
    return m.ragged.constant_value([[1.0, 2.0], [], [3.0]], dtype=np.float32)


def pairs(m: Any) -> Any:
    return m.ragged.constant_value([[[[1, 2]], []], [[[3, 4], [5, 6]]]], np.int32, ragged_rank=2)


def as_lists(value: Any) -> Any:
    if hasattr(value, "to_list"):
        return [
            value.to_list(),
            value.dtype.str,
            value.row_splits.dtype.str,
            value.ragged_rank,
            value.shape,
            repr(value),
        ]
    if isinstance(value, dict):
        return {key: as_lists(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_lists(item) for item in value]
    return np.asarray(value).tolist()


RUNS: dict[str, Callable[[Any, Any], Any]] = {
    "fetch": lambda w, s: s.run(w["rows"]),
    "structure": lambda w, s: s.run({"a": [w["rows"], w["rows"].flat_values]}),
    "feed": lambda w, s: s.run(w["doubled"], {w["fed"]: floats(w["m"])}),
    "feed and fetch": lambda w, s: s.run([w["fed"], w["nested"]], {
        w["fed"]: floats(w["m"]), w["nested"]: pairs(w["m"])}),
    "parts by name": lambda w, s: s.run(
        w["doubled"].flat_values,
        {"fed/flat_values:0": [4.0, 5.0], "fed/row_splits_0:0": [0, 2]},
    ),
    "row lengths": lambda w, s: s.run(w["nested"].row_lengths(), {w["nested"]: pairs(w["m"])}),
    "eval": lambda w, s: s.run(w["rows"].values[:1]),
    "callable": lambda w, s: s.make_callable([w["rows"], w["rows"].nrows()])(),
    "callable with feeds": lambda w, s: s.make_callable(
        w["doubled"].flat_values, [w["fed"].flat_values])(np.float32([1.5, 2.5])),
    "twice": lambda w, s: [s.run(w["doubled"], {w["fed"]: v}) for v in (
        floats(w["m"]), w["m"].ragged.constant_value([[7.0]], np.float32))],
    "constant value": lambda w, s: [
        w["m"].ragged.constant_value([[1], [2, 3]]),
        w["m"].ragged.constant_value([[1], [2, 3]], row_splits_dtype="int32"),
        w["m"].ragged.constant_value([["x"], []]),
        pairs(w["m"]),
        w["m"].ragged.constant_value([1, 2]),
        str(floats(w["m"])),
    ],
    "graph": lambda w, s: [
        w["fed"].flat_values.op.name,
        [op.name for op in w["graph"].get_operations() if op.type == "Placeholder"],
        w["fed"].shape.as_list(),
        w["nested"].shape.as_list(),
        w["rows"].values.op.name,
        sorted(op.name for op in w["fed"].consumers()),
        w["graph"].as_graph_element(w["fed"]).name,
    ],
    "a value fed twice": lambda w, s: s.run(
        w["m"].gradients(w["doubled"], w["fed"].flat_values), {w["fed"]: floats(w["m"])}),
}  # fmt: skip


@pytest.fixture(scope="module")
def worlds() -> Any:
    return [world(m) for m in MODULES]


@pytest.mark.parametrize("name", RUNS)
def test_runs(worlds: Any, name: str) -> None:
    found = []
    for w in worlds:
        with w["graph"].as_default(), w["m"].Session(graph=w["graph"]) as session:
            found.append(as_lists(RUNS[name](w, session)))
    assert found[1] == found[0]


def test_tensorflow_graph_in_our_session(worlds: Any) -> None:
    """Ragged tensors of TensorFlow's graph are fetched, fed and in callables."""
    w = worlds[0]
    with tf1.Session(graph=w["graph"]) as theirs, tfjit.Session(graph=w["graph"]) as ours:
        for name in ("fetch", "structure", "feed", "feed and fetch", "callable", "twice"):
            expected, value = RUNS[name](w, theirs), RUNS[name](w, ours)
            assert as_lists(value) == as_lists(expected), name
        value = tfjit.ragged.constant_value([[1.0], [2.0]], dtype=np.float32)
        assert ours.run(w["doubled"], {w["fed"]: value}).to_list() == [[2.0], [4.0]]


def ints(m: Any) -> Any:
    return m.ragged.constant([[1, 2], [], [3]])


ERRORS: dict[str, Callable[[Any], Any]] = {
    "private": lambda m: m.RaggedTensor([1], None),
    "validate": lambda m: m.RaggedTensor.from_row_splits([1], [0, 1], validate=1),
    "no splits": lambda m: m.RaggedTensor.from_row_splits([1], []),
    "splits of floats": lambda m: m.RaggedTensor.from_row_splits([1], [0.0, 1.0]),
    "splits of rank 2": lambda m: m.RaggedTensor.from_row_splits([1], [[0, 1]]),
    "few rows": lambda m: m.RaggedTensor.from_value_rowids([1, 2], [0, 4], nrows=2),
    "negative rows": lambda m: m.RaggedTensor.from_value_rowids([1], [0], nrows=-1),
    "uneven": lambda m: m.RaggedTensor.from_uniform_row_length([1, 2, 3], 2, nrows=2),
    "negative length": lambda m: m.RaggedTensor.from_uniform_row_length([1, 2], -1, nrows=-2),
    "splits of two dtypes": lambda m: m.RaggedTensor.from_row_splits(
        ints(m), m.constant([0, 3], m.int32)
    ),
    "nested tensor": lambda m: m.RaggedTensor.from_nested_row_splits([1], m.constant([[0, 1]])),
    "nested nrows": lambda m: m.RaggedTensor.from_nested_value_rowids([1], [[0]], [1, 2]),
    "depths": lambda m: m.ragged.constant([[1], 2]),
    "empty depths": lambda m: m.ragged.constant([[1], [[]]]),
    "rank": lambda m: m.ragged.constant([1, 2], ragged_rank=1),
    "negative rank": lambda m: m.ragged.constant([[1]], ragged_rank=-1),
    "scalar rank": lambda m: m.ragged.constant(1, ragged_rank=1),
    "scalar shape": lambda m: m.ragged.constant(1, inner_shape=(2,)),
    "inner shape": lambda m: m.ragged.constant([[[1, 2]], [[3]]], ragged_rank=1),
    "rank and shape": lambda m: m.ragged.constant([[1]], ragged_rank=1, inner_shape=(1,)),
    "of ragged": lambda m: m.ragged.constant(ints(m)),
    "lengths and padding": lambda m: m.RaggedTensor.from_tensor([[1]], [1], 0),
    "from tensor rank": lambda m: m.RaggedTensor.from_tensor([1, 2]),
    "from tensor ragged rank": lambda m: m.RaggedTensor.from_tensor([[1]], ragged_rank=0),
    "from sparse": lambda m: m.RaggedTensor.from_sparse([1]),
    "from sparse rank": lambda m: m.RaggedTensor.from_sparse(
        m.SparseTensor([[0, 0, 0]], [1], [1, 1, 1])
    ),
    "values size": lambda m: ints(m).with_values([1, 2]),
    "splits dtype": lambda m: ints(m).with_row_splits_dtype(m.float32),
    "inner index": lambda m: ints(m)[:, 0],
    "too many keys": lambda m: ints(m)[..., 0, 0, 0],
    "float slice": lambda m: ints(m)[:, 0.5:],
    "bool": lambda m: bool(ints(m)),
    "to list": lambda m: ints(m).to_list(),
    "numpy": lambda m: ints(m).numpy(),
    "convert": lambda m: m.convert_to_tensor(ints(m)) and None,
    "row lengths axis": lambda m: ints(m).row_lengths(axis=3),
    "expand axis": lambda m: m.expand_dims(ints(m), 5),
    "squeeze axis": lambda m: m.squeeze(ints(m)),
    "reverse axis": lambda m: m.reverse(ints(m), 1),
    "reduce axis": lambda m: m.reduce_sum(ints(m), axis=7),
    "one hot axis": lambda m: m.one_hot(ints(m), 2, axis=1),
    "stack nothing": lambda m: m.ragged.stack([]),
    "concat ranks": lambda m: m.concat([ints(m), ints(m)[None]], 0),
    "mask": lambda m: m.ragged.boolean_mask(ints(m), True),
    "gather nd": lambda m: m.gather_nd(ints(m), ints(m)),
    "split": lambda m: m.split(m.concat([ints(m), ints(m)], 1), 2, axis=1),
    "where": lambda m: m.where(ints(m) > 1, ints(m)),
    "where shapes": lambda m: m.where(ints(m) > 1, ints(m), 0),
    "map flat values": lambda m: m.ragged.map_flat_values(m.add, ints(m), ints(m)[None]),
    "map size": lambda m: m.ragged.map_flat_values(lambda x: x[:1], ints(m)),
    "cross": lambda m: m.ragged.cross(ints(m)),
    "cross dtype": lambda m: m.ragged.cross([m.cast(ints(m), m.float32)]),
    "dynamic partition": lambda m: m.dynamic_partition(ints(m), [0, 1, 0], -1),
    "segment ids": lambda m: m.ragged.row_splits_to_segment_ids(m.constant([], m.int64)),
    "value dtype": lambda m: m.ragged.RaggedTensorValue([1], np.array([0, 1])),
    "value splits": lambda m: m.ragged.RaggedTensorValue(np.array([1]), [0, 1]),
    "spec": lambda m: m.RaggedTensorSpec(None, m.int32),
    "spec rank": lambda m: m.RaggedTensorSpec([None], m.int32, 1),
    "split dtype": lambda m: m.strings.split(["a"], result_type="Tensor"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    found = []
    for m in MODULES:
        with m.Graph().as_default(), pytest.raises(Exception) as caught:
            ERRORS[name](m)
        found.append((type(caught.value).__name__, str(caught.value)))
    assert found[1] == found[0]


WRONG_IN_A_RUN: dict[str, Callable[[Any], Any]] = {
    "splits": lambda m: m.RaggedTensor.from_row_splits([1, 2], fed(m, [0, 3])),
    "descending": lambda m: m.RaggedTensor.from_row_splits([1, 2], fed(m, [0, 2, 1, 2])),
    "lengths": lambda m: m.RaggedTensor.from_row_lengths([1, 2], fed(m, [1, 2])),
    "rowids": lambda m: m.RaggedTensor.from_value_rowids([1, 2], fed(m, [1, 0]), 2),
    "sparse": lambda m: m.RaggedTensor.from_sparse(m.SparseTensor(fed(m, [[0, 1]]), [1], [1, 2])),
    "add": lambda m: ints(m) + m.RaggedTensor.from_row_splits([1, 2, 3], fed(m, [0, 1, 2, 3])),
    "concat": lambda m: m.concat(
        [ints(m), m.RaggedTensor.from_row_splits([1, 2, 3], fed(m, [0, 1, 3]))], 1
    ),
    "row": lambda m: ints(m)[fed(m, 5)],
    "squeeze": lambda m: m.squeeze(ints(m), 1),
    "partitions": lambda m: m.ragged.stack_dynamic_partitions([1, 2], fed(m, [0, 7]), 2),
    "padding": lambda m: ints(m).to_tensor(shape=[None, None, 3]),
}


def fed(m: Any, value: Any) -> Any:
    array = np.array(value, np.int64)
    return m.placeholder_with_default(array, [None] * array.ndim)


@pytest.mark.parametrize("name", WRONG_IN_A_RUN)
def test_errors_of_runs(name: str) -> None:
    found = []
    for m in MODULES:
        with m.Graph().as_default(), m.Session() as session, pytest.raises(Exception) as caught:
            session.run(WRONG_IN_A_RUN[name](m))
        found.append([kind.__name__ for kind in type(caught.value).__mro__])
    assert found[0][0] in found[1]


def test_specs() -> None:
    found = []
    for m in MODULES:
        with m.Graph().as_default():
            spec = m.RaggedTensorSpec.from_value(ints(m))
            other = m.RaggedTensorSpec([None, None], m.int32)
            found.append(
                [
                    spec.shape.as_list(),
                    spec.dtype.name,
                    spec.ragged_rank,
                    spec.row_splits_dtype.name,
                    spec.value_type.__name__,
                    other.is_compatible_with(ints(m)),
                    other.is_compatible_with(spec),
                    other.is_compatible_with(m.RaggedTensorSpec([None, None], m.float32)),
                    spec == other,
                    hash(spec) == hash(m.RaggedTensorSpec([3, None], m.int32)),
                    m.RaggedTensorSpec([3], m.int32, 0).is_compatible_with(m.constant([1, 2, 3])),
                ]
            )
    assert found[1] == found[0]
