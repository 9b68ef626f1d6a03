"""Requests that arrive twice."""

from __future__ import annotations

import pytest

from tfjit.distributed.protocol.recent_requests import RecentRequests
from tfjit.framework import errors


def test_a_request_is_refused_the_second_time() -> None:
    recent = RecentRequests(remembered=2)
    for number in (0, 0, 1, 2):
        recent.check(number, "RunStep")
    with pytest.raises(
        errors.AbortedError, match=r"^The same RunStep request was received twice\.$"
    ):
        recent.check(2, "RunStep")
    with pytest.raises(errors.AbortedError, match=r"received twice\. step_id: 7$"):
        recent.check(2, "RunStep", "step_id: 7")
    for number in (3, 4, 5):
        recent.check(number, "RunStep")
    with pytest.raises(errors.AbortedError):
        recent.check(4, "RunStep")
    recent.check(1, "RunStep")  # forgotten, as one of the oldest
