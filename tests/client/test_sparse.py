"""Sparse tensors, string functions and candidate samplers of the front end: the same program built
with both modules.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit

tf1 = tf.compat.v1
Program = Callable[[Any], Any]
INDICES, VALUES, SHAPE = [[0, 1], [1, 0], [2, 2]], [1.0, -2.0, 3.0], [3, 4]


def _a(m: Any) -> Any:
    return m.SparseTensor(INDICES, m.constant(VALUES), SHAPE)


def _b(m: Any) -> Any:
    return m.SparseTensor([[0, 1], [1, 3]], m.constant([-1.0, 5.0]), SHAPE)


def _dense(m: Any, *shape: int) -> Any:
    return m.constant(np.arange(1, 1 + np.prod(shape), dtype=np.float32).reshape(shape))


PROGRAMS: dict[str, Program] = {
    "itself": lambda m: [_a(m), _a(m).values * 2.0],
    "to dense": lambda m: m.sparse.to_dense(_a(m), default_value=7.0),
    "tensor to dense": lambda m: m.sparse_tensor_to_dense(_a(m)),
    "sparse_to_dense": lambda m: m.sparse_to_dense([1, 3], [5], [2.0, 4.0], -1.0),
    "from dense": lambda m: m.sparse.from_dense(m.constant([[0, 2], [3, 0]])),
    "reorder": lambda m: m.sparse.reorder(m.SparseTensor(INDICES[::-1], m.constant(VALUES), SHAPE)),
    "reshape": lambda m: m.sparse.reshape(_a(m), [2, -1]),
    "expand": lambda m: [m.sparse.expand_dims(_a(m), axis) for axis in (0, 1, -1)],
    "transpose": lambda m: [m.sparse.transpose(_a(m)), m.sparse.transpose(_a(m), [1, 0])],
    "concat": lambda m: m.sparse.concat(1, [_a(m), _b(m)]),
    "split": lambda m: m.sparse.split(sp_input=_a(m), num_split=2, axis=1),
    "slice": lambda m: m.sparse.slice(_a(m), [1, 0], [2, 3]),
    "retain": lambda m: m.sparse.retain(_a(m), [True, False, True]),
    "fill": lambda m: m.sparse.fill_empty_rows(_b(m), -9.0),
    "add": lambda m: [
        m.sparse.add(_a(m), _b(m)),
        m.sparse.add(_a(m), _dense(m, 3, 4)),
        m.sparse_add(_a(m), _b(m), 2.5),
    ],
    "matmul": lambda m: m.sparse_tensor_dense_matmul(_a(m), _dense(m, 4, 2)),
    "adjoint matmul": lambda m: m.sparse.sparse_dense_matmul(
        _a(m), _dense(m, 2, 3), adjoint_a=True, adjoint_b=True
    ),
    "sums": lambda m: [
        m.sparse.reduce_sum(_a(m), 1),
        m.sparse.reduce_sum(_a(m)),
        m.sparse.reduce_max(_a(m), axis=0, keepdims=True),
    ],
    "softmax": lambda m: m.sparse.softmax(_a(m)),
    "extremes": lambda m: [m.sparse.maximum(_a(m), _b(m)), m.sparse.minimum(_a(m), _b(m))],
    "indicator": lambda m: m.sparse.to_indicator(
        m.SparseTensor(INDICES, m.constant([3, 0, 5], m.int64), SHAPE), 6
    ),
    "merge": lambda m: m.sparse_merge(
        m.SparseTensor(INDICES, m.constant([3, 0, 5], m.int64), SHAPE), _a(m), 6
    ),
    "strings split": lambda m: [
        m.string_split(["a b", "", "c,d e"]),
        m.strings.split(["a b", " c "]),
        m.string_split(["a,b"], ","),
    ],
    "strings": lambda m: [
        m.as_string(m.constant([1.5, 2.25]), precision=2),
        m.strings.format("x {} y", m.constant([1, 2])),
        m.strings.join(["a", ["b", "c"]], separator="-"),
        m.strings.length("h\u00e9", unit="UTF8_CHAR"),
        m.strings.upper("abc"),
        m.strings.lower("ABC"),
        m.strings.strip([" a "]),
        m.strings.regex_replace(["aab"], "a", "c"),
        m.strings.regex_full_match(["ab", "b"], "a."),
        m.strings.substr("hello", 1, 3),
        m.strings.unicode_transcode("ab", "UTF-8", "UTF-16-BE"),
        m.strings.unsorted_segment_join(["a", "b", "c"], [0, 1, 0], 2, separator="+"),
        m.io.decode_base64(m.io.encode_base64(["abc", "d"])),
        m.io.parse_tensor(m.io.serialize_tensor(m.constant([1.0, 2.0])), m.float32),
    ],
    "samplers": lambda m: [
        m.nn.uniform_candidate_sampler([[1], [2]], 1, 5, True, 20, seed=3),
        m.nn.log_uniform_candidate_sampler([[1], [2]], 1, 5, False, 20, seed=3),
        m.nn.learned_unigram_candidate_sampler([[1], [2]], 1, 5, True, 20, seed=3),
        m.nn.fixed_unigram_candidate_sampler(
            [[1], [2]], 1, 2, True, 4, unigrams=[1, 2, 3, 4], seed=3
        ),
        m.nn.all_candidate_sampler([[1], [2]], 1, 5, True),
        m.nn.compute_accidental_hits([[1], [2]], m.constant([2, 5], m.int64), 1),
    ],
}


def _v1(name: str) -> Any:
    return tf1 if name == "tf" else tfjit


def _flat(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)) and not (
        isinstance(value, list) and value and isinstance(value[0], (int, float, bytes))
    ):
        return [leaf for item in value for leaf in _flat(item)]
    return [np.asarray(value)]


def _ran(m: Any, program: Program) -> tuple[list[Any], list[str]]:
    with m.Graph().as_default() as graph, m.Session(graph=graph) as session:
        m.set_random_seed(11)
        fetched = program(m)
        values = _flat(session.run(fetched))
        return values, sorted(op.type for op in graph.get_operations())


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_programs_equal_tensorflows(name: str) -> None:
    expected, _ = _ran(tf1, PROGRAMS[name])
    found, _ = _ran(tfjit, PROGRAMS[name])
    assert len(found) == len(expected)
    for f, e in zip(found, expected, strict=True):
        assert f.shape == e.shape and f.dtype == e.dtype
        assert (
            (f == e).all()
            if f.dtype == object or f.dtype.kind not in "f"
            else np.allclose(f, e, 1e-5, 1e-6)
        )


def test_placeholders_are_fed_values_and_tuples() -> None:
    for m in (tf1, tfjit):
        with m.Graph().as_default(), m.Session() as session:
            for shape in (None, [3, 4], [None, 4]):
                sparse = m.sparse_placeholder(m.float32, shape)
                total = m.sparse.reduce_sum(sparse)
                value = m.SparseTensorValue(
                    np.array(INDICES), np.array(VALUES, np.float32), np.array(SHAPE)
                )
                assert session.run(total, {sparse: value}) == 2.0
                again = session.run(sparse, {sparse: (np.array(INDICES), VALUES, SHAPE)})
                assert (
                    type(again).__name__ == "SparseTensorValue" and again.values.tolist() == VALUES
                )
                assert str(sparse.get_shape()) == {"None": "<unknown>", "[3, 4]": "(3, 4)"}.get(
                    str(shape), "(None, 4)"
                )


def _product(m: Any, values: Any, dense: Any) -> Any:
    out = m.sparse.sparse_dense_matmul(m.SparseTensor(INDICES, values, SHAPE), dense)
    return out * out


GRADIENTS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "matmul": _product,
    "matmul adjoint": lambda m, v, d: (
        m.sparse.sparse_dense_matmul(
            m.SparseTensor(INDICES, v, SHAPE), m.transpose(d)[:, :3], True, True
        )
        ** 2.0
    ),
    "to dense": lambda m, v, d: m.sparse_to_dense(INDICES, SHAPE, v, d[0, 0]) ** 2.0,
    "add": lambda m, v, d: (
        m.sparse.add(
            m.SparseTensor(INDICES, v, SHAPE), m.SparseTensor([[0, 1], [1, 3]], v[:2], SHAPE)
        ).values
        ** 2.0
        + d[0, 0]
    ),
    "dense add": lambda m, v, d: (
        m.sparse.add(m.SparseTensor(INDICES, v, [4, 4]), m.matmul(d, d, transpose_b=True)) ** 2.0
    ),
    "reorder": lambda m, v, d: (
        m.sparse.reorder(m.SparseTensor(INDICES[::-1], v, SHAPE)).values
        * m.constant([1.0, 2, 3])
        * d[0, 0]
    ),
    "slice": lambda m, v, d: (
        m.sparse.slice(m.SparseTensor(INDICES, v, SHAPE), [1, 0], [2, 3]).values ** 2.0 * d[0, 0]
    ),
    "fill": lambda m, v, d: (
        m.raw_ops.SparseFillEmptyRows(
            indices=[[0, 1], [0, 2], [2, 2]], values=v, dense_shape=SHAPE, default_value=d[0, 0]
        )[1]
        ** 2.0
    ),
    "sum": lambda m, v, d: (
        m.sparse.reduce_sum(m.SparseTensor(INDICES, v, SHAPE), 1) ** 2.0 * d[0, 0]
    ),
    "softmax": lambda m, v, d: (
        m.sparse.softmax(m.SparseTensor([[0, 1], [0, 3], [1, 0]], v, SHAPE)).values ** 2.0 * d[0, 0]
    ),
}


@pytest.mark.parametrize("name", sorted(GRADIENTS))
def test_gradients_equal_tensorflows(name: str) -> None:
    found = []
    for m in (tf1, tfjit):
        with m.Graph().as_default(), m.Session() as session:
            values, dense = m.constant(VALUES), _dense(m, 4, 2) * 0.3
            result = GRADIENTS[name](m, values, dense)
            found.append(session.run(m.gradients(result, [values, dense])))
    for f, e in zip(found[1], found[0], strict=True):
        if hasattr(e, "indices"):
            f, e = (np.asarray(x.values) for x in (f, e))
        assert np.allclose(f, e, 1e-4, 1e-5), name


def test_features_of_variable_length_become_sparse_tensors() -> None:
    def example(numbers: list[int], words: list[bytes]) -> bytes:
        of_numbers = tf1.train.Feature(int64_list=tf1.train.Int64List(value=numbers))
        of_words = tf1.train.Feature(bytes_list=tf1.train.BytesList(value=words))
        one = tf1.train.Feature(float_list=tf1.train.FloatList(value=[0.5]))
        features = tf1.train.Features(
            feature={"numbers": of_numbers, "words": of_words, "one": one}
        )
        return bytes(tf1.train.Example(features=features).SerializeToString())

    examples = [example([1, 2, 3], [b"a"]), example([], [b"b", b"c"])]

    def program(m: Any) -> Any:
        features = {
            "words": m.VarLenFeature(m.string),
            "one": m.FixedLenFeature([], m.float32),
            "numbers": m.io.VarLenFeature(m.int64),
        }
        found = [
            m.parse_example(m.constant(examples), features),
            m.parse_single_example(m.constant(examples[0]), features),
        ]
        return [one[key] for one in found for key in sorted(one)]

    expected, found = _ran(tf1, program)[0], _ran(tfjit, program)[0]
    assert len(found) == len(expected)
    assert all(
        f.dtype == e.dtype and f.shape == e.shape and (f == e).all()
        for f, e in zip(found, expected, strict=True)
    )
