"""Denormals are flushed while a reference kernel runs, and no longer."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from tfjit.kernels import float_control
from tfjit.kernels.float_control import flushed

pytestmark = pytest.mark.skipif(
    float_control._CONTROL is None, reason="the control word of this machine is not known"
)

_TINY = np.full(3, 1e-39, np.float32)


def _is_flushing() -> bool:
    return not (_TINY * np.float32(1)).any()


def test_denormals_are_flushed_while_the_function_runs() -> None:
    assert not _is_flushing()
    assert flushed(_is_flushing)()
    assert not _is_flushing()


def test_a_call_within_changes_nothing() -> None:
    inner = flushed(_is_flushing)
    assert flushed(lambda: (inner(), _is_flushing()))() == (True, True)
    assert not _is_flushing()


def test_an_error_ends_the_flushing() -> None:
    @flushed
    def fail() -> None:
        raise KeyError

    for function in (fail, flushed(lambda: fail())):
        with pytest.raises(KeyError):
            function()
        assert not _is_flushing()
        assert flushed(_is_flushing)()


def test_threads_flush_by_themselves() -> None:
    found: list[bool] = []

    @flushed
    def start() -> None:
        for function in (_is_flushing, flushed(_is_flushing), _is_flushing):
            thread = threading.Thread(target=lambda f=function: found.append(f()))  # type: ignore[misc]
            thread.start()
            thread.join()

    start()
    assert found[1] and found[0] == found[2]
    assert not _is_flushing()
