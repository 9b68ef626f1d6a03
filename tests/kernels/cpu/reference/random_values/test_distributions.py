"""Gamma, Poisson and binomial values against TensorFlow's, over several runs of one node."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.kernels.kernel_cases import Case, Oracle, differences, ours
from tfjit.framework.types.dtypes import as_dtype
from tfjit.kernels.registry import NodeSpec, find_initial_state

pytest.importorskip("tensorflow")

SEEDS = ({"seed": 1, "seed2": 2}, {"seed": 2**31 - 1, "seed2": 77})
RATES = np.array([0, 0.3, 1, 4.5, 9.99, 10, 37.2, 1000])


def _stateful() -> Iterator[Case]:
    for seeds in SEEDS:
        for kind in (np.float32, np.float64, np.float16):
            alpha = np.array([0.1, 0.7, 1, 1.5, 30]).astype(kind)
            for shape in ((), (3,), (20, 5), (0,)):
                yield Case("RandomGamma", [np.array(shape, np.int32), alpha], seeds, (1e-6, 1e-12))
            yield Case("RandomGamma", [np.array((4,)), alpha.reshape(5, 1)], seeds, (1e-6, 1e-12))
        for kind in (np.int32, np.int64, np.float64):
            for rate in (np.float32, np.float16, np.int32):
                for shape in ((), (0,), (9, 2)):
                    yield Case(
                        "RandomPoissonV2",
                        [np.array(shape, np.int32), RATES.astype(rate)],
                        {**seeds, "dtype": as_dtype(kind)},
                    )
    yield Case("RandomGamma", [np.array([3], np.int32), np.zeros((0, 2), np.float32)], SEEDS[0])


def test_stateful_values_equal_tensorflows() -> None:
    cases = list(_stateful())
    oracle = Oracle(cases)
    wrong = []
    for i, case in enumerate(cases):
        make = find_initial_state(case.op)
        assert make is not None
        state = make(NodeSpec("node", case.op, case.node()[0], (), ()))
        for _ in range(2):
            expected, reason = oracle.run(i, case)
            found, message = ours(case, state)
            if expected is None or found is None:
                wrong.append(f"{case}: {reason} {message}")
            elif found[0].shape != expected[0].shape or not np.allclose(
                found[0], expected[0], *(case.tolerance or (0, 0)), equal_nan=True
            ):
                wrong.append(f"{case}: {found[0].reshape(-1)[:8]} {expected[0].reshape(-1)[:8]}")
    assert not wrong, wrong[:5]


def _stateless() -> Iterator[Case]:
    for seed in (np.array([1, 2]), np.array([-5, 2**40]), np.array([7, 8], np.int32)):
        for kind in (np.float32, np.float64, np.float16):
            alpha = np.array([0.1, 0.7, 1, 1.5, 30]).astype(kind)
            yield Case("StatelessRandomGammaV2", [np.array([7, 5]), seed, alpha], {}, (1e-6, 1e-12))
            yield Case(
                "StatelessRandomGammaV2", [np.array([7, 5]), seed, alpha[3]], {}, (1e-6, 1e-12)
            )
            key, counter = (
                np.array([seed[0]]).astype(np.uint64),
                np.array([3, seed[1]]).astype(np.uint64),
            )
            alg = np.array(1, np.int32)
            yield Case(
                "StatelessRandomGammaV3",
                [np.array([7, 5], np.int32), key, counter, alg, alpha],
                {},
                (1e-6, 1e-12),
            )
            yield Case(
                "StatelessRandomPoisson",
                [np.array([7, 8]), seed, RATES.astype(kind)],
                {"dtype": as_dtype(np.int64)},
            )
            yield Case(
                "StatelessRandomPoisson",
                [np.array([7, 8]), seed, RATES.astype(np.int64)],
                {"dtype": as_dtype(kind)},
            )
            counts, chances = (
                np.array([[0], [3], [20], [1000], [100000]]),
                np.array([0, 0.01, 0.2, 0.5, 0.7, 0.99, 1]),
            )
            attrs = {"dtype": as_dtype(np.int64)}
            yield Case(
                "StatelessRandomBinomial",
                [np.array([6, 5, 7]), seed, counts.astype(np.float64), chances],
                attrs,
            )
            few = counts[:4, 0].astype(kind)
            yield Case(
                "StatelessRandomBinomial",
                [np.array([6, 4]), seed, few, np.array(0.3, kind)],
                {"dtype": as_dtype(kind)},
            )
    seed = np.array([1, 2])
    for shape, alpha in (
        ([2, 3], np.ones(2)),
        ([3], np.ones((2, 3))),
        ([0, 2], np.ones(2)),
        ([2, -1], np.ones(1)),
        ([[2]], np.ones(1)),
    ):
        yield Case("StatelessRandomGammaV2", [np.array(shape), seed, alpha], own_words=True)
        yield Case(
            "StatelessRandomPoisson",
            [np.array(shape), seed, alpha],
            {"dtype": as_dtype(np.int64)},
            own_words=True,
        )
        yield Case(
            "StatelessRandomBinomial",
            [np.array(shape), seed, alpha, alpha],
            {"dtype": as_dtype(np.int64)},
            own_words=True,
        )


def test_stateless_values_equal_tensorflows() -> None:
    assert not differences(list(_stateless()))


def test_nondeterministic_integers_fill_the_shape() -> None:
    for kind in (np.int64, np.int32, np.uint64):
        case = Case("NonDeterministicInts", [np.array([3, 50])], {"dtype": as_dtype(kind)})
        (first,), _ = ours(case)  # type: ignore[misc]
        (second,), _ = ours(case)  # type: ignore[misc]
        assert first.shape == (3, 50) and len(np.unique(first)) > 140 and (first != second).any()
