"""The same programs of ragged tensors built with TensorFlow and with tfjit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tests.client.ragged.programs import GROUPS

tf1 = tf.compat.v1
KEYS = [f"{group}: {name}" for group, programs in GROUPS.items() for name in programs]
# TensorFlow runs kernels on constants to find sizes, or notes less of broadcast sizes.
OTHER_STATIC_SHAPES = {
    "elementwise: broadcast",
    "arrays: where",
    "parts: segments",
    "reductions: counts",
    "strings: characters",
    "strings: split",
}


def leaves(structure: Any) -> Iterator[Any]:
    """Yield the fetches of a program, and its other values."""
    if isinstance(structure, (list, tuple)) and not hasattr(structure, "_fields"):
        for item in structure:
            yield from leaves(item)
    else:
        yield structure


def is_fetch(value: Any) -> bool:
    return value is not None and not isinstance(value, (int, str))


def run_all(module: Any) -> dict[str, list[tuple[Any, Any]]]:
    """Build all programs in one graph; return (what was built, its value) by program."""
    with module.Graph().as_default() as graph:
        built = {
            f"{group}: {name}": list(leaves(program(module)))
            for group, programs in GROUPS.items()
            for name, program in programs.items()
        }
        fetches = {key: [x for x in items if is_fetch(x)] for key, items in built.items()}
        with module.Session(graph=graph) as session:
            values = session.run(fetches)
    found = {}
    for key, items in built.items():
        rest = iter(values[key])
        found[key] = [(item, next(rest) if is_fetch(item) else item) for item in items]
    return found


@pytest.fixture(scope="module")
def results() -> tuple[dict[str, Any], dict[str, Any]]:
    return run_all(tf1), run_all(tfjit)


def parts(value: Any) -> list[Any]:
    """Return the arrays of a value: splits and flat values of a ragged one."""
    if hasattr(value, "nested_row_splits"):
        return [*value.nested_row_splits, value.flat_values]
    return list(value) if isinstance(value, tuple) else [value]


def known_shape(built: Any) -> Any:
    shape = getattr(built, "shape", None)
    return None if shape is None or shape.rank is None else shape.as_list()


@pytest.mark.parametrize("key", KEYS)
def test_values_dtypes_and_static_shapes(results: Any, key: str) -> None:
    theirs, ours = (found[key] for found in results)
    assert len(theirs) == len(ours)
    for (expected_built, expected), (built, value) in zip(theirs, ours, strict=True):
        assert type(value).__name__ == type(expected).__name__
        for want, got in zip(parts(expected), parts(value), strict=True):
            if want is None:
                assert got is None
                continue
            want, got = np.asarray(want), np.asarray(got)
            assert got.dtype == want.dtype
            if want.dtype.kind in "fc":
                np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
            else:
                np.testing.assert_array_equal(got, want)
        if key in OTHER_STATIC_SHAPES:
            if known_shape(built) is not None:
                assert expected_built.shape.is_compatible_with(built.shape.as_list())
        else:
            assert known_shape(built) == known_shape(expected_built)
