"""Run TensorFlow in its other mode, with oneDNN or without.

A process has one mode, so the other mode has a separate process: `python -m
benchmarks.peers.other_mode` is that process. It times runs itself, so that the way between
processes does not count.
"""

from __future__ import annotations

import atexit
import functools
import os
import pickle
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from benchmarks.candidates import Candidate
from benchmarks.workload import Feeds, Workload


def uses_onednn() -> bool:
    """Return whether TensorFlow in this process uses oneDNN.

    The CPU or TF_ENABLE_ONEDNN_OPTS decides.
    """
    from tensorflow.python.framework import test_util

    return bool(test_util.IsMklEnabled())


def mode_name(onednn: bool) -> str:
    """Return a mode's name for headings."""
    return "oneDNN" if onednn else "plain"


@functools.cache
def _process() -> subprocess.Popen[bytes]:
    """Start the other process, for all workloads: importing TensorFlow takes seconds."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.peers.other_mode"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "TF_ENABLE_ONEDNN_OPTS": "0" if uses_onednn() else "1"},
    )
    atexit.register(process.kill)
    return process


def _ask(*request: Any) -> Any:
    """Have the other process do something. Raises RuntimeError with its error."""
    stdin, stdout = _process().stdin, _process().stdout
    assert stdin is not None and stdout is not None
    pickle.dump(request, stdin)
    stdin.flush()
    failed, value = pickle.load(stdout)
    if failed:
        raise RuntimeError(value)
    return value


class OtherMode(Candidate):
    """Run tf.compat.v1.Session.run in the mode that this process lacks.

    The options are the defaults.
    """

    name = "tf other"

    def prepare(self, graph_def: bytes, threads: int) -> None:
        # functions do not travel: graphs and values are made here
        _ask(
            "prepare",
            replace(self.workload, feeds=dict, build=None, graph_def=None, reference=None),
            graph_def,
            threads,
        )

    def reset(self) -> None:
        _ask("reset")

    def run(self, bound: Feeds) -> Any:
        return _ask("run", bound)

    def outputs(self, result: Any) -> list[Any]:
        return list(result)

    def seconds(self, bound: Sequence[Any], count: int) -> float:
        return float(_ask("seconds", list(bound), count))

    def close(self) -> None:
        _ask("close")


class _Server:
    """Serve the session in the other process, and requests to it."""

    def prepare(self, workload: Workload, graph_def: bytes, threads: int) -> None:
        from benchmarks.peers.tensorflow import Default

        self.candidate = Default.__new__(Default)
        self.candidate.workload = workload
        self.candidate.prepare(graph_def, threads)

    def reset(self) -> None:
        self.candidate.reset()

    def run(self, feeds: Mapping[str, Any]) -> list[Any]:
        return self.candidate.outputs(self.candidate.run(self.candidate.bind(dict(feeds))))

    def close(self) -> None:
        self.candidate.close()

    def seconds(self, sets: Sequence[Feeds], count: int) -> float:
        return self.candidate.seconds([self.candidate.bind(feeds) for feeds in sets], count)


def main() -> None:
    """Serve requests (name, arguments...) from stdin until it ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # TensorFlow's prints must not mix with the answers
    server = _Server()
    while True:
        try:
            name, *arguments = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            answer = (False, getattr(server, name)(*arguments))
        except Exception as error:  # reported beside the row, by the process that asked
            answer = (True, f"{type(error).__name__}: {error}")
        pickle.dump(answer, answers)
        answers.flush()


if __name__ == "__main__":
    main()
