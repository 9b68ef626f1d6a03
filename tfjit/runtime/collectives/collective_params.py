"""Describe a collective: its group and the call of one member."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tfjit.framework import errors
from tfjit.framework.types.dtypes import DType

if TYPE_CHECKING:
    from tfjit.protos import DeviceAttributes

REDUCTION: Final = 0
BROADCAST: Final = 1
GATHER: Final = 2
"""TensorFlow's numbers of the kinds of collectives, which requests between tasks carry."""

UNKNOWN_RANK: Final = -1


@dataclass(frozen=True, slots=True)
class Member:
    """A device of a group.

    attributes: its DeviceAttributes message, which names the device and its incarnation.
    """

    attributes: DeviceAttributes

    @property
    def device(self) -> str:
        """The full name of the device."""
        return str(self.attributes.name)

    @property
    def incarnation(self) -> int:
        """The number of the device's start, another in each process."""
        return int(self.attributes.incarnation)

    @property
    def task(self) -> str:
        """The name of the device's task."""
        return self.device.rpartition("/device:")[0]


@dataclass(frozen=True, slots=True)
class Group:
    """The devices of a group. members: in the order of their ranks."""

    key: int
    device_type: str
    members: tuple[Member, ...]

    @property
    def size(self) -> int:
        """The number of members."""
        return len(self.members)

    def rank(self, device: str) -> int:
        """Return the rank of a device.

        Raises InternalError for one outside of the group.
        """
        for rank, member in enumerate(self.members):
            if member.device == device:
                return rank
        raise errors.InternalError(
            None, None, f"Device {device} is not in the group with group_key={self.key}"
        )

    def devices_per_task(self) -> list[int]:
        """Return how many members each task has, in the order of ranks."""
        counts: dict[str, int] = {}
        for member in self.members:
            counts[member.task] = counts.get(member.task, 0) + 1
        return list(counts.values())


def ranked(members: Mapping[str, DeviceAttributes]) -> tuple[Member, ...]:
    """Return the members of a group in TensorFlow's order of ranks.

    members: DeviceAttributes by name of the device. Tasks go by their names as texts, the devices
    of a task by type and number.
    """

    def order(member: Member) -> tuple[str, str, int]:
        kind, _, number = member.device.rpartition("/device:")[2].partition(":")
        return member.task, kind, int(number)

    return tuple(sorted(map(Member, members.values()), key=order))


@dataclass(frozen=True, slots=True)
class CollectiveCall:
    """The part of one member in a collective.

    name: of the node, for messages. step_id: of the instance, 0 for one of all steps.
    shape: of the result, the same for all members. is_source: the member has the value of a
    broadcast. subdiv_offsets: of rings, () for one of offset 0, or as many as `max_subdivs` admits.
    merge: Add, Mul, Min or Max; final: Id or Div.
    timeout_s: the limit of the wait for the group, and of the exchange; 0 for none. leader: the
    task that knows the groups, "" for this one.
    """

    name: str
    kind: int
    group_key: int
    group_size: int
    instance_key: int
    device: str
    device_type: str
    dtype: DType
    shape: tuple[int, ...]
    step_id: int
    is_source: bool = False
    subdiv_offsets: tuple[int, ...] = ()
    max_subdivs: int = -1
    merge: str = ""
    final: str = "Id"
    timeout_s: float = 0.0
    leader: str = ""


@dataclass(frozen=True, slots=True)
class Resolved:
    """The group and the source of a broadcast, learnt by a member."""

    group: Group
    rank: int
    source_rank: int = UNKNOWN_RANK


__all__ = [
    "BROADCAST",
    "GATHER",
    "REDUCTION",
    "UNKNOWN_RANK",
    "CollectiveCall",
    "Group",
    "Member",
    "Resolved",
    "ranked",
]
