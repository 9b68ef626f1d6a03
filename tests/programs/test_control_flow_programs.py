"""Random programs of nested loops and conditionals, in both of TensorFlow's forms: values and
errors against TensorFlow's.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, Phase, example, given, settings

import tfjit
from tests.programs.control_flow_programs import (
    FEEDS,
    If,
    Program,
    While,
    blocks,
    fetches_of,
    form,
    placeholders,
)
from tests.programs.surroundings import environment

tf1 = tf.compat.v1

MODES = {
    "compiled": {"TFJIT_JIT": "eager"},
    "lazy, one thread": {"TFJIT_JIT": "lazy", "TFJIT_THREADS": "1"},
    "v1 as it is": {"TFJIT_JIT": "eager", "TFJIT_DISABLE": "functionalize"},
    "reference": {"TFJIT_JIT": "off"},
    "plain": {
        "TFJIT_JIT": "off",
        "TFJIT_DISABLE": "straight_line,functionalize,fuse,simplify,fold_constants,eliminate_common_subexpressions",
    },
}


def expectation(session: Any, fetches: Any, feed: Any) -> Any:
    try:
        return session.run(fetches, feed)
    except tf.errors.OpError as error:
        return error


def modes_of(program: Program) -> list[str]:
    """Return the modes that a program runs in: all for the example, else three of them.

    Which they are follows from the program, so that its failure can be repeated; each pair of modes
    meets programs, since what a program is does not depend on how it runs.
    """
    if program == _NESTED:
        return list(MODES)
    names = list(MODES)
    first = zlib.crc32(repr(program).encode()) % len(names)
    return [names[(first + k) % len(names)] for k in range(3)]


def compare(program: Program, v2: bool, gradients: bool) -> None:
    graph = tf1.Graph()
    with form(v2), graph.as_default():
        start = placeholders()
        fetches = fetches_of(program, start, gradients)
    feeds = [{start[name]: value for name, value in values.items()} for values in FEEDS]
    with tf1.Session(graph=graph) as theirs:
        expected = [expectation(theirs, fetches, feed) for feed in feeds]
    for number, mode in enumerate(modes_of(program)):
        # passes are verified in one mode, as most modes have the same ones
        setting = {**MODES[mode], "TFJIT_VERIFY": "0" if number else "1"}
        with environment(setting), tfjit.Session(graph=graph) as ours:
            for feed, wanted in zip(feeds, expected, strict=True):
                for _ in range(2):
                    if isinstance(wanted, Exception):
                        with pytest.raises(getattr(tfjit.errors, type(wanted).__name__)):
                            ours.run(fetches, feed)
                        continue
                    got = ours.run(fetches, feed)
                    for one, other in zip(got, wanted, strict=True):
                        assert np.asarray(one).dtype == np.asarray(other).dtype
                        np.testing.assert_allclose(
                            one, other, rtol=2e-5, atol=1e-6, err_msg=f"{mode}: {program}"
                        )


# each example compiles a dozen kernels: shrinking would take many minutes
SETTINGS = settings(
    max_examples=5,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],
)
_NESTED = (
    While(
        "3",
        "false",
        (
            "a = a * 3 - b",
            If("a % 2 == 0", ("x = tanh(x)",), (While("b % 4", "false", ("v = v / 2 + x",)),)),
        ),
    ),
)


@pytest.mark.parametrize("v2", [False, True], ids=["v1", "v2"])
@SETTINGS
@example(program=_NESTED)
@given(program=blocks(2))
def test_programs(v2: bool, program: Program) -> None:
    compare(program, v2, gradients=False)


@pytest.mark.parametrize("v2", [False, True], ids=["v1", "v2"])
@SETTINGS
@example(program=_NESTED)
@given(program=blocks(1))
def test_gradients_of_programs(v2: bool, program: Program) -> None:
    compare(program, v2, gradients=True)


def compare_own(program: Program, v2: bool, gradients: bool) -> None:
    """What tfjit builds gives TensorFlow's values, in tfjit and in TensorFlow."""
    runs = []
    exported = b""
    for m in (tf1, tfjit):
        graph = m.Graph()
        with form(v2), graph.as_default():
            start = placeholders(m)
            fetches = fetches_of(program, start, gradients, m)
        exported = graph.as_graph_def().SerializeToString()
        with m.Session(graph=graph) as session:
            runs.append(results(session, fetches))
    names = [fetch.name for fetch in fetches]
    with tf1.Graph().as_default():
        tf1.import_graph_def(tf1.GraphDef.FromString(exported), name="")
        with tf1.Session() as session:
            runs.append(results(session, names))
    for wanted, ours, theirs in zip(*runs, strict=True):
        if isinstance(wanted, Exception):
            assert type(ours).__name__ == type(theirs).__name__ == type(wanted).__name__, program
            continue
        for one, two, other in zip(ours, theirs, wanted, strict=True):
            assert np.asarray(one).dtype == np.asarray(other).dtype
            np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-6, err_msg=str(program))
            np.testing.assert_allclose(two, other, rtol=2e-5, atol=1e-6, err_msg=str(program))


def results(session: Any, fetches: Any) -> list[Any]:
    """What each feed gives: values, or the error."""
    found: list[Any] = []
    for values in FEEDS:
        try:
            found.append(
                session.run(fetches, {f"{name}:0": value for name, value in values.items()})
            )
        except (tf.errors.OpError, tfjit.errors.OpError) as error:
            found.append(error)
    return found


@pytest.mark.parametrize("gradients", [False, True], ids=["values", "gradients"])
@pytest.mark.parametrize("v2", [False, True], ids=["v1", "v2"])
@SETTINGS
@example(program=_NESTED)
@given(program=blocks(1))
def test_programs_of_our_own(v2: bool, gradients: bool, program: Program) -> None:
    compare_own(program, v2, gradients)
