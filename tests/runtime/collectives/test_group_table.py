"""Groups that wait for their members."""

from __future__ import annotations

from typing import Any

from tfjit import protos
from tfjit.framework import errors
from tfjit.runtime.collectives.collective_params import Member
from tfjit.runtime.collectives.group_table import GroupTable
from tfjit.runtime.host.cancellation import CancellationManager


def device(number: int, incarnation: int = 1) -> Any:
    name = f"/job:worker/replica:0/task:0/device:CPU:{number}"
    return protos.DeviceAttributes(name=name, incarnation=incarnation)


class Joins:
    """What the members of a table were told, in order."""

    def __init__(self) -> None:
        self.table = GroupTable()
        self.said: list[Any] = []

    def join(self, number: int, size: int = 2, key: int = 1, **options: Any) -> None:
        attributes = options.pop("attributes", device(number))
        kind = options.pop("kind", "CPU")

        def done(error: Any, group: Any) -> None:
            told = type(error).__name__ if error is not None else group.size
            self.said.append((number, told))

        self.table.join(key, size, kind, attributes, done, options.get("cancellation"))


def test_members_wait_for_each_other() -> None:
    joins = Joins()
    joins.join(1)
    joins.join(1)  # of another instance
    assert not joins.said and joins.table.find(1) is None
    joins.join(0)
    assert sorted(joins.said) == [(0, 2), (1, 2), (1, 2)]
    group = joins.table.find(1)
    assert group is not None and [m.device[-1] for m in group.members] == ["0", "1"]
    assert group.rank(device(1).name) == 1
    joins.join(1)
    assert joins.said[-1] == (1, 2)


def test_members_that_do_not_fit() -> None:
    for options in ({"size": 3}, {"kind": "GPU"}):
        joins = Joins()
        joins.join(0)
        joins.join(1, **options)
        assert sorted(joins.said) == [(0, "InternalError"), (1, "InternalError")]
    joins = Joins()
    for number in range(3):
        joins.join(number)
    assert joins.said[-1] == (2, "InternalError")
    joins = Joins()
    joins.join(0)
    joins.join(0, attributes=device(0, 2))
    assert joins.said == [(0, "FailedPreconditionError")] * 2


def test_cancellation_ends_an_incomplete_group() -> None:
    joins, cancellation = Joins(), CancellationManager()
    joins.join(0, cancellation=cancellation)
    cancellation.cancel()
    joins.join(1)
    assert joins.said == [(0, "CancelledError"), (1, "CancelledError")]
    joins.join(2, key=5, cancellation=cancellation)
    assert joins.said[-1] == (2, "CancelledError")


def test_cancellation_leaves_a_complete_group() -> None:
    joins, cancellation = Joins(), CancellationManager()
    joins.join(0, cancellation=cancellation)
    joins.join(1)
    cancellation.cancel()
    joins.join(0)
    assert [told for _, told in joins.said] == [2, 2, 2]


def test_an_abort_refuses_all() -> None:
    joins = Joins()
    joins.join(0)
    joins.table.abort(errors.UnavailableError(None, None, "gone"))
    joins.join(1)
    joins.join(0, key=2)
    assert joins.said == [(n, "UnavailableError") for n in (0, 1, 0)]


def test_a_group_of_the_leader_is_kept_once() -> None:
    table = GroupTable()
    table.keep(1, "CPU", (Member(device(1)), Member(device(0))))
    table.keep(1, "CPU", (Member(device(5)),))
    group = table.find(1)
    assert group is not None and [m.device[-1] for m in group.members] == ["0", "1"]
