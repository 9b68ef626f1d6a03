"""Contexts of threads, over a driver that records its calls."""

from __future__ import annotations

import pytest

from tests.kernels.cuda.fake_driver import FakeDriver, install
from tfjit.kernels.cuda.device.context import Context


def test_context_of_a_thread_without_one(fake: FakeDriver) -> None:
    context = Context(0)
    fake.calls.clear()
    for _ in range(2):
        with context.current():
            pass
    # it stays current, so the second block has nothing to do
    assert [call[0] for call in fake.calls] == [
        *("cuCtxGetCurrent", "cuCtxSetCurrent", "cuCtxGetCurrent")
    ]


@pytest.mark.parametrize(("number", "current"), [(0, 0xABC), (1, None)])
def test_context_of_another_library_is_restored(number: int, current: int | None) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        fake = install(monkeypatch, FakeDriver(devices=2))
        context = Context(number)
        fake.current = current
        fake.calls.clear()
        with context.current():
            pass
        assert [call[0] for call in fake.calls] == [
            *("cuCtxGetCurrent", "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2")
        ]
