"""Create and close many sessions against one server, many of them open at once.

`python -m tests.distributed.many_sessions [--sessions 10000] [--open 100] [--tasks 1] [--grpc]`
prints the footprints of client and servers on the way.
"""

from __future__ import annotations

import argparse
import gc
import os
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

import tfjit
from tests.distributed.kills import footprint
from tests.distributed.task_processes import TaskProcess, tasks

_VARIABLES: Final = {"TFJIT_DISABLE": "local_channel,direct_channel"}


def _graph(last_task: int) -> tuple[Any, Any, Any]:
    graph = tfjit.Graph()
    with graph.as_default():
        x = tfjit.placeholder(tfjit.float32, [None], name="x")
        with graph.device("/job:worker/task:0"):
            y = x * 2.0
        with graph.device(f"/job:worker/task:{last_task}"):
            z = tfjit.reduce_sum(y) + 1.0
    return graph, x, z


@dataclass
class Sample:
    """The footprints of the client and the tasks after some sessions."""

    sessions: int
    client: dict[str, int]
    servers: list[dict[str, int]]


def churn(made: Sequence[TaskProcess], sessions: int, at_once: int, samples: int) -> list[Sample]:
    """Open and run sessions, each closed when `at_once` newer ones are open.

    Returns footprints at equal distances, with all but `at_once` sessions closed.
    """
    graph, x, z = _graph(len(made) - 1)
    config = tfjit.ConfigProto(operation_timeout_in_ms=60_000)
    is_open: deque[tfjit.Session] = deque()
    found = []
    for number in range(1, sessions + 1):
        session = tfjit.Session(made[0].target, graph=graph, config=config)
        is_open.append(session)
        assert session.run(z, {x: np.full(3, number, np.float32)}) == 6 * number + 1
        if len(is_open) > at_once:
            oldest = is_open.popleft()
            assert oldest.run(z, {x: [1.0]}) == 3
            oldest.close()
        if number % (sessions // samples) == 0:
            gc.collect()
            servers = [footprint(one.pid) for one in made]
            found.append(Sample(number, footprint(os.getpid()), servers))
    for session in is_open:
        session.close()
    return found


def main(argv: Sequence[str] | None = None) -> None:
    """Print the figures of a run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=10_000)
    parser.add_argument("--open", type=int, default=100)
    parser.add_argument("--tasks", type=int, default=1)
    parser.add_argument("--grpc", action="store_true", help="without the local channel")
    options = parser.parse_args(argv)
    variables = _VARIABLES if options.grpc else {}
    os.environ.update(variables)
    with tasks(*["tfjit"] * options.tasks, variables=variables) as made:
        start = time.monotonic()
        for sample in churn(made, options.sessions, options.open, 10):
            print(sample.sessions, "client", sample.client, "servers", *sample.servers)
        seconds = time.monotonic() - start
        print(f"{options.sessions} sessions, {seconds / options.sessions * 1e3:.2f} ms each")


if __name__ == "__main__":
    main()
