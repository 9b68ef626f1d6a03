"""Attempts at a step as members of other tasks see them."""

from __future__ import annotations

import numpy as np
import pytest

from tfjit.framework import errors
from tfjit.runtime.collectives.collective_manager import CollectiveManager
from tfjit.runtime.host.device import DeviceManager

STEP = 7
WRONG = errors.InvalidArgumentError(None, None, "wrong")


@pytest.fixture
def manager() -> CollectiveManager:
    return CollectiveManager(DeviceManager(), "/job:localhost/replica:0/task:0")


def test_the_error_goes_to_members_of_the_failed_attempt(manager: CollectiveManager) -> None:
    said: list[BaseException | None] = []
    manager.begin_step(STEP)
    manager.asked_step(STEP, 0).buffers.take("early", lambda error, value: said.append(error))
    manager.fail_step(STEP, WRONG)
    assert said == [WRONG]
    manager.clean_up(STEP)
    with pytest.raises(errors.InvalidArgumentError, match="wrong"):
        manager.asked_step(STEP, 0)
    with pytest.raises(errors.InvalidArgumentError, match="wrong"):
        manager.step(STEP)  # of a node that the failed attempt still starts


def test_a_member_of_the_next_attempt_waits_for_it(manager: CollectiveManager) -> None:
    said: list[object] = []
    manager.begin_step(STEP)
    manager.fail_step(STEP, WRONG)
    manager.asked_step(STEP, 1).buffers.take("key", lambda error, value: said.append(value))
    manager.clean_up(STEP)  # of the failed attempt
    assert not said
    manager.begin_step(STEP)
    value = np.ones(3)
    manager.step(STEP).buffers.give("key", value, said.append)
    assert said[0] is value
    manager.clean_up(STEP)
    assert manager.failures(STEP) == 0  # it has succeeded
