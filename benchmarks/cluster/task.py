"""One process of `python -m benchmarks cluster`: a task of a cluster, or its client.

It reads orders from its input, a line of JSON each, and answers each by a line.
"""

from __future__ import annotations

import functools
import json
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.cluster import graphs

CLIENT: Final = "client"
_FLOAT_BYTES: Final = 4


class Task:
    """The server of a task, and sessions with it.

    library: "tensorflow" or "tfjit". cluster: addresses by job. job: CLIENT has no server, and its
    sessions are with the first worker.
    """

    def __init__(self, library: str, cluster: dict[str, list[str]], job: str, index: int) -> None:
        if library == "tensorflow":
            import tensorflow.compat.v1 as tf

            tf.disable_eager_execution()
        else:
            import tfjit as tf
        self.tf: Any = tf
        self.index = index
        self.target = f"grpc://{cluster['worker'][0]}"
        self.server = None
        if job != CLIENT:
            self.server = tf.train.Server(tf.train.ClusterSpec(cluster), job, index)
            self.target = self.server.target
        self._runs: dict[str, Callable[[], Any]] = {}

    def obey(self, order: dict[str, Any]) -> Any:
        """Return the answer to an order."""
        if order["do"] == "prepare":
            return self.prepare(order["what"], order.get("bytes", 0), order.get("first", True))
        if order["do"] == "time":
            return self.times_s(order["what"], order["count"])
        if order["do"] == "rate":
            return self.steps(order["what"], order["seconds"])
        raise ValueError(f"no order {order['do']}")

    def prepare(self, what: str, size: int, first: bool) -> list[float]:
        """Make the session of a measurement, and return results to compare.

        first: set the variables.
        """
        with self.tf.Graph().as_default() as graph:
            if what in ("replica", "towers"):
                fetches, inputs, initializers = (
                    graphs.replica(self.tf, self.index)
                    if what == "replica"
                    else graphs.towers(self.tf, [f"/job:worker/task:{i}" for i in range(2)])
                )
                session = self.tf.Session(self.target, graph=graph)
                run = self._training(session, fetches, inputs)
                session.run(initializers if first else [])
                self._runs[what] = run
                return [float(run()) for _ in range(5 if first else 1)]
            make = getattr(graphs, what)
            made = make(self.tf, size // _FLOAT_BYTES) if size else make(self.tf)
            fetch, feeds, initializers = made
            session = self.tf.Session(self.target, graph=graph)
            session.run(initializers)
            self._runs[_key(what, size)] = functools.partial(session.run, fetch, feeds)
            value = session.run(fetch, feeds)
            return [float(np.min(value)), float(np.max(value)), float(np.size(value))]

    @staticmethod
    def _training(session: Any, fetches: Any, inputs: Any) -> Callable[[], Any]:
        data = np.load(_digits())
        images, labels = data["train_images"], data["train_labels"]
        at = 0

        def run() -> Any:
            nonlocal at
            part = slice(at, at + graphs.BATCH)
            at = (at + graphs.BATCH) % (len(images) - graphs.BATCH)
            feeds = {inputs[0]: images[part], inputs[1]: labels[part]}
            return session.run(fetches, feeds)[0]

        return run

    def times_s(self, key: str, count: int) -> list[float]:
        """Return the seconds of each of some steps."""
        run = self._runs[key]
        found = []
        for _ in range(count):
            began_s = time.perf_counter()
            run()
            found.append(time.perf_counter() - began_s)
        return found

    def steps(self, key: str, seconds: float) -> tuple[int, float]:
        """Return (steps, their seconds) of as many steps as the time allows."""
        run = self._runs[key]
        count, began_s = 0, time.perf_counter()
        while (elapsed_s := time.perf_counter() - began_s) < seconds:
            run()
            count += 1
        return count, elapsed_s


def _key(what: str, size: int) -> str:
    return f"{what} {size}" if size else what


def _digits() -> Path:
    import tfjit

    return Path(tfjit.__file__).parent / "demo" / "digits.npz"


def main(argv: list[str]) -> int:
    """Serve until the input ends."""
    library, cluster, job, index = argv
    task = Task(library, json.loads(cluster), job, int(index))
    print(json.dumps({"answer": "ready"}), flush=True)
    for line in sys.stdin:
        try:
            answer = {"answer": task.obey(json.loads(line))}
        except Exception:  # the parent says which candidate failed at what
            answer = {"error": traceback.format_exc()}
        print(json.dumps(answer), flush=True)
    return 0


if __name__ == "__main__":
    import os

    _status = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(_status)  # TensorFlow's servers have no end
