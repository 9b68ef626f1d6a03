"""Supervisors beside TensorFlow's: sessions, services, threads, files."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow
from tensorflow.python.eager import context

import tfjit
from tests.client.monitored.programs import files, model, on_both

tf1 = tensorflow.compat.v1
FED = np.zeros(2, np.float32)


@pytest.fixture(autouse=True)
def _threads_of_tensorflow_build_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorFlow's services read the global step in graph mode alone."""
    monkeypatch.setattr(context, "default_execution_mode", context.GRAPH_MODE)


def events_of(folder: Path) -> Iterator[Any]:
    """Yield the events of a folder."""
    for path in sorted(folder.glob("events*")):
        yield from tf1.train.summary_iterator(str(path))


def kinds(folder: Path) -> set[Any]:
    """Return the kinds of events in a folder: tags, states of sessions, graphs."""
    found: set[Any] = set()
    for event in events_of(folder):
        kind = event.WhichOneof("what")
        if kind == "summary":
            found.update(("summary", value.tag) for value in event.summary.value)
        elif kind == "session_log":
            found.add((kind, event.session_log.status))
        else:
            found.add(kind)
    return found


def wait_for(folder: Path, wanted: set[Any]) -> None:
    until_s = time.monotonic() + 60
    while not wanted <= kinds(folder):
        assert time.monotonic() < until_s, kinds(folder)
        time.sleep(0.02)


def test_a_managed_session_has_all_services(tmp_path: Path) -> None:
    checkpoint, start, stop = (("session_log", state) for state in (3, 1, 2))
    rate, summary = ("summary", "global_step/sec"), ("summary", "the_loss")

    def program(m: Any, noted: list[Any]) -> None:
        folder = tmp_path / m.__name__
        loss, train, x = model(m)
        m.summary.scalar("the_loss", m.constant(2.0))
        supervisor = m.train.Supervisor(
            logdir=str(folder), save_summaries_secs=0.05, save_model_secs=0.05
        )
        with supervisor.managed_session() as session:
            noted.append(session.graph.finalized)
            supervisor.loop(0.02, supervisor.summary_writer.flush)
            for _ in range(3):
                noted.append((supervisor.should_stop(), session.run(loss, {x: FED})))
                session.run(train, {x: FED})
            wait_for(folder, {rate, summary, checkpoint})
        noted.append(supervisor.should_stop())
        noted.append(kinds(folder))
        named = {name.split("-")[0] for name in files(folder)}
        noted.append((named, supervisor.save_path == str(folder / "model.ckpt")))

    noted = on_both(program)
    assert noted[-3] >= {rate, summary, checkpoint, start, stop, "graph_def", "meta_graph_def"}


def test_a_second_session_continues_from_the_checkpoint(tmp_path: Path) -> None:
    def program(m: Any, noted: list[Any]) -> None:
        folder = str(tmp_path / m.__name__)
        for _ in range(2):
            with m.Graph().as_default():
                loss, train, x = model(m)
                supervisor = m.train.Supervisor(logdir=folder, save_model_secs=0)
                with supervisor.managed_session() as session:
                    step = m.train.global_step(session, supervisor.global_step)
                    noted.append((step, session.run(loss, {x: FED})))
                    session.run(train, {x: FED})
                    supervisor.saver.save(session, supervisor.save_path, global_step=step + 1)

    noted = on_both(program)
    assert [step for step, _ in noted[:2]] == [0, 1]


def test_errors_of_the_block_and_of_threads_are_raised(tmp_path: Path) -> None:
    noted = on_both(lambda m, noted: _errors(m, noted, tmp_path))
    assert noted == ["in the block", True, "in a thread", None]


def _errors(m: Any, noted: list[Any], folder: Path) -> None:
    model(m)
    supervisor = m.train.Supervisor(logdir=str(folder / m.__name__))

    def fail() -> None:
        raise ValueError("in a thread")

    def managed(work: Any) -> None:
        try:
            with supervisor.managed_session():
                work()
        except ValueError as raised:
            noted.append(str(raised))

    def raise_in_block() -> None:
        raise ValueError("in the block")

    def fail_in_a_thread() -> None:
        supervisor.loop(0.01, fail)
        supervisor.wait_for_stop()
        noted.append(supervisor.should_stop())

    def end_the_input() -> None:
        raise m.errors.OutOfRangeError(None, None, "the end")

    for work in (raise_in_block, fail_in_a_thread, end_the_input):
        managed(work)


def test_queue_runners_run_in_the_session() -> None:
    def program(m: Any, noted: list[Any]) -> None:
        queue = m.FIFOQueue(3, [m.float32], [[]])
        m.train.add_queue_runner(m.train.QueueRunner(queue, [queue.enqueue(2.0)]))
        got = queue.dequeue()
        supervisor = m.train.Supervisor()
        with supervisor.managed_session() as session:
            noted.append([float(session.run(got)) for _ in range(5)])
        noted.append(supervisor.should_stop())
        noted.append((supervisor.saver, supervisor.save_path, supervisor.summary_writer))

    on_both(program)


def test_a_worker_waits_for_the_chief() -> None:
    def program(m: Any, noted: list[Any]) -> None:
        server = m.train.Server.create_local_server()
        with m.device("/cpu:0"):
            v = m.get_variable("waits", initializer=3.0, use_resource=False)
        chief = m.train.Supervisor(is_chief=True, recovery_wait_secs=1)
        graph = m.get_default_graph()
        with chief.managed_session(server.target):
            other = m.train.Supervisor(graph, is_chief=False, recovery_wait_secs=1)
            with other.managed_session(server.target) as session:
                noted.append(float(session.run(v)))
            noted.append((other.is_chief, other.save_summaries_secs, other.save_model_secs))
        if m is tfjit:
            server.stop()

    on_both(program)


def test_arguments(tmp_path: Path) -> None:
    def program(m: Any, noted: list[Any]) -> None:
        model(m, resource=False)
        supervisor = m.train.Supervisor(
            ready_op=None, summary_op=None, saver=None, init_op=None, global_step=None
        )
        noted.append(
            (
                supervisor.ready_op,
                supervisor.summary_op,
                supervisor.saver,
                supervisor.init_op,
                supervisor.global_step,
                supervisor.USE_DEFAULT,
                supervisor.ready_for_local_init_op,
                supervisor.init_feed_dict,
            )
        )
        empty = m.Graph()
        for call in (
            lambda: supervisor.summary_computed(None, b""),
            lambda: m.train.Supervisor(is_chief=False),
            lambda: m.train.Supervisor(graph=empty, is_chief=False).start_standard_services(None),
        ):
            try:
                call()
            except (RuntimeError, ValueError) as error:
                noted.append((type(error).__name__, str(error).split("set:")[0]))
        noted.append(supervisor.start_standard_services(None))

    noted = on_both(program)
    assert len(noted) == 6


def test_the_names_before_tensorflow_1() -> None:
    for name in vars(tf1.train.Supervisor):
        assert name.startswith("_") or hasattr(tfjit.train.Supervisor, name), name
