"""Monitored sessions beside TensorFlow's: the order of hooks, errors, threads, recovery."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import tensorflow

import tfjit
from tests.client.monitored.programs import model, on_both, recording

tf1 = tensorflow.compat.v1


def test_hooks_add_fetches_feeds_and_stop() -> None:
    def program(m: Any, noted: list[Any]) -> Any:
        loss, train, x = model(m)
        step = m.train.get_global_step()
        hooks = [
            recording(m, noted, "a", before_run=m.train.SessionRunArgs(m.constant([1, 2]))),
            recording(m, noted, "b", before_run=m.train.SessionRunArgs(None, {x: [0, 0]})),
            recording(m, noted, "c", stop_after=15),
        ]
        with m.train.MonitoredSession(hooks=hooks) as session:
            while not session.should_stop():
                noted.append(round(float(session.run({"loss": loss, "t": train})["loss"]), 4))
            steps = int(session.run_step_fn(lambda step_context: step_context.session.run(step)))
            with pytest.raises(RuntimeError, match="Run called even after should_stop requested"):
                session.run(loss)
            return steps

    on_both(program)


@pytest.mark.parametrize("kind", ["hooks", "user"])
def test_a_tensor_fed_twice(kind: str) -> None:
    def program(m: Any, noted: list[Any]) -> None:
        loss, _, x = model(m)
        feeds = m.train.FeedFnHook(lambda: {x: [0, 0]})
        with m.train.MonitoredSession(hooks=[feeds, feeds] if kind == "hooks" else [feeds]) as s:
            try:
                s.run(loss, {x: [1, 1]})
            except RuntimeError as error:
                noted.append(str(error).partition(" Conflict")[0])
                raise KeyError("the end") from error

    on_both(program)


@pytest.mark.parametrize("error", ["OutOfRangeError", "StopIteration", "KeyError", "AbortedError"])
@pytest.mark.parametrize("singular", [True, False])
def test_exceptions_in_the_block(error: str, singular: bool) -> None:
    def program(m: Any, noted: list[Any]) -> bool:
        model(m)
        made = m.train.SingularMonitoredSession if singular else m.train.MonitoredSession
        with made(hooks=[recording(m, noted)]) as session:
            if hasattr(m.errors, error):
                raise getattr(m.errors, error)(None, None, "mine")
            raise {"StopIteration": StopIteration, "KeyError": KeyError}[error]("mine")
        return bool(session.should_stop())

    on_both(program)


def test_an_exception_in_a_hook_ends_the_run() -> None:
    def program(m: Any, noted: list[Any]) -> None:
        loss, _, x = model(m)
        hooks = [recording(m, noted), m.train.NanTensorHook(loss), recording(m, noted, "b")]
        with m.train.MonitoredSession(hooks=hooks) as session:
            session.run(loss, {x: [0, 0]})
            session.run(loss, {x: [0, float("nan")]})

    assert on_both(program)[-1] == ("NanLossDuringTrainingError", "NaN loss during training.")


def test_a_lost_server_makes_a_new_session() -> None:
    """The error comes from an after_run, from a begin of a session, from a step function."""

    def program(m: Any, noted: list[Any]) -> Any:
        loss, train, x = model(m)
        failures = {2: m.errors.AbortedError, 4: m.errors.UnavailableError}

        class Fails(m.train.SessionRunHook):  # type: ignore[misc, name-defined]
            runs = sessions = 0

            def after_create_session(self, session: Any, coord: Any) -> None:
                Fails.sessions += 1
                noted.append(("session", Fails.sessions))
                if Fails.sessions == 2:
                    raise m.errors.UnavailableError(None, None, "not yet")

            def after_run(self, run_context: Any, run_values: Any) -> None:
                Fails.runs += 1
                if Fails.runs in failures:
                    raise failures[Fails.runs](None, None, "gone")

        with m.train.MonitoredSession(hooks=[recording(m, noted), Fails()]) as session:
            for _ in range(4):
                noted.append(round(float(session.run([loss, train], {x: [0, 0]})[0]), 4))
            tries = []

            def step(step_context: Any) -> float:
                tries.append(1)
                if len(tries) == 1:
                    raise m.errors.AbortedError(None, None, "gone")
                return round(float(step_context.run_with_hooks(loss, {x: [0, 0]})), 4)

            return session.run_step_fn(step)

    assert on_both(program)[-1] == 5.0  # the variables are as new


def test_a_singular_session_does_not_recover() -> None:
    def program(m: Any, noted: list[Any]) -> None:
        loss, _, x = model(m)
        with m.train.SingularMonitoredSession() as session:
            noted.append(round(float(session.raw_session().run(loss, {x: [0, 0]})), 4))

            def lost(step_context: Any) -> None:
                raise m.errors.UnavailableError(None, None, "gone")

            session.run_step_fn(lost)

    assert on_both(program)[-1] == ("UnavailableError", "gone")


def test_step_functions() -> None:
    def program(m: Any, noted: list[Any]) -> Any:
        loss, _, x = model(m)
        with m.train.MonitoredSession() as session:
            with pytest.raises(ValueError, match="`step_fn` may either have one") as caught:
                session.run_step_fn(lambda other: None)
            noted.append(str(caught.value))

            def stops(step_context: Any) -> None:
                noted.append(
                    round(float(step_context.run_with_hooks(loss, feed_dict={x: [0, 0]})), 4)
                )
                step_context.request_stop()

            session.run_step_fn(stops)

    on_both(program)


def test_queue_runners_end_with_the_session() -> None:
    def program(m: Any, noted: list[Any]) -> Any:
        before = threading.active_count()
        queue = m.FIFOQueue(2, m.int32, shapes=())
        count = m.get_variable("n", initializer=0, use_resource=True)
        enqueue = queue.enqueue(m.assign_add(count, 1))
        m.train.add_queue_runner(m.train.QueueRunner(queue, [enqueue]))
        taken = queue.dequeue()
        with m.train.MonitoredSession() as session:
            for _ in range(4):
                noted.append(int(session.run(taken)))
        return threading.active_count() <= before

    assert on_both(program) == [1, 2, 3, 4, True]


def test_the_error_of_a_thread_is_raised_at_the_end() -> None:
    def program(m: Any, noted: list[Any]) -> None:
        queue = m.FIFOQueue(2, m.int32, shapes=())
        bad = queue.enqueue(m.placeholder(m.int32, (), name="never"))
        m.train.add_queue_runner(m.train.QueueRunner(queue, [bad]))
        taken = queue.dequeue()
        with m.train.MonitoredSession() as session:
            while not session.should_stop():
                session.run(taken)

    (caught,) = on_both_classes(program)
    assert caught == "InvalidArgumentError"


def on_both_classes(program: Callable[[Any, list[Any]], object]) -> set[str]:
    """Return the class of the error that a program raises in both libraries."""
    found = set()
    for m in (tf1, tfjit):
        with m.Graph().as_default(), pytest.raises(m.errors.OpError) as caught:
            program(m, [])
        found.add(type(caught.value).__name__)
    return found


def test_a_closed_session() -> None:
    with tfjit.Graph().as_default():
        loss, _, _ = model(tfjit)
        session = tfjit.train.MonitoredSession()
        session.close()
        assert session.should_stop() and session.graph is None
        with pytest.raises(RuntimeError, match="Session is already closed"):
            session.close()
        with pytest.raises(RuntimeError, match="Attempted to use a closed Session"):
            session.run(loss)


def test_options_of_hooks_reach_the_run() -> None:
    with tfjit.Graph().as_default():
        loss, _, x = model(tfjit)
        seen: list[Any] = []

        class Traces(tfjit.train.SessionRunHook):
            def before_run(self, run_context: Any) -> Any:
                options = tfjit.RunOptions(trace_level=tfjit.RunOptions.FULL_TRACE)
                return tfjit.train.SessionRunArgs(None, options=options)

            def after_run(self, run_context: Any, run_values: Any) -> None:
                seen.append(len(run_values.run_metadata.step_stats.dev_stats))

        with tfjit.train.MonitoredSession(hooks=[Traces()]) as session:
            session.run(loss, {x: [0, 0]})
    assert seen[0] > 0
