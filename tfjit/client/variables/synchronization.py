"""Name the ways of combining the copies of a distributed variable."""

from __future__ import annotations

import enum


class VariableSynchronization(enum.IntEnum):
    """When the copies of a distributed variable are brought together."""

    AUTO = 0
    NONE = 1
    ON_WRITE = 2
    ON_READ = 3


class VariableAggregation(enum.IntEnum):
    """The way of combining the copies of a distributed variable."""

    NONE = 0
    SUM = 1
    MEAN = 2
    ONLY_FIRST_REPLICA = 3
    ONLY_FIRST_TOWER = 3
