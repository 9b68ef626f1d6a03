"""A server of its own process, and peers that send it what they like."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, Final

import pytest
from google.protobuf import text_format

from tests.distributed.task_processes import TaskProcess, tasks
from tests.waiting import wait_until
from tfjit import protos
from tfjit.distributed.channels.channels import Channel
from tfjit.distributed.protocol.methods import MASTER, WORKER
from tfjit.framework import errors

LIMIT_S: Final = 60.0
FLOAT: Final = 'attr { key: "T" value { type: DT_FLOAT } }'
GOOD: Final = """
node { name: "x" op: "Const" attr { key: "dtype" value { type: DT_FLOAT } }
  attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape {} float_val: 3 } } } }
node { name: "y" op: "Square" input: "x" attr { key: "T" value { type: DT_FLOAT } } }
"""
GRAPHS: Final = {
    "a cycle": f"""
        node {{ name: "y" op: "Square" input: "z" {FLOAT} }}
        node {{ name: "z" op: "Square" input: "y" {FLOAT} }}""",
    "a node that needs itself": f'node {{ name: "y" op: "Square" input: "y" {FLOAT} }}',
    "an unknown op": 'node { name: "y" op: "NoSuchOp" }',
    "no op": 'node { name: "y" }',
    "an unknown input": f'node {{ name: "y" op: "Square" input: "nowhere" {FLOAT} }}',
    "an output that is not there": GOOD + f'node {{ name: "z" op: "Square" input: "x:7" {FLOAT} }}',
    "a name twice": GOOD + GOOD,
    "a strange name": f'node {{ name: "\\001 \\n" op: "Square" input: "x" {FLOAT} }}',
    "an attr that is missing": 'node { name: "y" op: "Placeholder" }',
    "an attr of another kind": GOOD.replace("type: DT_FLOAT } }\n", 's: "float" } }\n'),
    "a dtype that is none": GOOD.replace("dtype: DT_FLOAT", "dtype: DT_INVALID"),
    "a huge constant": GOOD.replace(
        "tensor_shape {}", "tensor_shape { dim { size: 1000000000000 } }"
    ),
    "a negative size": GOOD.replace("tensor_shape {}", "tensor_shape { dim { size: -5 } }"),
    "a device of another world": GOOD.replace(
        'op: "Square"', 'op: "Square" device: "/job:x/task:9"'
    ),
    "a device that is none": GOOD.replace('op: "Square"', 'op: "Square" device: "//::"'),
    "a place beside nothing": GOOD
    + 'node { name: "z" op: "NoOp" attr { key: "_class" value { list { s: "loc:@none" } } } }',
}

MAY_RUN: Final = ("a place beside nothing", "an output that is not there", "a device that is none")
"""Graphs whose fault is in a node that no run needs, or is read as no wish."""


@pytest.fixture(scope="module")
def served() -> Iterator[TaskProcess]:
    with tasks("tfjit") as (one,):
        yield one


@pytest.fixture(params=["local", "grpc", "direct"])
def channel(
    served: TaskProcess, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Channel]:
    if request.param != "local":
        disabled = "local_channel" if request.param == "direct" else "local_channel,direct_channel"
        monkeypatch.setenv("TFJIT_DISABLE", disabled)
    made = Channel(served.target.removeprefix("grpc://"))
    if request.param == "direct":
        call(made, WORKER, "GetStatus")
        wait_until(lambda: made.frames() is not None)
    assert (made.frames() is None) == (request.param == "grpc")
    yield made
    made.close()
    assert served.is_running()


def graph_of(text: str) -> Any:
    return text_format.Parse(text, protos.GraphDef())


def call(channel: Channel, service: str, method: str, **fields: Any) -> Any:
    request = getattr(protos, f"{method}Request")(**fields)
    answer = channel.call(service, method, request, LIMIT_S)
    return (
        getattr(protos, f"{method}Response").FromString(answer) if type(answer) is bytes else answer
    )


def step(channel: Channel, graph: Any, fetch: str = "y:0") -> Any:
    """Run a fetch of a graph in a new session, and close it."""
    made = call(channel, MASTER, "CreateSession", graph_def=graph)
    try:
        answer = call(channel, MASTER, "RunStep", session_handle=made.session_handle, fetch=[fetch])
        if answer.status_code:
            raise errors.make_error(answer.status_code, answer.status_error_message)
        return answer.tensor[0]
    finally:
        call(channel, MASTER, "CloseSession", session_handle=made.session_handle)


@pytest.mark.parametrize("name", GRAPHS)
def test_graphs_are_refused_and_the_server_serves_on(channel: Channel, name: str) -> None:
    graph = graph_of(GRAPHS[name])
    refused: list[errors.OpError] = []
    try:
        step(channel, graph)
    except errors.OpError as error:
        refused.append(error)
    try:
        handle = call(channel, WORKER, "RegisterGraph", graph_def=graph).graph_handle
        answer = call(channel, WORKER, "RunGraph", graph_handle=handle, step_id=7)
        if answer.status_code:
            raise errors.make_error(answer.status_code, answer.status_error_message)
    except errors.OpError as error:
        refused.append(error)
    assert refused or name in MAY_RUN, name
    for error in refused:
        assert not isinstance(error, (errors.DeadlineExceededError, errors.UnavailableError)), error
    assert step(channel, graph_of(GOOD)).name == "y:0"


@pytest.mark.parametrize(
    ("service", "method", "fields"),
    [
        (MASTER, "ExtendSession", {"session_handle": "none"}),
        (MASTER, "RunStep", {"session_handle": "\x00", "fetch": ["y:0"] * 1000}),
        (MASTER, "PartialRunSetup", {"session_handle": "none"}),
        (MASTER, "MakeCallable", {"session_handle": "none"}),
        (MASTER, "RunCallable", {"session_handle": "none", "handle": -1}),
        (MASTER, "ReleaseCallable", {"session_handle": "none", "handle": 1 << 60}),
        (MASTER, "CloseSession", {"session_handle": "none"}),
        (MASTER, "ListDevices", {"session_handle": "none"}),
        (WORKER, "RegisterGraph", {"session_handle": "none"}),
        (WORKER, "DeregisterGraph", {"graph_handle": "none"}),
        (WORKER, "RunGraph", {"graph_handle": "none", "step_id": -1}),
        (WORKER, "RecvTensor", {"rendezvous_key": ";;;", "step_id": 5}),
    ],
)
def test_unknown_handles(
    channel: Channel, service: str, method: str, fields: dict[str, Any]
) -> None:
    with pytest.raises(errors.OpError) as caught:
        answer = call(channel, service, method, **fields)
        if getattr(answer, "status_code", 0):
            raise errors.make_error(answer.status_code, answer.status_error_message)
    assert not isinstance(caught.value, (errors.DeadlineExceededError, errors.UnavailableError))
    assert step(channel, graph_of(GOOD)).name == "y:0"


def test_a_flood_of_receives(channel: Channel, served: TaskProcess) -> None:
    """Tensors that nobody sends: a few threads serve them, and they go with their client."""
    from tests.distributed.kills import footprint

    task = "/job:worker/replica:0/task:0/device:CPU:0"
    flood = Channel(channel.address)
    ended = threading.Semaphore(0)
    before = footprint(served.pid)
    for number in range(2000):
        request = protos.RecvTensorRequest(
            step_id=1000 + number % 10,
            rendezvous_key=f"{task};0000000000000001;{task};edge_{number};0:0",
        )
        flood.start(WORKER, "RecvTensor", request, lambda *_: ended.release(), LIMIT_S)
    assert step(channel, graph_of(GOOD)).name == "y:0"
    assert footprint(served.pid)["threads"] <= before["threads"] + 100
    flood.close()
    for _ in range(2000):
        assert ended.acquire(timeout=LIMIT_S)
    assert step(channel, graph_of(GOOD)).name == "y:0"
