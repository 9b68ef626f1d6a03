"""Ids of requests that were seen."""

from __future__ import annotations

import pytest

from tfjit.distributed.worker.request_ids import RequestIds
from tfjit.framework import errors


def test_recent_ids_are_remembered() -> None:
    ids = RequestIds("Run", size=2)
    for number in (0, 0, 1, 2):
        ids.check(number, "")
    with pytest.raises(errors.AbortedError, match="The same Run request was received twice. it"):
        ids.check(2, "it")
    ids.check(3, "")
    ids.check(1, "")  # forgotten
