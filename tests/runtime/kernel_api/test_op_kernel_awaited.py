"""Blocking kernels on the caller's thread: results, errors, interrupts."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tfjit.framework import errors
from tfjit.runtime.host.cancellation import CancellationManager
from tfjit.runtime.host.completion import Done
from tfjit.runtime.kernel_api import op_kernel
from tfjit.runtime.kernel_api.op_kernel import OpContext, awaited


def context() -> OpContext:
    return cast(
        OpContext, SimpleNamespace(step=SimpleNamespace(cancellation=CancellationManager()))
    )


@pytest.mark.parametrize("delay_s", [0, 0.01])
def test_result(delay_s: float) -> None:
    def kernel(ctx: OpContext, inputs: Sequence[Any], done: Done) -> None:
        if delay_s:
            threading.Timer(delay_s, done, ([inputs[0] + 1],)).start()
        else:
            done([inputs[0] + 1])

    assert awaited(kernel)(context(), [2]) == [3]


@pytest.mark.parametrize("delay_s", [0, 0.01])
def test_error(delay_s: float) -> None:
    failure = errors.OutOfRangeError(None, None, "closed")

    def kernel(ctx: OpContext, inputs: Sequence[Any], done: Done) -> None:
        threading.Timer(delay_s, done, (failure,)).start()

    with pytest.raises(errors.OutOfRangeError, match="closed"):
        awaited(kernel)(context(), [])


def test_interrupt_cancels_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted:
        """A lock whose second owner is interrupted while it waits."""

        taken = False

        def acquire(self) -> None:
            if self.taken:
                raise KeyboardInterrupt
            self.taken = True

        def release(self) -> None:
            pass

    cancelled: list[bool] = []

    def kernel(ctx: OpContext, inputs: Sequence[Any], done: Done) -> None:
        ctx.step.cancellation.register(lambda: cancelled.append(True))

    ctx = context()
    monkeypatch.setattr(op_kernel, "threading", SimpleNamespace(Lock=Interrupted))
    with pytest.raises(KeyboardInterrupt):
        awaited(kernel)(ctx, [])
    assert cancelled == [True]
