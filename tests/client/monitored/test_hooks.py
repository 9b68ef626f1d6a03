"""Hooks one by one, beside TensorFlow's."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import tensorflow

import tfjit
from tests.client.monitored.programs import model, on_both

tf1 = tensorflow.compat.v1


@pytest.mark.parametrize(
    "make",
    [
        lambda m: m.train.StopAtStepHook(),
        lambda m: m.train.StopAtStepHook(num_steps=1, last_step=2),
        lambda m: m.train.LoggingTensorHook(["x"]),
        lambda m: m.train.LoggingTensorHook(["x"], every_n_iter=1, every_n_secs=1),
        lambda m: m.train.LoggingTensorHook(["x"], every_n_iter=0),
        lambda m: m.train.StepCounterHook(every_n_steps=1, every_n_secs=1),
        lambda m: m.train.StepCounterHook(every_n_steps=None),
        lambda m: m.train.SummarySaverHook(save_steps=1),
        lambda m: m.train.SummarySaverHook(
            save_steps=1, scaffold=m.train.Scaffold(), summary_op=m.constant("")
        ),
        lambda m: m.train.SummarySaverHook(scaffold=m.train.Scaffold()),
        lambda m: m.train.SecondOrStepTimer(1, 1),
        lambda m: m.train.CheckpointSaverHook("x", 1, scaffold=m.train.Scaffold(), saver=1),
        lambda m: m.train.CheckpointSaverHook("x"),
        lambda m: m.train.StopAtStepHook(1).begin(),
        lambda m: m.train.StepCounterHook().begin(),
        lambda m: m.train.GlobalStepWaiterHook(1).begin(),
        lambda m: m.train.SummarySaverHook(1, summary_op=m.constant("")).begin(),
        lambda m: m.train.LoggingTensorHook(["nothing"], every_n_iter=1).begin(),
    ],
)
def test_bad_arguments(make: Callable[[Any], Any]) -> None:
    (error,) = on_both(lambda m, noted: make(m))
    assert isinstance(error, tuple)


def test_logged_tensors() -> None:
    lines: dict[Any, list[str]] = {}
    for m in (tf1, tfjit):
        logger, found = logging.getLogger("tensorflow"), []

        class Keep(logging.Handler):
            def emit(self, record: logging.LogRecord, found: list[str] = found) -> None:
                found.append(re.sub(r"[\d.]+ sec", "_ sec", record.getMessage()))

        handler = Keep()
        level = logger.level
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        try:
            with m.Graph().as_default():
                loss, train, x = model(m)
                step = m.train.get_global_step()
                hooks = [
                    m.train.LoggingTensorHook({"b": loss, "a": "x"}, every_n_iter=2),
                    m.train.LoggingTensorHook(["x:0"], every_n_secs=100),
                    m.train.LoggingTensorHook({"step": step}, at_end=True),
                    m.train.LoggingTensorHook(
                        {"s": step}, at_end=True, formatter=lambda v: f"at last = {v['s']}"
                    ),
                    m.train.FeedFnHook(lambda x=x: {x: [0, 0]}),
                ]
                with m.train.MonitoredSession(hooks=hooks) as session:
                    for _ in range(4):
                        session.run(train)
        finally:
            logger.removeHandler(handler)
            logger.setLevel(level)
        lines[m] = [line for line in found if " = " in line and "all_hooks" not in line]
    assert lines[tfjit] == lines[tf1] and len(lines[tfjit]) == 5
    assert lines[tfjit][2] == "a = [0. 0.], b = 2.0479999 (_ sec)"


def test_final_operations() -> None:
    def program(m: Any, noted: list[Any]) -> Any:
        w = m.get_variable("w", initializer=2.0)
        x = m.placeholder(m.float32, ())
        hook = m.train.FinalOpsHook({"p": w * x}, {x: 3.0})
        assert hook.final_ops_values is None
        with m.train.MonitoredSession(hooks=[hook]):
            pass
        return float(hook.final_ops_values["p"])

    assert on_both(program) == [6.0]


def test_final_operations_that_read_input() -> None:
    def program(m: Any, noted: list[Any]) -> None:
        queue = m.FIFOQueue(1, m.int32, shapes=())
        close, taken = queue.close(), queue.dequeue()
        with m.train.SingularMonitoredSession(hooks=[m.train.FinalOpsHook(taken)]) as session:
            session.run(close)

    for m in (tf1, tfjit):
        with m.Graph().as_default(), pytest.raises(m.errors.OutOfRangeError):
            program(m, [])


def test_a_nan_may_stop_the_training_quietly() -> None:
    def program(m: Any, noted: list[Any]) -> Any:
        loss, _, x = model(m)
        hook = m.train.NanTensorHook(loss, fail_on_nan_loss=False)
        with m.train.MonitoredSession(hooks=[hook]) as session:
            session.run(loss, {x: [0, float("nan")]})
            return session.should_stop()

    assert on_both(program) == [True]


def test_a_worker_waits_for_a_global_step() -> None:
    with tfjit.Graph().as_default():
        _, train, x = model(tfjit)
        hook = tfjit.train.GlobalStepWaiterHook(2)
        hook.begin()
        with tfjit.Session() as session:
            session.run(tfjit.global_variables_initializer())
            context = tfjit.train.SessionRunContext(tfjit.train.SessionRunArgs(None), session)
            waiter = threading.Thread(target=hook.before_run, args=(context,))
            waiter.start()
            time.sleep(0.05)
            assert waiter.is_alive()
            for _ in range(2):
                session.run(train, {x: [0, 0]})
            waiter.join(60)
            assert not waiter.is_alive()
            hook.before_run(context)  # at once


def test_a_global_step_that_stands_still_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    with tfjit.Graph().as_default():
        loss, _, x = model(tfjit)
        hook = tfjit.train.StepCounterHook(every_n_steps=None, every_n_secs=1000)
        with tfjit.train.MonitoredSession(hooks=[hook]) as session:
            for _ in range(9):
                session.run(loss, {x: [0, 0]})
    assert sum("global step has not increased" in record.message for record in caplog.records) == 5


@pytest.mark.parametrize("arguments", [{"every_steps": 3}, {"every_secs": 0.02}])
def test_timers(arguments: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1e9]
    monkeypatch.setattr(time, "time", lambda: now[0])

    def program(m: Any, noted: list[Any]) -> None:
        timer = m.train.SecondOrStepTimer(**arguments)
        noted.append(timer.last_triggered_step())
        for step in (0, 0, 1, 2, 3, 5, 7):
            due = timer.should_trigger_for_step(step)
            noted.append(due)
            if due:
                noted.append(timer.update_last_triggered_step(step)[1])
            if "every_secs" in arguments and step == 3:
                now[0] += 0.03
        noted.append(timer.last_triggered_step())
        timer.reset()
        noted.append(timer.should_trigger_for_step(7))

    on_both(program)
