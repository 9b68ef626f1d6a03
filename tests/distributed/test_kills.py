"""Each role of a cluster is killed in the middle of steps; `kills.py` runs it many times."""

from __future__ import annotations

from typing import get_args

import pytest

from tests.distributed.kills import LIMIT_S, Role, killed


@pytest.mark.parametrize("role", get_args(Role))
def test_training_recovers_from_a_kill(role: Role) -> None:
    with killed(role, 1) as found:
        training = found.training
        assert sum(training.errors.values()) == (0 if role == "client" else 1), training.texts
        assert training.slowest_s < LIMIT_S / 2  # an error of the connection, not of the time limit
        for before, after in zip(found.before, found.after, strict=True):
            assert after["descriptors"] <= before["descriptors"] + 8
            assert after["threads"] <= before["threads"] + 16
