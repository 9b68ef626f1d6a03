"""Devices of replicated graphs, compared with TensorFlow's over drawn arguments."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow
from hypothesis import given
from hypothesis import strategies as st

import tfjit
from tfjit.client.training.replica_device_setter import STANDARD_PS_OPS

tf1 = tensorflow.compat.v1

CLUSTER = {"ps": ["ps0:2", "ps1:2"], "worker": ["w0:2", "w1:2", "w2:2"]}
DEVICES = st.sampled_from(
    ["", "/job:ps", "/job:worker/task:1", "/job:ps/task:1/cpu:0", "/gpu:1", "/replica:2"]
)
OPS = st.sampled_from([None, ["Placeholder"], ["VariableV2", "NoOp"], []])


def placed(m: Any, outer: str, inner: list[str], merge: bool, **kwargs: Any) -> Any:
    """The devices of some operations, or the error."""
    try:
        setter = m.train.replica_device_setter(merge_devices=merge, **kwargs)
        graph = m.Graph()
        with graph.as_default(), m.device(outer or None), m.device(setter):
            for number, device in enumerate(inner):
                with m.device(device or None):
                    m.placeholder(m.float32, name=f"p{number}")
                    m.raw_ops.VariableV2(shape=(), dtype=m.float32, name=f"v{number}")
                    m.raw_ops.VarHandleOp(shape=(), dtype=m.float32, name=f"h{number}")
                    m.no_op(name=f"n{number}")
        return {op.name: op.device for op in graph.get_operations()}
    except Exception as error:
        return type(error).__name__, str(error)


@given(
    outer=DEVICES,
    inner=st.lists(DEVICES, min_size=1, max_size=4),
    merge=st.booleans(),
    ps_tasks=st.integers(0, 3),
    ps_device=DEVICES,
    worker_device=DEVICES,
    ps_ops=OPS,
    cluster=st.sampled_from([None, CLUSTER, {"worker": ["a:1"]}, {"ps": []}, {"ps": {4: "a:1"}}]),
)
def test_as_tensorflows(**drawn: Any) -> None:
    expected, got = placed(tf1, **drawn), placed(tfjit, **drawn)
    assert got == expected


def test_variables_go_round() -> None:
    with tfjit.Graph().as_default():
        with tfjit.device(tfjit.train.replica_device_setter(cluster=CLUSTER)):
            variables = [tfjit.Variable(1.0, name=f"v{n}") for n in range(3)]
            loss = variables[0] * 2.0
        assert [v.device for v in variables] == [f"/job:ps/task:{n}" for n in (0, 1, 0)]
        assert loss.device == "/job:worker"


@pytest.mark.parametrize(
    "cluster", [tfjit.train.ClusterSpec(CLUSTER), tf1.train.ClusterSpec(CLUSTER)]
)
def test_specs(cluster: Any) -> None:
    setter = tfjit.train.replica_device_setter(cluster=cluster.as_cluster_def())
    assert setter is not None
    node = tfjit.NodeDef(name="v", op="VariableV2") if hasattr(tfjit, "NodeDef") else None
    if node is not None:
        assert setter(node) == "/job:ps/task:0"


def test_a_strategy_chooses() -> None:
    seen: list[str] = []

    def strategy(op: Any) -> int:
        seen.append(op.name)
        return 5

    with tfjit.Graph().as_default():
        setter = tfjit.train.replica_device_setter(2, ps_strategy=strategy)
        with tfjit.device(setter):
            variable = tfjit.raw_ops.VariableV2(shape=(), dtype=tfjit.float32, name="v")
            tfjit.no_op()
        assert variable.device == "/job:ps/task:5" and seen == ["v"]
    with pytest.raises(TypeError, match="ps_strategy must be callable"):
        tfjit.train.replica_device_setter(2, ps_strategy=3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="`cluster` must be a dictionary"):
        tfjit.train.replica_device_setter(cluster=3)


def test_the_ops_of_state_are_tensorflows() -> None:
    from tensorflow.python.training import device_setter

    assert set(STANDARD_PS_OPS) == set(device_setter.STANDARD_PS_OPS)
