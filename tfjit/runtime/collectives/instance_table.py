"""Instances of collectives by group, step and key."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from tfjit.framework import errors
from tfjit.framework.types.shape import format_shape
from tfjit.runtime.collectives.collective_params import (
    BROADCAST,
    UNKNOWN_RANK,
    CollectiveCall,
    Group,
)

SourceDone = Callable[[BaseException | None, int], None]
"""Takes (error, rank of the source)."""
_Key = tuple[int, int, int]

_MAX_INSTANCES: Final = 10_000


class _Instance:
    """An instance, as its first member describes it. known: ranks."""

    def __init__(self, call: CollectiveCall) -> None:
        self.kind, self.dtype, self.shape = call.kind, call.dtype, call.shape
        self.source_rank = UNKNOWN_RANK
        self.known: set[int] = set()
        self.is_whole = False
        self.waiting: list[SourceDone] = []
        self.error: errors.OpError | None = None


class InstanceTable:
    """The instances that members of this task have met. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._instances: OrderedDict[_Key, _Instance] = OrderedDict()
        self._error: errors.OpError | None = None

    def __len__(self) -> int:
        return len(self._instances)

    def knows(self, call: CollectiveCall) -> bool:
        """Return whether a member of the instance has come."""
        with self._lock:
            return _key(call) in self._instances

    def join(self, call: CollectiveCall, group: Group, done: SourceDone) -> None:
        """Check a member against the others; `done` gets the source.

        All members of a broadcast have to come before its source is known.
        """
        with self._lock:
            instance = self._find(call)
            error = instance.error or _mismatch(call, instance)
            called: list[SourceDone] = [done]
            if error is None and call.kind == BROADCAST:
                error = instance.error = _meet(call, group, instance)
                if error is None and not instance.is_whole:
                    instance.waiting.append(done)
                    return
                called += instance.waiting
                instance.waiting = []
            source = instance.source_rank
        for one in called:
            one(error, source)

    def learn(self, call: CollectiveCall, source_rank: int, size: int) -> None:
        """Take the rank of the source from the leader.

        size: of the group, all of which the leader has met. Raises InternalError if another source
        is known.
        """
        with self._lock:
            instance = self._find(call)
            if instance.error is not None:
                raise instance.error
            if instance.source_rank not in (UNKNOWN_RANK, source_rank):
                instance.error = errors.InternalError(
                    None,
                    None,
                    f"UpdateInstanceCache: CompleteInstanceResponse for instance "
                    f"{call.instance_key} gives source_rank={source_rank} but cache already holds "
                    f"value={instance.source_rank}",
                )
                raise instance.error
            instance.source_rank = source_rank
            instance.known = set(range(size))
            instance.is_whole = True

    def _find(self, call: CollectiveCall) -> _Instance:
        key = _key(call)
        found = self._instances.get(key)
        if found is None:
            if len(self._instances) >= _MAX_INSTANCES:
                self._instances.popitem(last=False)  # of steps that ended without a word
            found = self._instances[key] = _Instance(call)
        if found.error is None:
            found.error = self._error
        return found

    def clean_up(self, step_id: int) -> None:
        """Forget the instances of a step that is over."""
        with self._lock:
            for key in [key for key in self._instances if key[1] == step_id]:
                if not self._instances[key].waiting:
                    del self._instances[key]

    def abort(self, error: errors.OpError) -> None:
        """Refuse all members from now on, and those that wait."""
        with self._lock:
            self._error = error
            waiting = []
            for instance in self._instances.values():
                instance.error = error
                waiting += instance.waiting
                instance.waiting = []
        for done in waiting:
            done(error, UNKNOWN_RANK)


def _key(call: CollectiveCall) -> _Key:
    return call.group_key, call.step_id, call.instance_key


def _mismatch(call: CollectiveCall, instance: _Instance) -> errors.OpError | None:
    if instance.kind != call.kind or instance.dtype != call.dtype:
        return errors.InternalError(
            None,
            None,
            f"Collective instance {call.instance_key} expected type {instance.kind} and data_type "
            f"{instance.dtype.as_datatype_enum} but got type {call.kind} and data_type "
            f"{call.dtype.as_datatype_enum}",
        )
    if instance.shape != call.shape:
        return errors.InvalidArgumentError(
            None,
            None,
            f"Shape mismatch in the collective instance {call.instance_key}. Op at device "
            f"{call.device} expected shape {format_shape(call.shape)} but another member in the "
            f"group expected shape {format_shape(instance.shape)}. This is likely due to different "
            "input shapes at different members of the collective op.",
        )
    return None


def _meet(call: CollectiveCall, group: Group, instance: _Instance) -> errors.OpError | None:
    """Count a member of a broadcast; return its error or None."""
    rank = group.rank(call.device)
    if instance.is_whole:
        return None
    if rank not in instance.known:
        instance.known.add(rank)
        if call.is_source and instance.source_rank != UNKNOWN_RANK:
            return errors.InternalError(
                None,
                None,
                f"Instance {call.instance_key} already has source {instance.source_rank}, "
                f"received second claim from {rank}",
            )
        if call.is_source:
            instance.source_rank = rank
    if len(instance.known) < group.size:
        return None
    instance.is_whole = True
    if instance.source_rank == UNKNOWN_RANK:
        return errors.InternalError(
            None,
            None,
            f"Instance {call.instance_key} found no source for broadcast.  This could mean that "
            f"there were group_size={group.size} BcastRecvs but no BcastSend.",
        )
    return None


__all__ = ["InstanceTable", "SourceDone"]
