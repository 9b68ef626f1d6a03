"""SessionFactory: which factory serves a target, what the registry says, and sessions made by a
third party.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import tfjit
from tfjit.runtime.factory import (
    SessionFactory,
    SessionOptions,
    new_session,
    reset,
    try_new_session,
)
from tfjit.runtime.session.direct_session import DirectSession
from tfjit.runtime.session.direct_session_factory import DirectSessionFactory
from tfjit.runtime.session_interface import SessionInterface


class TraceSession(SessionInterface):
    """Another implementation: it notes what it is asked and lets a direct session answer."""

    def __init__(self, options: SessionOptions, log: list[str]) -> None:
        self.inner, self.log = DirectSession(SessionOptions(config=options.config)), log

    def create(self, graph_def: Any) -> None:
        self.log.append("create")
        self.inner.create(graph_def)

    def extend(self, graph_def: Any) -> None:
        self.log.append(f"extend {[node.name for node in graph_def.node]}")
        self.inner.extend(graph_def)

    def run(
        self,
        feeds: Sequence[tuple[str, Any]],
        fetches: Sequence[str],
        targets: Sequence[str],
        options: Any = None,
        metadata: Any = None,
    ) -> list[Any]:
        self.log.append(f"run {[name for name, _ in feeds]} {list(fetches)} {list(targets)}")
        return self.inner.run(feeds, fetches, targets, options, metadata)

    def list_devices(self) -> list[Any]:
        return self.inner.list_devices()

    def close(self) -> None:
        self.log.append("close")
        self.inner.close()

    def destroy(self) -> None:
        self.log.append("destroy")
        self.inner.destroy()


class TraceFactory(SessionFactory):
    """Serves trace://."""

    log: list[str] = []  # noqa: RUF012

    def accepts_options(self, options: SessionOptions) -> bool:
        return options.target.startswith("trace://")

    def make_session(self, options: SessionOptions) -> SessionInterface | None:
        return None if options.target == "trace://nothing" else TraceSession(options, self.log)


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, SessionFactory]]:
    """The registry, with what the test registers taken out afterwards."""
    SessionFactory.get_factory(SessionOptions())
    factories = dict(SessionFactory._factories)
    monkeypatch.setattr(SessionFactory, "_factories", factories)
    yield factories


def names_in(text: str, introduction: str) -> set[str]:
    """The names in the braces after `introduction`: their order is that of a hash map."""
    return set(text.split(introduction + "{", 1)[1].split("}", 1)[0].split(", "))


def test_the_direct_factory_serves_the_empty_target(registry: dict[str, SessionFactory]) -> None:
    assert isinstance(SessionFactory.get_factory(SessionOptions(target="")), DirectSessionFactory)
    session = new_session(SessionOptions())
    assert isinstance(session, DirectSession)
    session.close()
    session.destroy()


@pytest.mark.parametrize("target", ["local", "foo://bar", "grpc:localhost", " "])
def test_nobody_serves_other_targets(registry: dict[str, SessionFactory], target: str) -> None:
    config = tfjit.ConfigProto(intra_op_parallelism_threads=3)
    with pytest.raises(tfjit.errors.NotFoundError) as caught:
        new_session(SessionOptions(target=target, config=config))
    text = caught.value.message
    assert text.startswith(
        f'No session factory registered for the given session options: {{target: "{target}" '
        "config: "
    )
    assert "intra_op_parallelism_threads: 3} Registered factories are {" in text
    assert text.endswith("}.")
    assert names_in(text, "Registered factories are ") == set(registry)
    with pytest.raises(tfjit.errors.NotFoundError, match="No session factory registered"):
        tfjit.Session(target, graph=tfjit.Graph())


@pytest.mark.parametrize("make", [tfjit.Session, tfjit.InteractiveSession, tfjit.Session.reset])
def test_targets_of_clusters_have_a_factory(
    registry: dict[str, SessionFactory], make: Callable[[str], object]
) -> None:
    assert set(registry) == {"GRPC_SESSION", "DIRECT_SESSION"}
    with pytest.raises(tfjit.errors.InvalidArgumentError, match="as a host-port pair"):
        make("grpc://")


def test_a_name_is_registered_once(
    registry: dict[str, SessionFactory], caplog: pytest.LogCaptureFixture
) -> None:
    first = registry["DIRECT_SESSION"]
    with caplog.at_level(logging.ERROR):
        SessionFactory.register("DIRECT_SESSION", TraceFactory())
    assert "Two session factories are being registered underDIRECT_SESSION" in caplog.text
    assert SessionFactory._factories["DIRECT_SESSION"] is first


def test_two_that_accept_are_an_error(registry: dict[str, SessionFactory]) -> None:
    SessionFactory.register("TRACE", TraceFactory())
    SessionFactory.register("OTHER_TRACE", TraceFactory())
    with pytest.raises(tfjit.errors.InternalError) as caught:
        new_session(SessionOptions(target="trace://x"))
    text = caught.value.message
    assert text.startswith(
        'Multiple session factories registered for the given session options: {target: "trace://x" '
        "config: "
    )
    assert names_in(text, "Candidate factories are ") == {"TRACE", "OTHER_TRACE"}
    assert names_in(text, "Registered factories are ") >= {"TRACE", "OTHER_TRACE", "DIRECT_SESSION"}


def test_a_third_party_session_behind_the_client(
    registry: dict[str, SessionFactory], monkeypatch: pytest.MonkeyPatch
) -> None:
    log: list[str] = []
    monkeypatch.setattr(TraceFactory, "log", log)
    SessionFactory.register("TRACE", TraceFactory())
    graph = tfjit.Graph()
    with graph.as_default():
        x = tfjit.placeholder(tfjit.float32, [2], name="x")
        y = tfjit.add(x, 1.0, name="y")
    with tfjit.Session("trace://here", graph=graph) as session:
        assert log == []  # the graph is sent with the first run
        np.testing.assert_array_equal(session.run(y, {x: [1, 2]}), [2, 3])
        np.testing.assert_array_equal(session.run(y, {x: [3, 4]}), [4, 5])
        with graph.as_default():
            z = tfjit.multiply(y, 2.0, name="z")
        assert session.run([z, y.op], {x: [1, 2]})[1] is None
        np.testing.assert_array_equal(session.make_callable(z, [x])(np.ones(2, "f4")), [4, 4])
        assert session.list_devices()[0].device_type == "CPU"
        with pytest.raises(
            tfjit.errors.UnimplementedError, match="TraceSession does not support partial runs"
        ):
            session.partial_run_setup(y, [x])
        with pytest.raises(
            tfjit.errors.UnimplementedError, match="TraceSession does not explain its plans"
        ):
            session.explain(y)
    assert [entry for entry in log if entry.startswith("extend")] == [
        "extend ['x', 'y/y', 'y']",
        "extend ['z/y', 'z']",
    ]
    assert log[1:3] == ["run ['x:0'] ['y:0'] []"] * 2
    assert "run ['x:0'] ['z:0'] ['y']" in log
    assert log[-2:] == ["close", "destroy"]


def test_both_forms_of_making_a_session(registry: dict[str, SessionFactory]) -> None:
    SessionFactory.register("TRACE", TraceFactory())
    status, session = try_new_session(SessionOptions(target="trace://x"))
    assert status is None
    assert isinstance(session, TraceSession)
    status, session = try_new_session(SessionOptions(target="foo://bar"))
    assert isinstance(status, tfjit.errors.NotFoundError)
    assert session is None
    status, session = try_new_session(SessionOptions(target="trace://nothing"))
    assert isinstance(status, tfjit.errors.InternalError)
    assert status.message == "Failed to create session."
    with pytest.raises(tfjit.errors.InternalError, match=r"Failed to create session\."):
        new_session(SessionOptions(target="trace://nothing"))
    # the client shows the failure at once and leaves nothing to close
    with pytest.raises(tfjit.errors.InternalError, match=r"Failed to create session\."):
        tfjit.Session("trace://nothing", graph=tfjit.Graph())


def test_failures_are_logged(
    registry: dict[str, SessionFactory], caplog: pytest.LogCaptureFixture
) -> None:
    """In TensorFlow's words, whichever form was called."""
    SessionFactory.register("TRACE", TraceFactory())
    negative = tfjit.ConfigProto()
    negative.experimental.session_metadata.version = -1
    for options, text in (
        (
            SessionOptions(target="foo://bar"),
            "Failed to get session factory: NOT_FOUND: No session factory registered",
        ),
        (
            SessionOptions(target="trace://nothing"),
            "Failed to create session: INTERNAL: Failed to create session.",
        ),
        (
            SessionOptions(config=negative),
            "Failed to create session: INVALID_ARGUMENT: Session version shouldn't be negative",
        ),
    ):
        caplog.clear()
        status, _ = try_new_session(options)
        assert status is not None
        with pytest.raises(type(status)):
            new_session(options)
        records = [record for record in caplog.records if record.levelno == logging.ERROR]
        assert [record.getMessage().startswith(text) for record in records] == [True, True], (
            caplog.text
        )
    caplog.clear()
    new_session(SessionOptions()).close()
    assert not caplog.records


def test_a_negative_session_version_is_refused() -> None:
    config = tfjit.ConfigProto()
    config.experimental.session_metadata.name = "model"
    config.experimental.session_metadata.version = -1
    status, session = try_new_session(SessionOptions(config=config))
    assert session is None
    assert isinstance(status, tfjit.errors.InvalidArgumentError)
    assert status.message.startswith("Session version shouldn't be negative: ")
    assert "model" in status.message


def test_reset(registry: dict[str, SessionFactory]) -> None:
    SessionFactory.register("TRACE", TraceFactory())
    with pytest.raises(tfjit.errors.UnimplementedError):
        reset(SessionOptions(target="trace://x"), ["c"])
    with pytest.raises(tfjit.errors.NotFoundError):
        tfjit.Session.reset("foo://bar")


def ways_to_run(
    session: tfjit.Session, function: Callable[..., Any], x: Any, y: Any
) -> list[Callable[[], Any]]:
    return [
        lambda: session.run(y, {x: [1, 2]}),
        lambda: session.run([y], {x: [1, 2]}),
        lambda: session.run(y, {x: [1, 2]}, tfjit.RunOptions()),
        lambda: function([1, 2]),
        lambda: session.partial_run_setup(y, [x]),
        session.list_devices,
    ]


@pytest.mark.parametrize("containers", [["c"], [], None])
def test_reset_closes_every_direct_session(containers: list[str] | None) -> None:
    sessions = []
    for _ in range(2):
        graph = tfjit.Graph()
        with graph.as_default():
            x = tfjit.placeholder(tfjit.float32, [2], name="x")
            y = tfjit.add(x, 1.0, name="y")
        session = tfjit.Session(graph=graph)
        session.run(y, {x: [1, 2]})
        sessions.append((session, session.make_callable(y, [x]), x, y))
    tfjit.Session.reset("", containers)
    for session, function, x, y in sessions:
        for call in ways_to_run(session, function, x, y):
            with pytest.raises(tfjit.errors.CancelledError, match=r"Session has been closed\."):
                call()
        session.close()
    with tfjit.Session(graph=graph) as fresh:
        np.testing.assert_array_equal(fresh.run(y, {x: [1, 2]}), [2, 3])
