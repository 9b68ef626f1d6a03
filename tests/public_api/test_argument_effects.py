"""Arguments with effects beyond a value: optimizers, files, tables, flags, slices that are
assigned, sparse tensors' operators.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow

import tfjit

tf1 = tensorflow.compat.v1
MODULES = (tf1, tfjit)


def trained(m: Any, make: Callable[[Any], Any], steps: int = 3) -> tuple[list[Any], list[str]]:
    """Two variables after some steps (one by dense, one by gathered gradients), and the names of
    all variables.
    """
    with m.Graph().as_default(), m.Session() as session:
        a, b = m.Variable([1.0, -2.0], name="a"), m.Variable([[0.5], [1.5]], name="b")
        loss = m.reduce_sum(a * a * 3.0) + m.reduce_sum(m.gather(b, [1]) ** 2)
        step = make(m).minimize(loss)
        session.run(m.global_variables_initializer())
        for _ in range(steps):
            session.run(step)
        return session.run([a, b]), sorted(v.name for v in m.global_variables())


@pytest.mark.parametrize(
    "make",
    [
        lambda m: m.train.FtrlOptimizer(0.1, beta=0.3),
        lambda m: m.train.FtrlOptimizer(
            0.1, l2_regularization_strength=0.2, l2_shrinkage_regularization_strength=0.1, beta=0.5
        ),
        lambda m: m.train.FtrlOptimizer(
            0.1, l1_regularization_strength=0.1, l2_shrinkage_regularization_strength=0.4
        ),
        lambda m: m.train.FtrlOptimizer(0.1, accum_name="first", linear_name="second"),
        lambda m: m.train.AdamOptimizer(0.1, use_own_namescope_for_non_slot_vars=True),
        lambda m: m.train.AdamOptimizer(0.1, 0.9, 0.999, 1e-8, False, "Mine", True),
    ],
)
def test_optimizers(make: Callable[[Any], Any]) -> None:
    expected, got = trained(tf1, make), trained(tfjit, make)
    assert got[1] == expected[1]
    for ours, theirs in zip(got[0], expected[0], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)


@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize(
    "choose",
    [
        lambda w: w.values(),
        lambda w: tuple(w.values()),
        lambda w: (v for v in w.values()),
        lambda w: [[w["a"]], w["b"]],
        lambda w: w,
        lambda w: w["b"],
    ],
)
def test_variables_of_any_iterable(choose: Callable[[dict[str, Any]], Any], resource: bool) -> None:
    with tfjit.Graph().as_default(), tfjit.Session() as session:
        weights = {
            name: tfjit.Variable(2.0, name=name, use_resource=resource) for name in ("a", "b")
        }
        optimizer = tfjit.train.GradientDescentOptimizer(0.5)
        loss = weights["a"] * weights["b"]
        chosen = [v for _, v in optimizer.compute_gradients(loss, choose(weights))]
        step = optimizer.minimize(loss, var_list=choose(weights))
        session.run(tfjit.global_variables_initializer())
        session.run(step)
        assert [session.run(v) for v in chosen] == [1.0] * len(chosen)
        assert len(chosen) == (1 if choose(weights) is weights["b"] else 2)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_a_plain_variable_as_global_step(dtype: str) -> None:
    """`get_global_step` finds it by name, as a reference tensor."""
    with tfjit.Graph().as_default(), tfjit.Session() as session:
        w = tfjit.Variable(3.0)
        tfjit.Variable(np.array(0, dtype), name="global_step", trainable=False)
        step = tfjit.train.get_global_step()
        train = tfjit.train.GradientDescentOptimizer(0.1).minimize(w * w, global_step=step)
        session.run(tfjit.global_variables_initializer())
        session.run(train)
        session.run(train)
        assert tfjit.train.global_step(session, step) == 2


OPERATORS: dict[str, Callable[..., Any]] = {
    "times a number": lambda m, s, d: s * 2.0,
    "times a tensor": lambda m, s, d: s * d,
    "a tensor times it": lambda m, s, d: d * s,
    "times a row": lambda m, s, d: s * d[0],
    "by a number": lambda m, s, d: s / 4.0,
    "by a tensor": lambda m, s, d: s / d,
    "divide": lambda m, s, d: m.divide(s, 4.0),
    "integers by a number": lambda m, s, d: m.cast(s, m.int32) / 2,
    "integers times a number": lambda m, s, d: m.cast(s, m.int64) * 3,
    **{
        name: (lambda m, s, d, name=name: getattr(m, name)(s))
        for name in (
            "abs",
            "negative",
            "sign",
            "square",
            "sqrt",
            "erf",
            "tanh",
            "identity",
            "zeros_like",
            "shape",
            "size",
            "rank",
        )
    },
}
REFUSED: dict[str, Callable[..., Any]] = {
    "a number times it": lambda m, s, d: 2.0 * s,
    "plus": lambda m, s, d: s + d,
    "times sparse": lambda m, s, d: s * s,
    "negated": lambda m, s, d: -s,
    "a slice": lambda m, s, d: s[0:1],
    "exp": lambda m, s, d: m.exp(s),
}


def operands(m: Any) -> tuple[Any, Any]:
    return m.SparseTensor([[0, 1], [2, 3]], [2.0, 5.0], [3, 4]), m.constant(
        np.arange(1, 13, dtype="f4").reshape(3, 4)
    )


def test_operators_of_sparse_tensors() -> None:
    found = []
    for m in MODULES:
        with m.Graph().as_default(), m.Session() as session:
            pair = operands(m)
            found.append(session.run({name: make(m, *pair) for name, make in OPERATORS.items()}))
    for name, theirs in found[0].items():
        ours = found[1][name]
        for one, other in (
            zip(ours, theirs, strict=True) if isinstance(theirs, tuple) else [(ours, theirs)]
        ):
            assert np.asarray(one).dtype == np.asarray(other).dtype, name
            np.testing.assert_allclose(one, other, rtol=1e-6, err_msg=name)


@pytest.mark.parametrize("name", REFUSED)
def test_operators_that_sparse_tensors_lack(name: str) -> None:
    for m in MODULES:
        with m.Graph().as_default(), pytest.raises(TypeError):
            REFUSED[name](m, *operands(m))


@pytest.mark.parametrize("known", [True, False])
def test_a_sparse_placeholder_with_a_tensor_as_shape(known: bool) -> None:
    value = (np.array([[0, 1], [2, 3]]), np.array([2.0, 5.0], "f4"), np.array([3, 4]))
    for m in MODULES:
        with m.Graph().as_default(), m.Session() as session:
            sizes = (
                m.constant([3, 4], m.int64)
                if known
                else m.placeholder_with_default(np.array([3, 4]), [2])
            )
            sparse = m.sparse_placeholder(m.float32, sizes)
            assert sparse.get_shape().as_list() == ([3, 4] if known else [None, None])
            assert session.run(m.sparse_tensor_to_dense(sparse), {sparse: value}).sum() == 7.0
        with m.Graph().as_default(), pytest.raises(ValueError):
            m.sparse_placeholder(m.float32, m.TensorShape(None))


@pytest.mark.parametrize("resource", [False, True])
def test_slices_of_variables_are_assigned(resource: bool) -> None:
    found = []
    for m in MODULES:
        with m.Graph().as_default(), m.Session() as session:
            v = m.Variable(np.zeros((3, 4), "f4"), use_resource=resource)
            session.run(m.global_variables_initializer())
            session.run(v[1].assign([1.0, 2.0, 3.0, 4.0]))
            session.run(v[::2, 1:3].assign([[5.0, 6.0], [7.0, 8.0]]))
            session.run(m.strided_slice(v, [0, 3], [1, 4], var=v, name="part").assign([[9.0]]))
            found.append(session.run(v))
    np.testing.assert_array_equal(found[1], found[0])


@pytest.mark.parametrize(
    "options",
    [
        {"compression_type": "ZLIB", "window_bits": 9, "mem_level": 1, "compression_level": 1},
        {
            "compression_type": "ZLIB",
            "compression_strategy": zlib.Z_HUFFMAN_ONLY,
            "output_buffer_size": 512,
            "input_buffer_size": 512,
        },
        {
            "compression_type": "GZIP",
            "compression_method": zlib.DEFLATED,
            "flush_mode": zlib.Z_FULL_FLUSH,
        },
        {"compression_type": "ZLIB", "window_bits": -15},
    ],
)
def test_record_options(options: dict[str, Any], tmp_path: Path) -> None:
    records = [b"first" * 50, b"", b"third"]
    kind = options["compression_type"]
    for m in MODULES:
        path = tmp_path / f"{m.__name__}.tfrecord"
        with m.python_io.TFRecordWriter(
            str(path), m.python_io.TFRecordOptions(**options)
        ) as writer:
            for record in records:
                writer.write(record)
    bits = options.get("window_bits", 31 if kind == "GZIP" else 15)
    unpacked = [
        zlib.decompress((tmp_path / f"{m.__name__}.tfrecord").read_bytes(), bits) for m in MODULES
    ]
    assert unpacked[0] == unpacked[1]
    if bits > 0:
        ours = tmp_path / "tfjit.tfrecord"
        assert (
            list(tf1.python_io.tf_record_iterator(str(ours), tf1.python_io.TFRecordOptions(kind)))
            == records
        )
        assert (
            list(
                tfjit.python_io.tf_record_iterator(str(ours), tfjit.python_io.TFRecordOptions(kind))
            )
            == records
        )


def test_tables(tmp_path: Path) -> None:
    words = tmp_path / "words.txt"
    words.write_text("a\nb\nc\n")
    found = []
    for m in MODULES:
        with m.Graph().as_default(), m.Session() as session:
            whole, line = m.lookup.TextFileIndex.WHOLE_LINE, m.lookup.TextFileIndex.LINE_NUMBER
            source = m.lookup.TextFileInitializer(
                str(words), m.string, whole, m.int64, line, value_index_offset=10
            )
            table = m.lookup.StaticHashTable(source, -1, "mine")
            session.run(m.tables_initializer())
            found.append(session.run(table.lookup(m.constant(["c", "a", "?"]))).tolist())
            made = m.lookup.StaticHashTable(
                m.lookup.KeyValueTensorInitializer(["a"], [1]), -1, experimental_is_anonymous=True
            )
            assert made.resource_handle.op.type == "AnonymousHashTable"
            other = m.lookup.StaticVocabularyTable(source, 2, experimental_is_anonymous=True)
            assert other.resource_handle.op.type == "AnonymousHashTable"
    assert found[0] == found[1] == [12, 10, -1]


def test_defaults_of_a_signature() -> None:
    for m in MODULES:
        with m.Graph().as_default():
            made = m.saved_model.build_signature_def(defaults={"x": m.constant(3.0)})
            assert m.make_ndarray(made.defaults["x"]) == 3.0
            with pytest.raises(ValueError, match="Unable to convert"):
                m.saved_model.build_signature_def(defaults={"x": m.placeholder(m.float32)})


def test_graphs_that_begin_an_event_file(tmp_path: Path) -> None:
    with tfjit.Graph().as_default() as graph:
        tfjit.constant(1.0, name="one")
        with (
            tfjit.Session() as session,
            tfjit.summary.FileWriter(
                tmp_path, None, 10, 120, graph.as_graph_def(), ".mine", session
            ),
        ):
            pass
    (file,) = tmp_path.glob("*.mine")
    assert any(event.graph_def for event in tf1.train.summary_iterator(str(file)))
    with pytest.raises(ValueError, match="not both"):
        tfjit.summary.FileWriter(tmp_path / "more", graph, graph_def=graph.as_graph_def())


def test_required_flags() -> None:
    values = type(tfjit.flags.FLAGS)()
    tfjit.flags.DEFINE_string("name", None, "", values, required=True)
    tfjit.flags.DEFINE_integer("count", None, "", flag_values=values, required=True)
    tfjit.flags.DEFINE_bool("fast", False, "", values, "a.module")
    with pytest.raises(tfjit.flags.Error):
        values(["program", "--name=x"])
    values(["program", "--name=x", "--count=3"])
    with pytest.raises(ValueError, match="required"):
        tfjit.flags.DEFINE_float("rate", 1.0, "", flag_values=values, required=True)
