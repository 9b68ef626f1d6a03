"""`tf.graph_util` against TensorFlow's: the same graphs, values and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow

import tfjit
from tests.client.variables.same_graphs import resource_variables, switches_and_merges

tf1 = tensorflow.compat.v1


def model(tf: Any) -> Any:
    """Build a model with variables, checks, identities and training."""
    x = tf.placeholder(tf.float32, [None, 2], name="x")
    v = tf.get_variable("v", initializer=np.float32([[1, 2], [3, 4]]))
    w = tf.get_variable("w", initializer=np.float32([1, 2, 3]))
    y = tf.identity(tf.identity(tf.matmul(x, v), name="gone"), name="kept")
    check = tf.check_numerics(y, "bad", name="check")
    rows = tf.gather(w, [2, 0], name="rows")
    with tf.control_dependencies([tf.no_op(name="before"), check]):
        held = tf.identity(y, name="held")
    chosen = tf.cond(x[0, 0] > 0, lambda: v + 1.0, lambda: v * 2.0)
    out = tf.stop_gradient(held + rows, name="stop") + tf.reduce_sum(chosen)
    tf.identity(out, name="out")
    tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(out))


def texts(graph_def: Any) -> dict[str, str]:
    """Return nodes as text, by name."""
    found = {}
    for node in tfjit.GraphDef.FromString(graph_def.SerializeToString()).node:
        node.attr.pop("_has_manual_control_dependencies", None)
        value = tfjit.make_ndarray(node.attr["value"].tensor) if node.op == "Const" else None
        node.attr.pop("value", None)
        found[node.name] = f"{node}{value!r}"
    return found


@pytest.mark.parametrize("resource", [False, True], ids=["reference", "resource"])
def test_graphs(resource: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFJIT_JIT", "off")
    graphs: list[list[dict[str, str]]] = []
    feed = {"x:0": [[1.0, 2.0], [3.0, 4.0]]}
    for tf in (tf1, tfjit):
        util = tf.graph_util
        graph = tf.Graph()
        with (
            graph.as_default(),
            tf.Session() as session,
            resource_variables(resource),
            switches_and_merges(),
        ):
            model(tf)
            session.run(tf.global_variables_initializer())
            expected = session.run("out:0", feed)
            whole = graph.as_graph_def()
            part = util.extract_sub_graph(whole, ["held"])
            frozen = util.convert_variables_to_constants(session, whole, ["out"])
            half = util.convert_variables_to_constants(session, whole, ["held"], ["w"])
            shape = util.tensor_shape_from_node_def_name(graph, "kept").as_list()
            pinned = {n.name for n in part.node if util.must_run_on_cpu(n, True)}
        plain = util.remove_training_nodes(frozen, ["kept", "out"])
        for kept in (frozen, plain):
            with tf.Graph().as_default(), tf.Session() as session:
                tf.import_graph_def(kept, name="")
                np.testing.assert_allclose(session.run("out:0", feed), expected)
        graphs.append(
            [
                texts(part),
                texts(half),
                texts(plain),
                {"shape": str(shape), "cpu": str(sorted(pinned))},
            ]
        )
        if not resource:  # of a resource, TensorFlow names the copies of reads in another order
            graphs[-1].append(texts(frozen))
    for expected_texts, got in zip(*graphs, strict=True):
        assert got == expected_texts


def test_errors() -> None:
    found = []
    for tf in (tf1, tfjit):
        raised = []
        for case in (("x", ["a"]), (tf.GraphDef(), "a"), (tf.GraphDef(), ["a"])):
            with pytest.raises((TypeError, AssertionError)) as error:
                tf.graph_util.extract_sub_graph(*case)
            raised.append(str(error.value).splitlines()[0])
        found.append(raised)
    assert found[1] == found[0]
