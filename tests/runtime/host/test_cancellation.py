"""A block that waits is cancelled from outside, by an error in it, and at once where it is late."""

from __future__ import annotations

import pytest

from tfjit.runtime.host.cancellation import CancellableWait, CancellationManager


def test_cancellation_during_and_before_a_block() -> None:
    manager, calls = CancellationManager(), []
    with CancellableWait(manager, lambda: calls.append("during")):
        manager.cancel()
    assert calls == ["during"]
    with CancellableWait(manager, lambda: calls.append("before")):
        assert calls == ["during", "before"]


def test_a_block_that_ends_is_forgotten() -> None:
    manager, calls = CancellationManager(), []
    with CancellableWait(manager, lambda: calls.append("cancelled")):
        pass
    manager.cancel()
    assert not calls


@pytest.mark.parametrize("manager", [None, CancellationManager()])
def test_an_interrupt_cancels(manager: CancellationManager | None) -> None:
    calls: list[str] = []
    with pytest.raises(KeyboardInterrupt), CancellableWait(manager, lambda: calls.append("c")):
        raise KeyboardInterrupt
    assert calls == ["c"]
