"""Nodes whose output sizes depend on values run compiled, with TensorFlow's results."""

from __future__ import annotations

import logging
import time
from typing import Any

import numpy as np
import pytest
import tensorflow

import tfjit
from tests.refused_kernels import refusing
from tfjit.runtime.executor import bounded_node

tf1 = tensorflow.compat.v1
RNG = np.random.default_rng(10)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The address of each kernel that ran."""
    found: list[int] = []
    run = bounded_node._run

    def counted(call: Any, address: int, arrays: Any) -> Any:
        found.append(address)
        return run(call, address, arrays)

    monkeypatch.setattr(bounded_node, "_run", counted)
    return found


def both(op: str, dtype: str, **options: Any) -> Any:
    """Run an op by both libraries; compare outputs and their dtypes."""
    sides = []
    for lib in (tf1, tfjit):
        with lib.Graph().as_default():
            x = lib.placeholder(getattr(lib, dtype), [None])
            more = {k: getattr(lib, v) for k, v in options.items()}
            found = getattr(lib, op)(x, **more)
            fetches = list(found) if isinstance(found, tuple) else [found]
            sides.append((lib.Session(graph=x.graph), x, fetches))

    def compare(value: np.ndarray) -> None:
        wanted, found = (session.run(y, {x: value}) for session, x, y in sides)
        for want, have in zip(wanted, found, strict=True):
            assert want.dtype == have.dtype
            assert have.tobytes() == want.tobytes()
            assert have.shape == want.shape

    compare(np.zeros(3, dtype))
    assert sides[1][0].wait_until_compiled(300)
    return compare


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("place", ["int32", "int64"])
def test_integers(dtype: str, place: str, runs: list[int]) -> None:
    compare = both("unique_with_counts", dtype, out_idx=place)
    for total, distinct in ((0, 1), (1, 1), (100, 3), (3000, 10**6), (6000, 50)):
        compare(RNG.integers(-distinct, distinct, total).astype(dtype))
    assert len(runs) >= 5


def test_floats_keep_the_reference(runs: list[int]) -> None:
    compare = both("unique", "float32")
    compare(np.array([np.nan, 0.0, -0.0, np.nan, 1.0, -0.0, 1.0], np.float32))
    assert not runs


def test_masks(runs: list[int]) -> None:
    compare = both("where", "bool")
    for total in (0, 7, 500):
        compare(RNG.random(total) < 0.3)
    assert runs


def segments(lib: Any) -> tuple[Any, list[Any], list[Any]]:
    """Return a session, placeholders and segment reductions of them."""
    with lib.Graph().as_default() as graph:
        data = lib.placeholder(lib.float32, [None, 3])
        indices = lib.placeholder(lib.int32, [None])
        ids = lib.placeholder(lib.int64, [None])
        kinds = ("segment_sum", "segment_mean", "segment_prod", "segment_max", "segment_min")
        found = [getattr(lib, kind)(data, ids) for kind in kinds]
        for kind in ("sum", "mean", "sqrt_n"):
            found.append(getattr(lib, f"sparse_segment_{kind}")(data, indices, ids))
    return lib.Session(graph=graph), [data, indices, ids], found


def test_segments(runs: list[int]) -> None:
    """The last id gives the number of rows, which changes from run to run."""
    (theirs, x, wanted), (ours, y, found) = segments(tf1), segments(tfjit)

    def compare(ids: list[int], indices: list[int], rows: int = 5) -> None:
        values = [RNG.standard_normal((rows, 3)).astype(np.float32), indices, ids]
        for want, have in zip(wanted, found, strict=True):
            sides = [(theirs, want, x), (ours, have, y)]
            answers: list[Any] = []
            for session, fetch, places in sides:
                try:
                    answers.append(session.run(fetch, dict(zip(places, values, strict=True))))
                except tensorflow.errors.InvalidArgumentError as error:
                    answers.append(error.message.partition("\n")[0])
            if isinstance(answers[0], str):
                assert answers[0] == answers[1]
            else:
                np.testing.assert_allclose(*answers, rtol=1e-6, strict=True)

    compare([0, 0, 1, 3, 3], [4, 0, 0, 2, 1])
    assert ours.wait_until_compiled(300)
    runs.clear()
    for ids in ([0, 0, 1, 3, 3], [2, 2, 2, 2, 9], [0, 0, 0, 0, 0]):
        compare(ids, [1, 1, 4, 0, 2])
    assert len(runs) == 3 * len(found)
    for ids in ([0, 2, 1, 3, 3], [-1, 0, 0, 1, 1], [5, 4, 3, 2, -2]):
        compare(ids, [1, 1, 4, 0, 2])
    compare([0, 0, 1, 1, 1], [0, 0, 5, 0, 0])
    compare([], [], 0)


@pytest.mark.refuses_kernel
def test_a_refused_kernel_is_compiled_in_another_way(runs: list[int]) -> None:
    with refusing(lambda source: source.attempt == 0) as refused:
        compare = both("unique_with_counts", "int32", out_idx="int32")
        deadline = time.monotonic() + 60
        while not runs and time.monotonic() < deadline:
            compare(RNG.integers(-9, 9, 50).astype("int32"))
            time.sleep(0.01)  # the compiler needs the core
    assert refused and runs


def test_few_rows_do_not_hold_the_memory_of_all() -> None:
    long = np.zeros((1000, 2))
    assert bounded_node._cut(long, 900).base is long
    few = bounded_node._cut(long, 3)
    assert few.base is None and few.shape == (3, 2)


def test_a_difference_is_logged(
    runs: list[int], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TFJIT_COMPARE", "1")
    compare = both("unique", "int64")
    with caplog.at_level(logging.WARNING, "tfjit.compare"):
        compare(RNG.integers(0, 9, 40))
        assert not caplog.records
        run = bounded_node._run
        monkeypatch.setattr(bounded_node, "_run", lambda *args: [x + 1 for x in run(*args)])
        compare(RNG.integers(0, 9, 40))
    (record,) = caplog.records
    assert "output 0" in record.getMessage() and "unique.py" in record.getMessage()
