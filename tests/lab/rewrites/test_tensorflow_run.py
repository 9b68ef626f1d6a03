"""TensorFlow's values as the right ones."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from tests.lab.rewrites.planted import FEEDS, small_program
from tfjit.framework.errors import FailedPreconditionError, UnimplementedError
from tfjit.lab.rewrites.tensorflow_run import tensorflow_values


def test_a_missing_tensorflow_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(FailedPreconditionError, match="TensorFlow does not run this"):
        tensorflow_values(small_program(), ["y:0"], FEEDS, [])


def test_strings_are_refused() -> None:
    feeds = {"x:0": np.array([b"a", b"bc"], object)}
    with pytest.raises(UnimplementedError, match="strings are not fed"):
        tensorflow_values(small_program(), ["y:0"], feeds, [])
