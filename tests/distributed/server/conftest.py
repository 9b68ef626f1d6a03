"""Give each test a served task with a fake master and worker, and a channel to it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.distributed.server.fakes import Task


@pytest.fixture
def task() -> Iterator[Task]:
    """Return a task that serves at a free port."""
    made = Task()
    yield made
    made.close()
