"""Groups of devices by key, complete once all members have come."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from tfjit.framework import errors
from tfjit.runtime.collectives.collective_params import Group, Member, ranked
from tfjit.runtime.host.cancellation import CancellationManager

if TYPE_CHECKING:
    from tfjit.protos import DeviceAttributes

GroupDone = Callable[[BaseException | None, Group | None], None]


class _Entry:
    """A group that may wait for members. size: of the first."""

    def __init__(self, size: int, device_type: str) -> None:
        self.size = size
        self.device_type = device_type
        self.members: dict[str, DeviceAttributes] = {}
        self.waiting: list[GroupDone] = []
        self.group: Group | None = None
        self.error: errors.OpError | None = None


class GroupTable:
    """The groups that this task decides on. Thread-safe.

    A group with an error keeps it: all further members get it, too.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: dict[int, _Entry] = {}
        self._error: errors.OpError | None = None

    def find(self, key: int) -> Group | None:
        """Return a group that is complete, or None."""
        with self._lock:
            entry = self._entries.get(key)
            return None if entry is None or entry.error is not None else entry.group

    def join(
        self,
        key: int,
        size: int,
        device_type: str,
        attributes: DeviceAttributes,
        done: GroupDone,
        cancellation: CancellationManager | None = None,
    ) -> None:
        """Add a device to a group; `done` gets the whole group.

        attributes: DeviceAttributes. A member that has come before is counted once. cancellation:
        ends an incomplete group for all.
        """
        if cancellation is not None:
            token = cancellation.register(lambda: self.cancel(key))
            if token is None:
                text = "CompleteGroup is cancelled before it starts"
                done(errors.CancelledError(None, None, text), None)
                return
            done = _without_token(done, cancellation, token)
        with self._lock:
            error = self._error
            called: list[GroupDone] = [done]
            group = None
            if error is None:
                entry = self._entries.get(key)
                if entry is None:
                    entry = self._entries[key] = _Entry(size, device_type)
                if entry.error is None:
                    entry.error = _add(entry, key, size, device_type, attributes)
                if entry.error is None and len(entry.members) < entry.size:
                    entry.waiting.append(done)
                    return
                if entry.error is None and entry.group is None:
                    entry.group = Group(key, device_type, ranked(entry.members))
                error, group = entry.error, entry.group
                called += entry.waiting
                entry.waiting = []
        for one in called:
            one(error, group if error is None else None)

    def keep(self, key: int, device_type: str, members: tuple[Member, ...]) -> None:
        """Take a group of the leader's; a known one stays."""
        with self._lock:
            if key not in self._entries:
                entry = self._entries[key] = _Entry(len(members), device_type)
                entry.members = {member.device: member.attributes for member in members}
                entry.group = Group(key, device_type, ranked(entry.members))

    def cancel(self, key: int) -> None:
        """End the wait for the members of an incomplete group, for good."""
        error = errors.CancelledError(None, None, "group is cancelled")
        with self._lock:
            entry = self._entries.get(key)
            if entry is None or entry.group is not None:
                return
            entry.error = error
            waiting, entry.waiting = entry.waiting, []
        for done in waiting:
            done(error, None)

    def abort(self, error: errors.OpError) -> None:
        """Refuse all members from now on, and those that wait."""
        with self._lock:
            self._error = error
            waiting = []
            for entry in self._entries.values():
                entry.error = error
                waiting += entry.waiting
                entry.waiting = []
        for done in waiting:
            done(error, None)


def _without_token(done: GroupDone, manager: CancellationManager, token: int) -> GroupDone:
    """Return a `done` that forgets a registration first."""

    def ended(error: BaseException | None, group: Group | None) -> None:
        manager.deregister(token)
        done(error, group)

    return ended


def _add(
    entry: _Entry, key: int, size: int, device_type: str, attributes: DeviceAttributes
) -> errors.OpError | None:
    """Add a member to a group; return the error of a misfit."""
    name = attributes.name
    if device_type != entry.device_type:
        return errors.InternalError(
            None,
            None,
            f"Device {name} is joining a group with incompatible device type{entry.device_type} "
            f"(group_key={key})",
        )
    if size != entry.size:
        return errors.InternalError(
            None,
            None,
            f"Device {name} is joining a group with size{size}, but that group has size "
            f"{entry.size} (group_key={key})",
        )
    known = entry.members.get(name)
    if known is None:
        if len(entry.members) == entry.size:
            return errors.InternalError(
                None,
                None,
                f"Device {name} is joining a group that is already full (group_key={key})",
            )
        entry.members[name] = attributes
    elif known.incarnation != attributes.incarnation:
        return errors.FailedPreconditionError(
            None,
            None,
            f"Device {name} current incarnation doesn't match with one in the group. This usually "
            "means this worker has restarted but the collective leader hasn't, or this worker "
            "connects to a wrong cluster.",
        )
    return None


__all__ = ["GroupDone", "GroupTable"]
