"""Losses and decoders of connectionist temporal classification against TensorFlow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.kernels.kernel_cases import Case, differences

pytest.importorskip("tensorflow")

RNG = np.random.default_rng(13)


def _greedy() -> Iterator[Case]:
    for kind in (np.float32, np.float64):
        logits = RNG.standard_normal((9, 3, 4)).astype(kind)
        logits[2] = logits[1]
        for merge in (False, True):
            for blank in (-1, 0, 2):
                attrs = {"merge_repeated": merge, "blank_index": blank}
                yield Case(
                    "CTCGreedyDecoder", [logits, np.array([9, 4, 0], np.int32)], attrs, (1e-5, 1e-5)
                )
    for lengths in ([10, 1, 1], [1, 1], [[1, 1, 1]]):
        yield Case("CTCGreedyDecoder", [logits, np.array(lengths, np.int32)], own_words=True)


def _beams() -> Iterator[Case]:
    logits = RNG.standard_normal((12, 3, 5)).astype(np.float32) * 2
    for kind in (np.float32, np.float64):
        for width, paths, merge in ((1, 1, True), (4, 2, False), (30, 5, True), (7, 7, False)):
            attrs = {"beam_width": width, "top_paths": paths, "merge_repeated": merge}
            lengths = np.array([12, 7, 3], np.int32)
            yield Case("CTCBeamSearchDecoder", [logits.astype(kind), lengths], attrs, (1e-5, 1e-5))
    attrs = {"beam_width": 2, "top_paths": 3}
    yield Case("CTCBeamSearchDecoder", [logits, lengths], attrs, own_words=True)
    attrs = {"beam_width": 9, "top_paths": 3}
    yield Case("CTCBeamSearchDecoder", [logits, lengths * 0], attrs)
    yield Case("CTCBeamSearchDecoder", [logits, lengths * 2], attrs)
    yield Case("CTCBeamSearchDecoder", [logits[:0], lengths * 0], attrs)


def _losses() -> Iterator[Case]:
    logits = RNG.standard_normal((9, 3, 6)).astype(np.float32) * 3
    places = np.array([[0, 0], [0, 1], [0, 2], [1, 0], [2, 0], [2, 1], [2, 2], [2, 3]])
    labels = np.array([1, 1, 3, 0, 4, 2, 2, 4], np.int32)
    lengths = np.array([9, 4, 7], np.int32)
    tolerance = (2e-4, 2e-5)
    for collapse in (False, True):
        for merge in (False, True):
            for ignore in (False, True):
                attrs = {
                    "preprocess_collapse_repeated": collapse,
                    "ctc_merge_repeated": merge,
                    "ignore_longer_outputs_than_inputs": ignore,
                }
                for kind in (np.float32, np.float64):
                    given = [logits.astype(kind), places, labels, lengths]
                    yield Case("CTCLoss", given, attrs, tolerance)
                given = [logits, places, labels, np.array([9, 0, 3], np.int32)]
                yield Case("CTCLoss", given, attrs, tolerance)
                given = [logits, places, labels, np.array([9, 1, 4], np.int32)]
                yield Case("CTCLoss", given, attrs, tolerance)
    ended = np.array([1, 5, 5, 0, 4, 2, 2, 4], np.int32)
    impossible = np.where(np.arange(6) == 1, -np.inf, logits).astype(np.float32)
    for values in (ended, np.array([1, 5, 3, 0, 4, 2, 2, 4], np.int32), labels - 1):
        yield Case("CTCLoss", [logits, places, values, lengths], {}, tolerance)
    yield Case("CTCLoss", [impossible, places, labels, lengths], {}, tolerance)
    yield Case("CTCLoss", [logits, places, labels, lengths - 5])
    yield Case("CTCLoss", [logits, places, labels, lengths + 5])
    yield Case("CTCLoss", [logits, places, labels, lengths[:2]], own_words=True)
    yield Case("CTCLoss", [logits, places[::-1].copy(), labels, lengths])
    yield Case("CTCLoss", [logits, places[[0, 0, 1, 2, 3, 4, 5, 6]], labels, lengths])
    yield Case("CTCLoss", [logits, places + [[1, 0]], labels, lengths])
    yield Case("CTCLoss", [logits, places[:3], labels[:3], lengths], {}, tolerance)


@pytest.mark.parametrize("cases", [_greedy, _beams, _losses])
def test_equal_tensorflow(cases: Any) -> None:
    assert not differences(list(cases()))
