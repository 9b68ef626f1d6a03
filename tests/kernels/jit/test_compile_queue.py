"""The queue before the compiler processes, with processes that only take notes."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

import pytest

from tfjit.kernels.jit import compile_queue
from tfjit.kernels.jit.compile_queue import CompileQueue


class FakeWorker:
    """A process whose answers and end the test decides on."""

    def __init__(
        self,
        answered: Callable[[FakeWorker, dict[str, object]], None],
        ended: Callable[[FakeWorker, int], None],
    ) -> None:
        self.in_flight: deque[str] = deque()
        self.ready, self.fatal = True, ""
        self.sent: list[str] = []
        self.answered, self.ended = answered, ended

    def send(self, request: dict[str, object]) -> None:
        self.sent.append(str(request["key"]))

    def answer(self) -> None:
        self.answered(self, {"key": self.in_flight[0]})


class Owner:
    """A queue with the keys that it asked for, had answered and lost."""

    def __init__(self) -> None:
        self.settled: set[str] = set()
        self.answers: list[str] = []
        self.losses: list[tuple[list[str], str]] = []
        self.lock = threading.Lock()
        self.queue = CompileQueue(self.lock, self.request, self.take, self.lose)

    def request(self, key: str) -> dict[str, object] | None:
        return None if key in self.settled else {"key": key}

    def take(self, answer: dict[str, object]) -> None:
        assert not self.lock.locked()
        self.answers.append(str(answer["key"]))
        self.settled.add(str(answer["key"]))

    def lose(self, keys: Sequence[str], reason: str) -> None:
        assert not self.lock.locked()
        self.losses.append((list(keys), reason))
        self.settled.update(keys)

    def put(self, *keys: str) -> None:
        with self.lock:
            for key in keys:
                self.queue.put(key)

    @property
    def workers(self) -> list[FakeWorker]:
        return self.queue.workers  # type: ignore[return-value]


@pytest.fixture
def owner(monkeypatch: pytest.MonkeyPatch) -> Owner:
    monkeypatch.setattr("tfjit.kernels.jit.worker.Worker", FakeWorker)
    monkeypatch.setattr(compile_queue, "available_cpus", lambda: 8)
    return Owner()


def test_kernels_for_other_processes_come_last(owner: Owner) -> None:
    owner.put("a", "b", "c")
    with owner.lock:
        for key in ("v", "w"):
            owner.queue.put(key, for_others=True)
    owner.put("d")
    with owner.lock:
        owner.queue.need("w")
        owner.queue.need("d")  # it is in the queue once
    (worker,) = owner.workers
    for _ in range(6):
        worker.answer()
    assert worker.sent == ["a", "b", "c", "d", "w", "v"]


def test_in_order_and_few_in_flight(owner: Owner) -> None:
    owner.put("a", "b", "c", "d")
    (worker,) = owner.workers
    assert worker.sent == ["a", "b"] and owner.queue.busy_workers() == 1
    worker.answer()
    worker.answer()
    assert worker.sent == ["a", "b", "c", "d"] and owner.answers == ["a", "b"]


def test_a_long_queue_has_more_processes(owner: Owner) -> None:
    owner.put(*(str(k) for k in range(12)))
    assert len(owner.workers) == 2  # a quarter of the processors
    assert [worker.sent[0] for worker in owner.workers] == ["0", "2"]


def test_a_waiting_caller_has_more_processes(owner: Owner) -> None:
    with owner.lock:
        owner.queue.want_workers(3)
    owner.put("a", "b", "c", "d")
    assert [worker.sent for worker in owner.workers] == [["a", "d"], ["b"], ["c"]]


def test_settled_kernels_are_left_out(owner: Owner) -> None:
    owner.put("a", "b", "c", "d")
    owner.settled |= {"b", "c"}
    owner.workers[0].answer()
    assert owner.workers[0].sent == ["a", "b", "d"]


def test_the_second_death_over_a_kernel_loses_it(owner: Owner) -> None:
    owner.put("a", "b", "c")
    for _ in range(2):
        (worker,) = owner.workers
        assert worker.sent == ["a", "b"]
        worker.ended(worker, 9)
    assert owner.losses == [(["a"], "the compiler process ended twice over it (exit status 9)")]
    assert owner.workers[0].sent == ["b", "c"]


def test_an_idle_process_may_leave(owner: Owner) -> None:
    owner.put("a")
    for _ in range(3):
        (worker,) = owner.workers
        worker.ended(worker, 0)
    assert not owner.losses and owner.workers[0].sent == ["a"]


@pytest.mark.parametrize(
    "fatal, reason",
    [("no numba", "no numba"), ("", "the compiler process does not start (exit status 1)")],
)
def test_a_process_that_cannot_start_loses_all(owner: Owner, fatal: str, reason: str) -> None:
    owner.put("a", "b", "c", "d")
    (worker,) = owner.workers
    worker.ready, worker.fatal = False, fatal
    worker.ended(worker, 1)
    assert owner.losses == [(["a", "b", "c", "d"], reason)] and not owner.workers


def test_closing(owner: Owner) -> None:
    owner.put("a", "b", "c")
    with owner.lock:
        (worker,) = owner.queue.close()
    worker.ended(worker, 0)  # type: ignore[attr-defined]
    owner.put("d")
    assert not owner.workers and not owner.losses
