"""Places in clusters and refusals, compared with TensorFlow's."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow

import tfjit
from tests.distributed.server.fakes import FakeMaster, FakeWorker
from tfjit.distributed.server.server import Server
from tfjit.distributed.server.server_def import find_place, make_server_def

tf1 = tensorflow.compat.v1
TWO = {"w": ["localhost:0", "localhost:0"]}
ONE = {"w": ["localhost:0"]}


def made(m: Any, server: Any, *args: Any, **kwargs: Any) -> Any:
    """The ServerDef of a server, or its error."""
    if m is tfjit:
        kwargs["factory"] = lambda setup: (FakeMaster(), FakeWorker())
    try:
        found = server(*args, **kwargs)
    except Exception as error:
        return error
    if m is tfjit:
        found.stop()
    return found.server_def.SerializeToString(deterministic=True)


CASES: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((ONE,), {}),
    ((TWO, "w", 1), {}),
    ((TWO,), {"task_index": 1}),
    (({"w": {2: "localhost:0"}},), {}),
    (({"w": ["localhost:0"], "p": ["a:1"]}, "w"), {}),
    ((TWO,), {}),
    (({"w": ["localhost:0"], "p": ["a:1"]},), {}),
    ((ONE, "x", 0), {}),
    ((ONE, "x"), {}),
    ((ONE, "w", 3), {}),
    ((ONE,), {"task_index": "0"}),
    ((ONE,), {"protocol": "grpc+verbs"}),
    (({"w": ["localhost"]},), {}),
    (({"w": ["localhost:x"]},), {}),
    (({"w": [""]},), {}),
    (({"w": ["http://localhost:0"]},), {}),
    (({},), {}),
    ((3,), {}),
    (({"w": 3},), {}),
]


@pytest.mark.parametrize(("args", "kwargs"), CASES, ids=str)
def test_as_tensorflows(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    expected = made(tf1, tf1.train.Server, *args, **kwargs)
    got = made(tfjit, tfjit.train.Server, *args, **kwargs)
    if isinstance(expected, bytes):
        assert got == expected
        return
    assert type(got).__name__ == type(expected).__name__
    first, last = (str(expected).split("goo.gle")[0], str(expected).split("\n")[-1])
    assert str(got).startswith(first.split("http")[0]) and str(got).endswith(last[-20:])


@pytest.mark.parametrize("field", ["job_name", "task_index", "port", "config"])
def test_server_defs(field: str) -> None:
    """Arguments replace the fields of a ServerDef, TensorFlow's as well."""

    def server_def(m: Any) -> Any:
        message = m.train.ServerDef(job_name="w", protocol="grpc", task_index=1)
        message.cluster.CopyFrom(m.train.ClusterSpec(TWO).as_cluster_def())
        message.default_session_config.allow_soft_placement = True
        return message

    ours = server_def(tfjit)
    assert ours.SerializeToString() == server_def(tf1).SerializeToString()
    assert make_server_def(server_def(tf1)) == make_server_def(ours) == ours
    if field == "port":
        ours.port = 4321
        assert find_place(ours).port == 4321
    elif field == "config":
        config = tfjit.ConfigProto(log_device_placement=True)
        merged = make_server_def(ours, config=config).default_session_config
        assert merged.allow_soft_placement and merged.log_device_placement
    elif field == "task_index":
        assert find_place(make_server_def(ours, task_index=0)).task.endswith("task:0")
    else:
        assert make_server_def(ours, "other").job_name == "other"


def test_ports_beyond_the_last() -> None:
    """TensorFlow takes another port than it was told; a server of tfjit refuses."""
    with pytest.raises(tfjit.errors.InvalidArgumentError, match='from "localhost:99999"'):
        find_place(make_server_def({"w": ["localhost:99999"]}))


@pytest.mark.parametrize(
    ("address", "interface"),
    [
        ("localhost:1", "127.0.0.1"),
        ("127.0.0.5:1", "127.0.0.5"),
        ("[::1]:1", "[::1]"),
        ("10.0.0.1:1", None),
        ("localhost.example.com:1", None),
    ],
)
def test_interfaces(address: str, interface: str | None) -> None:
    assert find_place(make_server_def({"w": [address]})).bind_host == interface


def test_a_local_server_has_tensorflows_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "tfjit.distributed.server.server.make_task", lambda setup: (FakeMaster(), FakeWorker())
    )
    server = Server.create_local_server(config=tfjit.ConfigProto(allow_soft_placement=True))
    expected = tf1.train.Server.create_local_server(tf1.ConfigProto(allow_soft_placement=True))
    assert server.server_def.SerializeToString() == expected.server_def.SerializeToString()
    assert server.target.rpartition(":")[0] == expected.target.rpartition(":")[0]
    server.stop()


def test_tensorflows_session_uses_a_server() -> None:
    """Its client talks to the services, through to the answer of a step."""

    def make(setup: Any) -> Any:
        master = FakeMaster()
        master.step = lambda call: ([tensorflow.make_ndarray(VALUE) for _ in call.fetches], None)
        return master, FakeWorker()

    VALUE = tensorflow.make_tensor_proto([5.0, 6.0])
    server = Server(ONE, factory=make)
    with tf1.Graph().as_default(), tf1.Session(server.target) as session:
        assert session.run(tf1.constant([1.0, 2.0]) + 1).tolist() == [5.0, 6.0]
        # not list_devices: there TensorFlow's client holds the interpreter that the server needs
    server.stop()
