"""Every loop of the collection gives TensorFlow's values, by NumPy and compiled, and is compiled as
far as it is said to be.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tests import hardware
from tests.programs.loop_programs import PROGRAMS, Built, Program, Way, built

tf1 = tf.compat.v1
RANKS: dict[Way, int] = {"python": 0, "jumps": 1, "kernel": 2}
LOOPS = ("While", "StatelessWhile", "_Loop")


def way_of(session: Any, program: Built) -> Way:
    """How the loops of a compiled plan run: the slowest way of any."""
    plan = session.explain(
        program.fetches, {feed: array.shape for feed, array in program.feeds.items()}
    )
    loops = [node for node in plan.nodes if node.op in LOOPS]
    if not loops or any(node.serving != "native" for node in loops):
        return "python"
    return "kernel" if all(node.op == "_Loop" for node in loops) else "jumps"


def assert_alike(program: Program, found: list[Any], wanted: list[Any]) -> None:
    for one, other in zip(map(np.asarray, found), map(np.asarray, wanted), strict=True):
        assert one.shape == other.shape
        if other.dtype.kind in "SO":
            assert one.astype(object).tolist() == other.astype(object).tolist()
            continue
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, program.rtol, program.atol)


@pytest.mark.parametrize("name", PROGRAMS)
def test_loops(name: str) -> None:
    """In one of the forms, so that about half of the programs are in each."""
    program = PROGRAMS[name]
    form = program.forms[zlib.crc32(name.encode()) % len(program.forms)]
    made = built(program, form == "v2", program.small)
    with tf1.Session(graph=made.graph) as theirs, tfjit.Session(graph=made.graph) as ours:
        for session in (theirs, ours):
            session.run(made.setup)
        assert_alike(
            program, ours.run(made.fetches, made.feeds), theirs.run(made.fetches, made.feeds)
        )
        way = way_of(ours, made)
        assert_alike(
            program, ours.run(made.fetches, made.feeds), theirs.run(made.fetches, made.feeds)
        )
    if not hardware.gpu_count():  # the ways are those of the host
        assert RANKS[way] >= RANKS[program.way[form]], f"{form}: {way}"
