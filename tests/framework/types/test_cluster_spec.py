"""Clusters from every form, compared with TensorFlow's over drawn inputs."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow
from hypothesis import given
from hypothesis import strategies as st

import tfjit
from tfjit.framework.types.cluster_spec import ClusterSpec

theirs = tensorflow.train.ClusterSpec

NAMES = st.one_of(st.sampled_from(["ps", "worker", "chief", b"ps", ""]), st.text(max_size=4))
ADDRESSES = st.sampled_from(["a:1", "b:2", b"c:3", "größer:4", ""])
TASKS = st.one_of(
    st.lists(ADDRESSES, max_size=4),
    st.tuples(ADDRESSES, ADDRESSES),
    st.dictionaries(st.integers(0, 5), ADDRESSES, max_size=4),
    st.dictionaries(st.sampled_from(["0", "3", "7", "x"]), ADDRESSES, max_size=2),
)
FAULTY = st.sampled_from([None, 3, "abc", [3], [None], {0: 3}, {-1: "a"}])
CLUSTERS = st.dictionaries(NAMES, st.one_of(TASKS, TASKS, TASKS, FAULTY), max_size=3)


def outcome(function: Any) -> Any:
    """The value of a function, or its error as class and text."""
    try:
        return function()
    except Exception as error:
        return type(error), str(error)


def observed(kind: Any, cluster: Any) -> Any:
    """All that a spec tells."""

    def everything() -> Any:
        spec = kind(cluster)
        jobs = [*spec.jobs, "other"]
        return [
            *(spec.jobs, bool(spec), outcome(lambda: repr(spec)), outcome(spec.as_dict)),
            spec.as_cluster_def().SerializeToString(deterministic=True),
            [outcome(lambda j=job: spec.num_tasks(j)) for job in jobs],
            [outcome(lambda j=job: spec.task_indices(j)) for job in jobs],
            [outcome(lambda j=job: spec.job_tasks(j)) for job in jobs],
            [outcome(lambda j=job, i=i: spec.task_address(j, i)) for job in jobs for i in range(6)],
        ]

    return outcome(everything)


@given(CLUSTERS)
def test_as_tensorflows(cluster: Any) -> None:
    if len({type(name) for name in cluster}) > 1:
        return  # names that cannot be sorted
    assert observed(ClusterSpec, cluster) == observed(theirs, cluster)


@pytest.mark.parametrize("cluster", [None, 3, "ps", ["a:1"], {3: ["a"]}, {"w": {"x": "a"}}])
def test_faulty_clusters(cluster: Any) -> None:
    expected = outcome(lambda: theirs(cluster))
    assert isinstance(expected, tuple) and outcome(lambda: ClusterSpec(cluster)) == expected


@given(st.dictionaries(st.sampled_from(["ps", "w"]), TASKS.filter(lambda t: "x" not in t)))
def test_from_messages_and_specs(cluster: Any) -> None:
    spec = ClusterSpec(cluster)
    for source in (spec, spec.as_cluster_def(), theirs(cluster), theirs(cluster).as_cluster_def()):
        again = ClusterSpec(source)
        ours_of = theirs(theirs(cluster).as_cluster_def())
        assert again.as_dict() == ours_of.as_dict() and again.jobs == ours_of.jobs
        assert again.as_cluster_def() == spec.as_cluster_def()


def test_equality() -> None:
    spec = ClusterSpec({"w": ["a:1", "b:2"]})
    assert spec == ClusterSpec({"w": {1: "b:2", 0: "a:1"}}) == {"w": {0: "a:1", 1: "b:2"}}
    assert spec != ClusterSpec({"w": ["a:1"]}) and spec != {"w": ["a:1", "b:2"]} and spec != 3
    with pytest.raises(TypeError, match="unhashable"):
        hash(spec)
    assert not ClusterSpec({}) and tfjit.train.ClusterSpec is ClusterSpec
