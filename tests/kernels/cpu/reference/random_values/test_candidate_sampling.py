"""Candidate samplers against TensorFlow's: the same candidates, over several runs of one node."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.kernels.kernel_cases import Case, Oracle, differences, ours
from tfjit.kernels.registry import NodeSpec, find_initial_state

pytest.importorskip("tensorflow")

TRUE = np.array([[0, 3], [17, 3]])


def _state(case: Case) -> np.ndarray:
    make = find_initial_state(case.op)
    assert make is not None
    return make(NodeSpec("node", case.op, case.node()[0], (), ()))


def _samplers(vocabulary: str) -> Iterator[Case]:
    for seed in ((1, 2), (2**31 - 1, 7), (0, 5)):
        seeds = {"seed": seed[0], "seed2": seed[1], "num_true": 2}
        for unique in (False, True):
            attrs = {**seeds, "unique": unique}
            for op in ("Uniform", "LogUniform", "LearnedUnigram", "ThreadUnsafeUnigram"):
                for size, count in ((50, 12), (1000, 300), (18, 18 if unique else 400)):
                    yield Case(
                        op + "CandidateSampler",
                        [TRUE],
                        {**attrs, "range_max": size, "num_sampled": count},
                    )
            weights = [0.5, 1, 2, 8, *range(1, 15), 3]
            more: list[dict[str, Any]] = [
                {},
                {"distortion": 0.75},
                {"num_reserved_ids": 2, "range_max": 21},
            ]
            for form in more:
                fixed = {"range_max": 19, "unigrams": weights, "num_sampled": 9, **form}
                yield Case("FixedUnigramCandidateSampler", [TRUE], {**attrs, **fixed})
            fixed = {"range_max": 19, "vocab_file": vocabulary, "num_sampled": 5}
            yield Case("FixedUnigramCandidateSampler", [TRUE], {**attrs, **fixed})


def test_samples_equal_tensorflows(tmp_path: Path) -> None:
    vocabulary = tmp_path / "vocabulary"
    vocabulary.write_text("".join(f"word{k},{k + 1}\n" for k in range(19)))
    cases = list(_samplers(str(vocabulary)))
    oracle = Oracle(cases)
    states = [_state(case) for case in cases]
    wrong = []
    for _ in range(3):
        for i, case in enumerate(cases):
            expected, reason = oracle.run(i, case)
            found, message = ours(case, states[i])
            if expected is None or found is None:
                wrong.append(f"{case}: {reason} {message}")
            elif (found[0] != expected[0]).any():
                wrong.append(f"{case}: {found[0].tolist()} {expected[0].tolist()}")
            elif not all(np.allclose(f, e, 1e-5, 1e-7) for f, e in zip(found[1:], expected[1:])):
                wrong.append(f"{case}: {found[1:]} {expected[1:]}")
    assert not wrong, wrong[:5]


def _others() -> Iterator[Case]:
    yield Case("AllCandidateSampler", [TRUE], {"num_true": 2, "num_sampled": 5, "unique": True})
    shards = {
        "num_true": 2,
        "num_sampled": 5,
        "unique": False,
        "range_max": 19,
        "num_shards": 2,
        "unigrams": [1] * 19,
        "seed": 1,
    }
    yield Case("FixedUnigramCandidateSampler", [TRUE], shards)
    yield Case(
        "AllCandidateSampler", [TRUE[:0]], {"num_true": 2, "num_sampled": 1, "unique": False}
    )
    yield Case("AllCandidateSampler", [TRUE], {"num_true": 2, "num_sampled": 50, "unique": False})
    base = {"num_true": 2, "num_sampled": 5, "unique": True, "range_max": 20}
    for op in (
        "UniformCandidateSampler",
        "LearnedUnigramCandidateSampler",
        "LogUniformCandidateSampler",
    ):
        yield Case(op, [TRUE], {**base, "range_max": 17, "unique": False})
        yield Case(op, [TRUE], {**base, "range_max": 4})
        yield Case(op, [TRUE[0]], base, own_words=True)
        yield Case(op, [TRUE], {**base, "num_true": 1}, own_words=True)
    for candidates in (np.array([3, 1, 17, 17, 0]), np.array([5, 6]), np.zeros(0, np.int64)):
        yield Case("ComputeAccidentalHits", [TRUE, candidates], {"num_true": 2, "seed": 1})
    yield Case("ComputeAccidentalHits", [TRUE, np.array([1])], {"num_true": 1}, own_words=True)
    yield Case("ComputeAccidentalHits", [TRUE, np.array([[1]])], {"num_true": 2}, own_words=True)


def test_equal_tensorflow() -> None:
    assert not differences(list(_others()))


@pytest.mark.parametrize(
    "form",
    [
        {"range_max": 3},
        {"unigrams": []},
        {"vocab_file": "/does/not/exist", "unigrams": []},
        {"vocab_file": "x"},
    ],
)
def test_what_weights_do_not_fit_is_refused(form: dict[str, Any]) -> None:
    attrs = {
        "num_true": 2,
        "num_sampled": 2,
        "unique": False,
        "range_max": 4,
        "unigrams": [1, 2, 3, 4],
        "seed": 1,
        **form,
    }
    found, message = ours(Case("FixedUnigramCandidateSampler", [TRUE[:1]], attrs))
    assert found is None and message
