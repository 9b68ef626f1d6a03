"""A server whose sessions come and go; `many_sessions.py` opens 10,000."""

from __future__ import annotations

from tests.distributed.many_sessions import churn
from tests.distributed.task_processes import tasks


def test_sessions_leave_nothing() -> None:
    with tasks("tfjit") as made:
        first, *_, last = churn(made, 300, 50, 3)
    for before, after in zip(
        [first.client, *first.servers], [last.client, *last.servers], strict=True
    ):
        assert after["descriptors"] <= before["descriptors"] + 8, (first, last)
        assert after["threads"] <= before["threads"] + 8, (first, last)
        assert after["kB"] <= before["kB"] + 30_000, (first, last)
