"""Edit distances, fingerprints and serialized sparse tensors against
TensorFlow.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.kernels.kernel_cases import Case, differences

pytest.importorskip("tensorflow")

RNG = np.random.default_rng(13)
TEXT = np.array([b"a", b"b", b"a"], object)


def _distances() -> Iterator[Case]:
    a, b = np.array([[0, 0], [0, 1], [2, 0]]), np.array([[0, 0], [1, 0], [1, 1]])
    shape = np.array([3, 2])
    for values, truth in (
        (np.array([1, 2, 3]), np.array([1, 2, 2])),
        (TEXT, TEXT[::-1].copy()),
        (np.ones(3), np.arange(3.0)),
    ):
        for normalize in (False, True):
            yield Case(
                "EditDistance", [a, values, shape, b, truth, shape], {"normalize": normalize}
            )
            yield Case(
                "EditDistance", [a, values, shape + 1, b, truth, shape], {"normalize": normalize}
            )
    yield Case("EditDistance", [a[:0], TEXT[:0], shape, b, TEXT, shape])
    yield Case("EditDistance", [a, TEXT, shape[:1], b, TEXT, shape], own_words=True)


def _fingerprints() -> Iterator[Case]:
    method = np.array(b"farmhash64", object)
    for data in (
        np.arange(12, dtype=np.float32).reshape(3, 4),
        np.arange(5),
        TEXT,
        np.stack([TEXT, TEXT]),
        np.arange(200).reshape(2, 10, 10),
    ):
        yield Case("Fingerprint", [data, method])
    yield Case("Fingerprint", [TEXT, np.array(b"md5", object)], own_words=True)
    yield Case("Fingerprint", [np.array(3), method], own_words=True)


def _serialized() -> Iterator[Case]:
    indices = np.array([[0, 0], [1, 1], [2, 0]])
    for values in (
        TEXT,
        np.arange(3.0),
        np.array([1, 2, 3], np.int8),
        np.array([True, False, True]),
    ):
        yield Case("SerializeSparse", [indices, values, np.array([3, 2])])
    yield Case("SerializeSparse", [indices[0], TEXT, np.array([3, 2])])
    yield Case("SerializeSparse", [indices, TEXT[None], np.array([3, 2])])
    yield Case("SerializeSparse", [indices, TEXT, np.array([[3, 2]])])


@pytest.mark.parametrize("cases", [_distances, _fingerprints, _serialized])
def test_equal_tensorflow(cases: Any) -> None:
    assert not differences(list(cases()))
