"""Give each test a served task with a fake master and worker, and a channel to it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.distributed.server.fakes import Task


@pytest.fixture(params=["gRPC", "local"])
def task(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Task]:
    """Return a task that serves at a free port, and is called in either way."""
    if request.param == "gRPC":
        monkeypatch.setenv("TFJIT_DISABLE", "local_channel")
    made = Task()
    yield made
    made.close()
