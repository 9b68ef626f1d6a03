"""intra_op_parallelism_threads and inter_op_parallelism_threads are obeyed to the thread: what
fresh processes have started after runs.
"""

from __future__ import annotations

import json
import os

import pytest

from tests.forked_processes import Processes

PROGRAM = """
import collections, json, sys, threading
import numpy as np
import tfjit as tf

intra, inter, sessions = json.loads(sys.argv[1])
with tf.Graph().as_default() as graph:
    x = tf.placeholder(tf.float32, [None, 512], name="x")
    w = tf.constant(np.full((512, 512), 0.01, np.float32))
    branches = [tf.matmul(tf.tanh(x * float(i + 1)), w) for i in range(4)]
    picked = tf.reshape(tf.where(tf.greater(branches[0], 0.0)), [-1])  # of unknown shape: the dataflow executor
    whole = tf.add_n(branches)
config = tf.ConfigProto(
    intra_op_parallelism_threads=intra, inter_op_parallelism_threads=inter, use_per_session_threads=True, device_count={"CPU": 2}
)
for _ in range(sessions):
    with tf.Session(graph=graph, config=config) as session:
        for _ in range(3):
            session.run([whole], {x: np.ones((1024, 512), np.float32)})
            session.run([whole, picked], {x: np.ones((256, 512), np.float32)})
        names = [t.name.rstrip("0123456789").rstrip("-") for t in threading.enumerate()]
print(json.dumps(collections.Counter(names)))
"""


def started(library: Processes, intra: int, inter: int, sessions: int = 1) -> dict[str, int]:
    """Threads by name after a process's runs, its last session still open."""
    done = library.run(
        "-c", PROGRAM, json.dumps([intra, inter, sessions]), env={"TFJIT_JIT": "eager"}, timeout=240
    )
    assert done.returncode == 0, done.stderr
    counts: dict[str, int] = json.loads(done.stdout)
    return counts


@pytest.mark.parametrize(("intra", "inter"), [(1, 1), (1, 3), (2, 1), (2, -1), (8, 2)])
def test_no_thread_too_many(intra: int, inter: int, library: Processes) -> None:
    cores = len(os.sched_getaffinity(0))
    counts = started(library, intra, inter)
    # Independent parts share inter-op threads where intra-op is one. The caller is the first.
    sharing = intra if intra > 1 else max(inter, 1)
    assert counts.get("tfjit-intraop", 0) == min(sharing, cores) - 1
    assert counts.get("tfjit-inter-op", 0) <= max(inter, 0)
    if inter < 0:
        assert "tfjit-inter-op" not in counts


def test_sessions_share_the_intra_op_threads(library: Processes) -> None:
    cores = len(os.sched_getaffinity(0))
    assert started(library, 2, 1, sessions=3).get("tfjit-intraop", 0) == min(2, cores) - 1
