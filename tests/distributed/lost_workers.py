"""Train synchronously on two workers that are killed at random moments.

`python -m tests.distributed.lost_workers [--kills 20] [--seed 0]` prints the figures of a run. The
chief, worker 0, restores its last checkpoint; worker 1 joins the training that waits for it.
"""

from __future__ import annotations

import argparse
import queue
import random
import tempfile
import threading
import time
from collections.abc import Sequence
from typing import Any, Final

from tests.distributed.training_processes import (
    PATIENCE,
    lines,
    reference,
    running_cluster,
)

STEPS_PER_KILL: Final = 60
"""More than the steps between checkpoints, so that the global step grows."""


def train(kills: int, seed: int) -> dict[str, Any]:
    """Kill workers while they train; return the figures.

    Raises AssertionError where the training stands still, or ends at another loss.
    """
    rng = random.Random(seed)
    last = (kills + 1) * STEPS_PER_KILL
    with running_cluster() as cluster, tempfile.TemporaryDirectory() as folder:
        cluster.start_ps()
        arguments = {
            "sync": True,
            "last_step": last,
            "save_checkpoint_steps": 5,
            "save_summaries_steps": None,
            "log_step_count_steps": None,
            "checkpoint_dir": folder,
        }
        late: tuple[dict[str, Any], ...] = ({}, {"max_wait_secs": PATIENCE})
        workers = [cluster.start_worker(task, **arguments, **late[task]) for task in range(2)]
        for worker in workers:
            lines(worker, 3)
        slowest_s, victims = 0.0, [0, 0]
        for _ in range(kills):
            task = rng.randrange(2)
            victims[task] += 1
            time.sleep(rng.uniform(0, 0.05))
            workers[task].kill()
            workers[task].wait(PATIENCE)
            time.sleep(rng.choice((0.0, rng.uniform(0, 1.0))))
            start = time.monotonic()
            workers[task] = cluster.start_worker(task, **arguments, **late[task])
            for one in (workers[task], workers[1 - task]):
                _within_patience(one, rng.randint(1, 10))
            slowest_s = max(slowest_s, time.monotonic() - start)
        ends = [_within_patience(worker, None)[-1] for worker in workers]
    expected = reference(100)[-1]
    for (loss, step), wanted in zip(ends, expected, strict=True):
        assert step >= last - 1 and abs(loss - wanted) < 1e-6, (ends, expected)
    return {"killed": victims, "slowest recovery": slowest_s, "ends": ends}


def _within_patience(worker: Any, count: int | None) -> list[tuple[float, int]]:
    """Return the next losses and steps of a worker; AssertionError after a while."""
    found: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=lambda: found.put(lines(worker, count)), daemon=True).start()
    try:
        got: list[tuple[float, int]] = found.get(timeout=PATIENCE)
    except queue.Empty:
        raise AssertionError("the training stands still") from None
    return got


def main(argv: Sequence[str] | None = None) -> None:
    """Print the figures of a run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    for name, figure in train(options.kills, options.seed).items():
        print(f"{name}: {figure}")


if __name__ == "__main__":
    main()
