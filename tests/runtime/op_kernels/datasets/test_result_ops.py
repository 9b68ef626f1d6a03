"""Results of whole datasets, against TensorFlow."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tensorflow as tf

import tfjit
from tests.runtime.pipelines import D, drained, tf1


def test_results(tmp_path: Path) -> None:
    experimental = tf.data.experimental
    graph = tf1.Graph()
    with graph.as_default():
        numbers = D.range(10)
        cardinalities = [
            tf.raw_ops.DatasetCardinality(input_dataset=dataset._variant_tensor)
            for dataset in (
                numbers,
                numbers.repeat(3).batch(4),
                numbers.batch(4, drop_remainder=True),
                numbers.repeat(),
                numbers.filter(lambda x: x > 3),
                numbers.skip(3).take(20).shard(3, 1),
                D.zip((numbers, numbers.take(4))),
                numbers.concatenate(numbers),
                numbers.window(3, 2),
                numbers.flat_map(D.range),
                numbers.shuffle(3).prefetch(1).cache(),
            )
        ]
        fetches = [
            cardinalities,
            numbers.reduce(np.int64(5), lambda s, x: s + x),
            numbers.reduce((0, b""), lambda s, x: (s[0] + 1, s[1] + tf.as_string(x))),
            experimental.get_single_element(numbers.skip(9)),
        ]
        errors = [
            experimental.get_single_element(numbers.take(0)),
            experimental.get_single_element(numbers),
        ]
        path = str(tmp_path / "records")
        written = tf.raw_ops.DatasetToTFRecord(
            input_dataset=numbers.map(tf.as_string)._variant_tensor,
            filename=path,
            compression_type="",
        )
    found = []
    for kind in (tf1.Session, tfjit.Session):
        with kind(graph=graph) as session:
            results = [session.run(fetches), *(drained(session, error, 1) for error in errors)]
            session.run(written)
        results.append(Path(path).read_bytes())
        found.append(results)
    np.testing.assert_equal(found[1], found[0])


def test_a_table_of_a_dataset() -> None:
    graph = tf1.Graph()
    with graph.as_default():
        pairs = D.zip((D.from_tensor_slices(["a", "b"]), D.range(2)))
        table = tf.lookup.StaticHashTable(
            tf.data.experimental.DatasetInitializer(pairs), default_value=-1
        )
        found = table.lookup(tf.constant(["b", "c", "a"]))
        initialize = tf1.tables_initializer()
    with tfjit.Session(graph=graph) as session:
        session.run(initialize)
        assert session.run(found).tolist() == [1, -1, 0]
