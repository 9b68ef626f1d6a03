"""Moving averages against TensorFlow's: the same nodes, names and values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow

import tfjit
from tests.client.variables.same_graphs import (
    collections,
    nodes,
    resource_variables,
    switches_and_merges,
)

tf1 = tensorflow.compat.v1


def program(tf: Any) -> tuple[Any, Any, dict[str, Any]]:
    """Build averages of all kinds; return an initializer, an update and named values."""
    step = tf.Variable(0, trainable=False, name="step")
    v = tf.get_variable("v", initializer=np.float32([1, 2]))
    w = tf.Variable(3.0, name="w", dtype=tf.float64)
    unknown = tf.placeholder_with_default(np.float32([[1, 2]]), [None, 2])
    plain = tf.train.ExponentialMovingAverage(0.9)
    early = [plain.average_name(v), plain.average(v)]
    with tf.name_scope("outer"), tf.control_dependencies([step.initializer]):
        updates = [plain.apply()]
    with tf.control_dependencies(updates):
        updates.append(plain.apply([v]))
    counted = tf.train.ExponentialMovingAverage(0.9, num_updates=step, name="counted")
    with tf.control_dependencies(updates):
        updates.append(counted.apply([v, 2.0 * v, unknown]))
    debiased = tf.train.ExponentialMovingAverage(0.5, zero_debias=True, name="debiased")
    tensor = tf.square(v, name="squared")
    with tf.variable_scope("inner"), tf.control_dependencies(updates):
        updates.append(debiased.apply([v, tensor, tf.cast(v, tf.float64)]))
    with tf.control_dependencies(updates):
        update = tf.group(tf.assign_add(v, [1.0, 1.0]), tf.assign(w, 2 * w), step.assign_add(1))
    restored = {name: variable.name for name, variable in plain.variables_to_restore().items()}
    chosen = counted.variables_to_restore([w])
    values = {variable.name: variable for variable in tf.global_variables()}
    names = [early, plain.average_name(v), counted.average(w), debiased.average(tensor).name]
    names += [restored, sorted(chosen), plain.name]
    return tf.global_variables_initializer(), update, {**values, "names": names}


@pytest.mark.parametrize("resource", [False, True], ids=["reference", "resource"])
def test_averages(resource: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFJIT_JIT", "off")
    graphs, found, kept = [], [], []
    for tf in (tf1, tfjit):
        graph = tf.Graph()
        with (
            graph.as_default(),
            tf.Session(graph=graph) as session,
            switches_and_merges(),
            resource_variables(resource),
        ):
            initializer, update, values = program(tf)
            names = values.pop("names")
            session.run(initializer)
            for _ in range(3):
                session.run(update)
            found.append({"names": names, **session.run(values)})
        graphs.append(nodes(graph))
        kept.append(collections(graph))
    assert graphs[1].keys() == graphs[0].keys()
    for name, node in graphs[0].items():
        assert graphs[1][name] == node
    assert kept[1] == kept[0]
    assert found[1].pop("names") == found[0].pop("names")
    for name, value in found[0].items():
        np.testing.assert_allclose(found[1][name], value, rtol=1e-6, err_msg=name)


def test_other_dtypes() -> None:
    messages = []
    for tf in (tf1, tfjit):
        with tf.Graph().as_default(), pytest.raises(TypeError) as error:
            tf.train.ExponentialMovingAverage(0.9).apply([tf.Variable(1, name="v")])
        messages.append(str(error.value))
    assert messages[1] == messages[0]


def slots_of_slices(tf: Any) -> dict[str, Any]:
    """Return names and places in checkpoints of slots and averages of a partitioned variable."""
    v = tf.get_variable("v", [5, 2], partitioner=tf.fixed_size_partitioner(2))
    optimizer = tf.train.MomentumOptimizer(0.1, 0.9)
    with tf.variable_scope("p", partitioner=tf.fixed_size_partitioner(2)):
        optimizer.minimize(tf.reduce_sum(tf.square(v)))
        tf.train.ExponentialMovingAverage(0.9).apply()
    places = {u.op.name: u._get_save_slice_info() for u in tf.global_variables()}
    return {name: place and (place.full_name, place.spec) for name, place in places.items()}


def test_slots_of_slices() -> None:
    found = []
    for tf in (tf1, tfjit):
        with tf.Graph().as_default(), resource_variables(True), switches_and_merges():
            found.append(slots_of_slices(tf))
    assert found[1] == found[0]
    with tfjit.Graph().as_default():
        layer = tfjit.layers.Dense(4, kernel_regularizer=tfjit.nn.l2_loss)
        with tfjit.variable_scope("s", partitioner=tfjit.fixed_size_partitioner(2)):
            layer(tfjit.ones([1, 2]))
        assert [w.op.name for w in layer.trainable_weights] == [
            *("s/dense/kernel/part_0", "s/dense/kernel/part_1"),
            *("s/dense/bias/part_0", "s/dense/bias/part_1"),
        ]
        assert len(layer.losses) == 2
