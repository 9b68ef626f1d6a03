"""Tensors for one call of another task: which go together, and that none waits."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import numpy as np

from tfjit.distributed.worker import tensor_batch
from tfjit.distributed.worker.step_rendezvous import StepRendezvous
from tfjit.distributed.worker.tensor_batch import TensorBatch, one_batch, send_waiting
from tfjit.framework import errors
from tfjit.runtime.host.rendezvous import create_key

HERE, THERE = "/job:w/replica:0/task:0", "/job:w/replica:0/task:1"


def keys(edges: str) -> list[str]:
    """Return keys of tensors of this task."""
    return [create_key(f"{HERE}/device:CPU:0", 1, f"{THERE}/device:CPU:0", e) for e in edges]


class Batch:
    """A batch of a step, and the parts that it has sent."""

    def __init__(self, step: StepRendezvous, edges: str) -> None:
        self.parts: list[Any] = []
        self.give_up = TensorBatch(step, keys(edges), self.done).start()

    def done(self, error: BaseException | None, found: Any) -> None:
        self.parts.append([(i, v) for i, v, _ in found] if error is None else error)


def give(step: StepRendezvous, edges: str) -> None:
    for edge, key in zip(edges, keys(edges)):
        step.give(key, edge)


def test_what_is_there_goes_together_and_the_rest_as_it_comes() -> None:
    step = StepRendezvous(1, HERE)
    give(step, "ca")
    batch = Batch(step, "abcd")
    assert batch.parts == [[(0, "a"), (2, "c")]]
    give(step, "d")
    give(step, "b")
    assert batch.parts[1:] == [[(3, "d")], [(1, "b")]]
    assert step.is_idle


def test_what_a_stage_gives_goes_together() -> None:
    step = StepRendezvous(1, HERE)
    one, other = Batch(step, "abc"), Batch(step, "xy")
    with one_batch():
        give(step, "axb")
        assert not one.parts
        send_waiting()  # before a short stage that runs within the sends of another
        with one_batch():
            assert one.parts == [[(0, "a"), (1, "b")]] and other.parts == [[(0, "x")]]
            give(step, "y")
        assert other.parts[1:] == [[(1, "y")]]
        give(step, "c")
    assert one.parts[1:] == [[(2, "c")]]


def test_a_large_tensor_goes_behind_the_short_ones(monkeypatch: Any) -> None:
    monkeypatch.setattr(tensor_batch, "_LARGE", 16)
    step = StepRendezvous(1, HERE)
    large, short = np.zeros(16, np.uint8), np.zeros(15, np.uint8)
    for key, value in zip(keys("abc"), (large, short, short)):
        step.give(key, value)
    parts = Batch(step, "abc").parts
    assert [[index for index, _ in part] for part in parts] == [[1, 2], [0]]


def test_an_error_is_the_last_part() -> None:
    step = StepRendezvous(1, HERE)
    batch = Batch(step, "abc")
    give(step, "b")
    error = errors.AbortedError(None, None, "over")
    step.abort(error)
    batch.give_up()
    assert batch.parts == [[(1, "b")], error]


def test_a_batch_is_given_up() -> None:
    step = StepRendezvous(1, HERE)
    batch = Batch(step, "abc")
    give(step, "b")
    batch.give_up()
    batch.give_up()
    first, error = batch.parts
    assert first == [(1, "b")] and isinstance(error, errors.CancelledError)
    give(step, "a")  # another call may ask for it
    assert len(batch.parts) == 2 and Batch(step, "a").parts == [[(0, "a")]]
    whole = Batch(step, "x")
    give(step, "x")
    whole.give_up()
    assert whole.parts == [[(0, "x")]]


def test_parts_go_one_at_a_time() -> None:
    step, entered, leave = StepRendezvous(1, HERE), threading.Event(), threading.Event()
    parts: list[Any] = []

    def done(error: BaseException | None, found: Any) -> None:
        parts.append([index for index, _, _ in found])
        entered.set()
        assert leave.wait(60)

    TensorBatch(step, keys("abc"), done).start()
    thread = threading.Thread(target=give, args=(step, "a"))
    thread.start()
    assert entered.wait(60)
    give(step, "b")  # this thread does not wait for the other
    give(step, "c")
    assert parts == [[0]]
    leave.set()
    thread.join(60)
    assert parts == [[0], [1, 2]]


def test_a_batch_that_is_over_keeps_nothing() -> None:
    gc.disable()
    try:
        step = StepRendezvous(1, HERE)
        batch = TensorBatch(step, keys("ab"), lambda *part: None)
        cancel, known = batch.start(), weakref.ref(batch)
        give(step, "ab")
        del batch, cancel
        assert known() is None
    finally:
        gc.enable()
