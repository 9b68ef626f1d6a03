"""Sessions at a master of the same process, which is called without gRPC."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tfjit
from tfjit.distributed.protocol import local_tasks
from tfjit.distributed.protocol.interfaces import MasterInterface, StepCall
from tfjit.distributed.session.grpc_session import GrpcSession, _with_passes
from tfjit.passes import Pipeline
from tfjit.runtime.factory import SessionOptions
from tfjit.runtime.session.rewriter_config import pipeline_of

ADDRESS = "localhost:1"


class Master(MasterInterface):
    """Answer each fetch by the first feed, and note the calls."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.fed: list[Any] = []

    def create_session(self, graph_def: Any, config: Any, target: str = "") -> tuple[str, int]:
        self.calls.append(("create", len(graph_def.node), target))
        return "handle", 1

    def extend_session(self, session: str, graph_def: Any, version: int) -> int:
        self.calls.append(("extend", [node.name for node in graph_def.node], version))
        return version + 1

    def run_step(self, call: StepCall) -> tuple[list[Any], Any]:
        self.calls.append(("run", list(call.fetches), call.partial_run))
        self.fed = [value for _, value in call.feeds]
        return [self.fed[0] for _ in call.fetches], None

    def partial_run_setup(
        self,
        session: str,
        feeds: Sequence[str],
        fetches: Sequence[str],
        targets: Sequence[str],
        request_id: int = 0,
    ) -> str:
        return "partial"

    def close_session(self, session: str) -> None:
        self.calls.append("close")

    def list_devices(self, session: str = "") -> tuple[list[Any], list[Any]]:
        return ["mine"], ["other"]

    def reset(self, containers: Sequence[str], device_filters: Sequence[str]) -> None:
        self.calls.append(("reset", containers, device_filters))

    def make_callable(self, session: str, options: Any, request_id: int = 0) -> int:
        return 7

    def run_callable(
        self,
        session: str,
        callable_handle: int,
        values: Sequence[Any],
        request_id: int = 0,
        cancellation: Any = None,
    ) -> tuple[list[Any], Any]:
        return list(values), None

    def release_callable(self, session: str, callable_handle: int) -> None:
        self.calls.append(("release", callable_handle))


@pytest.fixture
def master() -> Iterator[Master]:
    made = Master()
    local_tasks.add(ADDRESS, made, None)  # type: ignore[arg-type]
    yield made
    local_tasks.remove(ADDRESS)


@pytest.fixture
def graph() -> tfjit.Graph:
    made = tfjit.Graph()
    with made.as_default():
        x = tfjit.placeholder(tfjit.float32, name="x")
        tfjit.identity(x, name="y")
    return made


@pytest.mark.parametrize("size", [0, 1, 100_000])
def test_values_are_not_shared(master: Master, graph: tfjit.Graph, size: int) -> None:
    fed = np.ones(size, np.float32)
    with tfjit.Session(f"grpc://{ADDRESS}", graph=graph) as session:
        found, again = session.run(["y:0", "y:0"], {"x:0": fed})
        made = session.make_callable("y:0", ["x:0"])(fed)
        for value in (found, made):
            assert not np.shares_memory(value, fed) and value.flags.writeable
            value += 1
        assert not np.shares_memory(master.fed[0], fed)
        np.testing.assert_array_equal(again, found)
        assert (fed == 1).all()


def test_the_calls_of_a_session(master: Master, graph: tfjit.Graph) -> None:
    target = f"grpc://{ADDRESS}"
    session = tfjit.Session(target, graph=graph)
    assert session.run("y:0", {"x:0": 2.0}) == 2.0
    with graph.as_default():
        tfjit.identity(graph.get_tensor_by_name("y:0"), name="z")
    handle = session.partial_run_setup(["z:0"], ["x:0"])
    assert session.partial_run(handle, "z:0", {"x:0": 2.0}) == 2.0
    session.close()
    session.close()
    tfjit.Session.reset(target, ["c"], tfjit.ConfigProto(device_filters=["/job:a"]))
    assert master.calls == [
        ("create", 0, target),
        ("extend", ["x", "y"], 1),
        ("run", ["y:0"], ""),
        ("extend", ["z"], 2),
        ("run", ["z:0"], "partial"),
        "close",
        ("reset", ["c"], ["/job:a"]),
    ]


def test_devices_and_callables(master: Master) -> None:
    from tfjit.protos import CallableOptions

    session = GrpcSession(SessionOptions(target=f"grpc://{ADDRESS}"))
    assert session.list_devices() == ["mine", "other"]
    handle = session.make_callable(CallableOptions(feed=["x:0"], fetch=["y:0"]))
    assert session.run_callable(handle, [np.float32(3)]) == [3.0]
    with pytest.raises(tfjit.errors.InvalidArgumentError, match="Expected 1 feed tensors"):
        session.run_callable(handle, [])
    session.release_callable(handle)
    session.close()
    session.destroy()
    for call in (session.list_devices, lambda: session.prepare([], [], [])):
        with pytest.raises(tfjit.errors.CancelledError):
            call()


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_is_told_to_make_its_own(master: Master, graph: tfjit.Graph) -> None:
    session = tfjit.Session(f"grpc://{ADDRESS}", graph=graph)
    session.run("y:0", {"x:0": 2.0})
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        text = "no error"
        try:
            session.run("y:0", {"x:0": 2.0})
        except tfjit.errors.FailedPreconditionError as error:
            text = error.message
        finally:
            session.close()
            os.write(writer, text.encode())
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        assert "forked" in answer.read()
    os.waitpid(child, 0)
    assert session.run("y:0", {"x:0": 2.0}) == 2.0
    session.close()


def test_the_config_brings_the_passes_to_the_master() -> None:
    def own(graph: Any, ctx: Any) -> None:
        pass

    options = SessionOptions(f"grpc://{ADDRESS}", passes="default without fuse")
    config = _with_passes(options)
    (entry,) = config.graph_options.rewrite_options.custom_optimizers
    assert pipeline_of(config.graph_options) == Pipeline.default().without("fuse")
    assert (
        entry.name == "pipeline" and config.graph_options.rewrite_options.fail_on_optimizer_errors
    )
    unnamed = replace(options, passes=Pipeline.default().then(own))
    with pytest.raises(tfjit.errors.InvalidArgumentError, match="no text names the pass 'own'"):
        GrpcSession(unnamed)
