"""Give each test a served task with a fake master and worker, and a channel to it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.distributed.server.fakes import DISABLED, Task


@pytest.fixture(params=DISABLED)
def task(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Task]:
    """Return a task that serves at a free port, and is called in one way."""
    monkeypatch.setenv("TFJIT_DISABLE", DISABLED[request.param])
    made = Task()
    if request.param == "direct":
        made.wait_for_frames()
        made.worker.calls.clear()
    yield made
    made.close()
