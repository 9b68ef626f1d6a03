"""Train on a cluster whose client, master or worker is killed at random moments.

`python -m tests.distributed.kills [role ...] [--kills 50] [--seed 0] [--kinds tfjit tfjit]` prints
the figures of a run. Task 0 is the master, which computes; task 1, the worker, has the variables.
A call may fail by UnavailableError or AbortedError only, and has to return within its time limit.
Training goes on from the last checkpoint and must end at the loss of an undisturbed run.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, get_args

import numpy as np

import tfjit
from tests.distributed.digits import batch, imported, undisturbed
from tests.distributed.task_processes import Kind, TaskProcess, tasks

Role = Literal["client", "master", "worker"]

LIMIT_S: Final = 60.0
"""The time limit of a call."""
GC_S: Final = 5
"""The seconds after which the session of a killed client is closed."""
_SAVE_EVERY: Final = 5
_RIGHT: Final = (tfjit.errors.UnavailableError, tfjit.errors.AbortedError)
_LATE_S: Final = 20.0


@dataclass
class Training:
    """A training and its record.

    steps: the number of steps; None until `end` sets it. losses: by step. errors: how often each class was raised. slowest_s: the longest call that
    failed.
    """

    target: str
    folder: str
    steps: int | None
    losses: dict[int, float] = field(default_factory=dict)
    errors: Counter[str] = field(default_factory=Counter)
    texts: Counter[str] = field(default_factory=Counter)
    slowest_s: float = 0.0
    calls: int = 0
    done: int = 0
    moved: threading.Condition = field(default_factory=threading.Condition)

    def run(self) -> None:
        """Train until the last step, in new sessions after errors."""
        config = tfjit.ConfigProto(operation_timeout_in_ms=int(LIMIT_S * 1000))
        graph, saver = imported(tfjit)
        while True:
            try:
                with self._call(
                    lambda: tfjit.Session(self.target, graph=graph, config=config)
                ) as s:
                    self._train(s, saver)
                return
            except _RIGHT as error:
                self.errors[type(error).__name__] += 1
                self.texts[re.sub(r"[0-9a-f]{16}|\d+", "N", error.message)] += 1

    def _train(self, session: Any, saver: Any) -> None:
        last = tfjit.train.latest_checkpoint(self.folder)
        if last is None:
            self._call(lambda: session.run("init"))
            start = 0
        else:
            self._call(lambda: saver.restore(session, last))
            start = int(last.rpartition("-")[2])
        for step in itertools.count(start):
            if self.steps is not None and step >= self.steps:
                return
            fed = batch(step)
            loss, _ = self._call(lambda fed=fed: session.run(["loss:0", "train"], fed))
            with self.moved:
                self.losses[step] = float(loss)
                self.done += 1
                self.moved.notify_all()
            if (step + 1) % _SAVE_EVERY == 0:
                path = os.path.join(self.folder, "model")
                self._call(
                    lambda path=path, step=step: saver.save(
                        session, path, step + 1, write_meta_graph=False
                    )
                )
                self._call(session.list_devices)

    def _call(self, call: Callable[[], Any]) -> Any:
        start = time.monotonic()
        self.calls += 1
        try:
            return call()
        except BaseException:
            self.slowest_s = max(self.slowest_s, time.monotonic() - start)
            raise
        finally:
            assert time.monotonic() - start < LIMIT_S + _LATE_S, "a call returned after its limit"

    def wait_for_steps(self, count: int) -> None:
        """Wait until that many more steps have been done."""
        with self.moved:
            goal = self.done + count
            assert self.moved.wait_for(lambda: self.done >= goal, 2 * LIMIT_S), "no steps are done"

    def end(self) -> None:
        """Let the training end, soon behind all steps that were done."""
        with self.moved:
            self.steps = max(self.losses) + 10


def footprint(pid: int) -> dict[str, int]:
    """Return the threads, descriptors and kilobytes of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    return {
        "threads": int(re.search(r"Threads:\s+(\d+)", status)[1]),  # type: ignore[index]
        "descriptors": len(os.listdir(f"/proc/{pid}/fd")),
        "kB": int(re.search(r"VmRSS:\s+(\d+)", status)[1]),  # type: ignore[index]
    }


@dataclass
class Outcome:
    """The figures of a run; before and after: footprints of the tasks that were not killed."""

    training: Training
    kills: int
    seconds: float
    before: list[dict[str, int]]
    after: list[dict[str, int]]


def kill_a_task(
    made: Sequence[TaskProcess], role: Role, kills: int, folder: str, rng: random.Random
) -> Outcome:
    """Kill the master or the worker while it trains."""
    victim, others = (made[0], made[1:]) if role == "master" else (made[1], made[:1])
    training = Training(made[0].target, folder, None)
    failed: list[BaseException] = []

    def train() -> None:
        try:
            training.run()
        except BaseException as error:
            failed.append(error)
            raise

    thread = threading.Thread(target=train, daemon=True)
    start = time.monotonic()
    thread.start()
    training.wait_for_steps(6)
    before = [footprint(one.pid) for one in others]
    for _ in range(kills):
        training.wait_for_steps(rng.randint(1, 6))
        time.sleep(rng.uniform(0, 0.01))
        victim.kill()
        time.sleep(rng.choice((0.0, rng.uniform(0, 0.5))))
        victim.start()
        victim.wait_until_ready()
        assert not failed, failed
    training.wait_for_steps(6)
    after = [footprint(one.pid) for one in others]
    training.end()
    thread.join(6 * LIMIT_S)
    assert not thread.is_alive() and not failed, failed
    return Outcome(training, kills, time.monotonic() - start, before, after)


def kill_the_client(
    made: Sequence[TaskProcess], kills: int, folder: str, rng: random.Random
) -> Outcome:
    """Kill processes that train; the last one ends by itself."""
    steps = kills * 20 + 20
    training = Training(made[0].target, folder, steps)
    start = time.monotonic()
    before: list[dict[str, int]] = []
    for kill in range(kills + 1):
        program = [sys.executable, "-m", "tests.distributed.kills", "--train-at", training.target]
        process = subprocess.Popen(
            [*program, "--folder", folder, "--steps", str(steps)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        left = rng.randint(1, 6) if kill < kills else steps
        for line in process.stdout:
            step, loss = line.split()
            training.losses[int(step)] = float(loss)
            left -= 1
            if not left:
                break
        if kill < kills:
            assert not left, "the client has ended"
            before = before or [footprint(one.pid) for one in made]
            time.sleep(rng.uniform(0, 0.02))
            process.kill()
            for line in process.stdout:  # steps whose losses the checkpoint has
                if line.endswith("\n"):
                    step, loss = line.split()
                    training.losses[int(step)] = float(loss)
        process.stdout.close()
        code = process.wait(LIMIT_S)
        assert code == (-9 if kill < kills else 0), code
    after = [footprint(one.pid) for one in made]
    return Outcome(training, kills, time.monotonic() - start, before, after)


class _Printed(dict[int, float]):
    """Losses that are printed when they are known."""

    def __setitem__(self, step: int, loss: float) -> None:
        print(step, repr(loss), flush=True)


@contextmanager
def killed(
    role: Role, kills: int, seed: int = 0, kinds: Sequence[Kind] = ("tfjit", "tfjit")
) -> Iterator[Outcome]:
    """Yield the outcome of a run with kills, while its tasks still run."""
    rng = random.Random(seed)
    variables = {"TFJIT_SESSION_GC_S": str(GC_S)}
    with tempfile.TemporaryDirectory() as folder, tasks(*kinds, variables=variables) as made:
        if role == "client":
            found = kill_the_client(made, kills, folder, rng)
        else:
            found = kill_a_task(made, role, kills, folder, rng)
        steps = found.training.steps
        assert steps is not None
        losses = [found.training.losses[step] for step in range(steps)]
        expected = undisturbed(tfjit, steps)
        np.testing.assert_allclose(losses, expected, rtol=1e-4, atol=1e-5)
        yield found


def main(argv: Sequence[str] | None = None) -> None:
    """Print the figures of runs with kills."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("roles", nargs="*", default=get_args(Role))
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", nargs=2, default=("tfjit", "tfjit"))
    parser.add_argument("--train-at", help="train at this target and print the losses")
    parser.add_argument("--folder")
    parser.add_argument("--steps", type=int)
    options = parser.parse_args(argv)
    if options.train_at:
        Training(options.train_at, options.folder, options.steps, _Printed()).run()
        return
    for role in options.roles:
        with killed(role, options.kills, options.seed, options.kinds) as found:
            training = found.training
            print(f"{role} killed {found.kills} times in {found.seconds:.0f} s")
            print(f"  {training.calls} calls, {dict(training.errors)}")
            print(f"  the slowest failing call took {training.slowest_s:.2f} s")
            print(f"  others before {found.before}\n         after {found.after}")
            for text, count in training.texts.most_common():
                print(f"  {count} x {text}")


if __name__ == "__main__":
    main()
