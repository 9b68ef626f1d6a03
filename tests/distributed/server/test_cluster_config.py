"""Clusters as launchers give them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfjit import protos
from tfjit.distributed.server.cluster_config import (
    ClusterConfig,
    parse_cluster,
    parse_config,
    parse_tf_config,
)

KUBEFLOW = {
    "cluster": {
        "chief": ["mnist-chief-0.default.svc:2222"],
        "ps": ["mnist-ps-0.default.svc:2222", "mnist-ps-1.default.svc:2222"],
        "worker": ["mnist-worker-0.default.svc:2222"],
    },
    "task": {"type": "ps", "index": 1},
    "environment": "cloud",
}


def test_kubeflows_training_operator() -> None:
    found = parse_tf_config(json.dumps(KUBEFLOW))
    assert found.cluster == parse_cluster(json.dumps(KUBEFLOW["cluster"]))
    assert (found.job, found.task, found.protocol) == ("ps", 1, None)


def test_dynamic_workers_know_themselves_and_the_servers() -> None:
    config = {
        "sparseCluster": {"worker": {"3": "w3:2222"}, "ps": ["p0:2222"]},
        "task": {"type": "worker", "index": "3"},
    }
    found = parse_tf_config(json.dumps(config))
    assert found.cluster is not None and found.task == 3
    assert found.cluster.as_dict() == {"worker": {3: "w3:2222"}, "ps": ["p0:2222"]}


def test_a_part_of_tf_config() -> None:
    assert parse_tf_config("") == parse_tf_config("{}") == ClusterConfig()
    found = parse_tf_config('{"cluster": {"master": ["a:1"]}, "rpc_layer": "grpc"}')
    assert found.cluster is not None and found.cluster.jobs == ["master"]
    assert (found.job, found.task, found.protocol) == (None, None, "grpc")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "TF_CONFIG is not JSON"),
        ("[1]", "not an object"),
        ('{"task": 3}', "task is 3"),
        ('{"task": {"type": 3}}', "type of the task is 3"),
        ('{"task": {"index": "x"}}', "index of the task is 'x'"),
        ('{"cluster": 3}', "has no jobs"),
        ('{"cluster": {"w": 3}}', "tasks for job 'w'"),
        ('{"cluster": {"w": [3]}}', "Task address 3"),
    ],
)
def test_faulty_tf_config(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_tf_config(text)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=3),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["cluster", "task", "type", "index", "w"]), inner)
        ),
        max_leaves=8,
    )
)
def test_any_json_is_a_cluster_or_a_value_error(value: object) -> None:
    for parse in (parse_tf_config, parse_cluster):
        try:
            parse(json.dumps(value))
        except ValueError as error:
            assert str(error)


def test_clusters_as_text() -> None:
    expected = {"ps": ["h:1"], "worker": ["h:2", "i:3"]}
    for text in (
        "ps=h:1;worker=h:2,i:3",
        " ps = h:1 ;\nworker=h:2, i:3;\n",
        json.dumps(expected),
        json.dumps({"cluster": {"ps": "h:1", "worker": expected["worker"]}}),
    ):
        assert parse_cluster(text).as_dict() == expected
    assert parse_cluster('{"w": {"2": "h:1"}}').as_dict() == {"w": {2: "h:1"}}


@pytest.mark.parametrize("text", ["", "ps", "ps=", "=h:1", "ps=h:1,;", "a=h:1;a=i:1", "{", "{}"])
def test_faulty_clusters(text: str) -> None:
    with pytest.raises(ValueError):
        parse_cluster(text)


def test_configs() -> None:
    expected = protos.ConfigProto(intra_op_parallelism_threads=2)
    assert parse_config("intra_op_parallelism_threads: 2") == expected
    assert parse_config('{"intraOpParallelismThreads": 2}') == expected
    for text in ("no_field: 1", "{", '{"x": 1}'):
        with pytest.raises(ValueError, match="not a ConfigProto"):
            parse_config(text)
