"""The collectives of a session or worker: groups, instances, steps, threads."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tfjit.framework import errors
from tfjit.runtime.collectives.buffer_table import Taken
from tfjit.runtime.collectives.collective_params import CollectiveCall, Group, Member, Resolved
from tfjit.runtime.collectives.group_table import GroupTable
from tfjit.runtime.collectives.instance_table import InstanceTable
from tfjit.runtime.collectives.step_collectives import StepCollectives
from tfjit.runtime.host.cancellation import CancellationManager
from tfjit.runtime.host.device import DeviceManager
from tfjit.runtime.host.growing_pool import GrowingPool

if TYPE_CHECKING:
    from tfjit.protos import DeviceAttributes

ResolvedDone = Callable[[BaseException | None, Resolved | None], None]

_MAX_RUNNING: Final = 1024
_MAX_STEPS: Final = 10_000
_MAX_FAILED: Final = 256


class CollectiveResolver:
    """Find the members of groups and instances, all in this task."""

    def __init__(self, devices: DeviceManager) -> None:
        self.groups = GroupTable()
        self.instances = InstanceTable()
        self._attributes = {one.name: one for one in devices.attributes()}

    def resolve(
        self, call: CollectiveCall, cancellation: CancellationManager, done: ResolvedDone
    ) -> None:
        """Wait for the other members; `done` gets the facts."""

        def grouped(error: BaseException | None, group: Group | None) -> None:
            if error is not None or group is None:
                done(error, None)
                return

            def met(failure: BaseException | None, source_rank: int) -> None:
                if failure is not None:
                    done(failure, None)
                else:
                    done(None, Resolved(group, group.rank(call.device), source_rank))

            self.join_instance(call, group, cancellation, met)

        self.join_group(call, self._attributes[call.device], cancellation, grouped)

    def join_group(
        self,
        call: CollectiveCall,
        attributes: DeviceAttributes,
        cancellation: CancellationManager | None,
        done: Callable[[BaseException | None, Group | None], None],
    ) -> None:
        """Add a device to the group of a call."""
        self.groups.join(
            call.group_key, call.group_size, call.device_type, attributes, done, cancellation
        )

    def join_instance(
        self,
        call: CollectiveCall,
        group: Group,
        cancellation: CancellationManager | None,
        done: Callable[[BaseException | None, int], None],
    ) -> None:
        """Check a member against the others of its instance."""
        self.instances.join(call, group, done)

    def abort(self, error: errors.OpError) -> None:
        """Refuse all that is not resolved."""
        self.groups.abort(error)
        self.instances.abort(error)


@dataclass(slots=True)
class _Failures:
    """The failed attempts at a step.

    error: of the last one; None once the next has begun.
    """

    count: int = 0
    error: errors.OpError | None = None


class CollectiveManager:
    """Run the collectives of steps.

    task: "/job:worker/replica:0/task:1". An error of a collective aborts all groups and instances
    for good, as it does with TensorFlow; nodes that know their group go on.
    """

    def __init__(
        self, devices: DeviceManager, task: str, resolver: CollectiveResolver | None = None
    ) -> None:
        self.task = task
        self.resolver = resolver or CollectiveResolver(devices)
        self._lock = threading.Lock()
        self._steps: OrderedDict[int, StepCollectives] = OrderedDict()
        self._failures: OrderedDict[int, _Failures] = OrderedDict()
        self._pool: GrowingPool | None = None
        self._closed = False

    def is_local(self, member: Member) -> bool:
        """Return whether a member is a device of this task."""
        return member.task == self.task

    def receive_remote(
        self, step_id: int, member: Member, key: str, size: int, device: str, done: Taken
    ) -> Callable[[], None]:
        """Ask the task of a member for a buffer.

        Returns a function that gives up. Raises InternalError: a session of one process has no
        other tasks.
        """
        raise errors.InternalError(None, None, f"{member.device} is not in this process")

    def step(self, step_id: int) -> StepCollectives:
        """Return the collectives of a step for its nodes.

        Raises the error of a step that has failed and was not begun again.
        """
        return self.asked_step(step_id, -1)

    def asked_step(self, step_id: int, failures: int) -> StepCollectives:
        """Return the collectives of a step to another task.

        It may ask before the step runs here. failures: attempts at the step that have failed
        there. A task that has seen the failures of this one waits for the next attempt; others
        get the last error.
        """
        dropped = None
        with self._lock:
            failed = self._failures.get(step_id)
            if failed is not None and failed.error is not None and failures < failed.count:
                raise failed.error
            found = self._steps.get(step_id)
            if found is None:
                if len(self._steps) >= _MAX_STEPS:  # asked for by tasks that have gone
                    dropped = self._steps.popitem(last=False)[1]
                found = self._steps[step_id] = StepCollectives(self, step_id)
        if dropped is not None:
            dropped.drop(_over(dropped.step_id))
        return found

    def failures(self, step_id: int) -> int:
        """Return the number of attempts at a step that have failed here.

        Only a worker's steps have several: the tasks of a group keep the id of a failed one.
        """
        with self._lock:
            failed = self._failures.get(step_id)
        return 0 if failed is None else failed.count

    def begin_step(self, step_id: int) -> None:
        """Begin an attempt at a step; forget the last error."""
        with self._lock:
            failed = self._failures.get(step_id)
            if failed is not None:
                failed.error = None

    def fail_step(self, step_id: int, error: errors.OpError) -> None:
        """End an attempt at a step; other tasks get its error."""
        with self._lock:
            failed = self._failures.setdefault(step_id, _Failures())
            failed.count, failed.error = failed.count + 1, error
            if len(self._failures) > _MAX_FAILED:
                self._failures.popitem(last=False)
            found = self._steps.pop(step_id, None)
        if found is not None:
            found.drop(error)

    def clean_up(self, step_id: int) -> None:
        """Forget a step that is over.

        The failures of a failed one stay, and so do members that wait for its next attempt.
        """
        if not self._steps and not self._failures and not len(self.resolver.instances):
            return
        found = None
        with self._lock:
            failed = self._failures.get(step_id)
            if failed is None or failed.error is None:
                self._failures.pop(step_id, None)
                found = self._steps.pop(step_id, None)
        if found is not None:
            found.drop(_over(step_id))
        self.resolver.instances.clean_up(step_id)

    def submit(self, job: Callable[[], None]) -> None:
        """Run a job that may wait. Raises CancelledError once closed."""
        with self._lock:
            if self._closed:
                raise errors.CancelledError(None, None, "The session has been closed.")
            if self._pool is None:
                self._pool = GrowingPool("tfjit-collectives", _MAX_RUNNING, _too_many)
            pool = self._pool
        pool.submit(job)

    def abort(self, error: errors.OpError) -> None:
        """Refuse groups and instances that are not resolved."""
        self.resolver.abort(error)

    def close(self, error: errors.OpError) -> None:
        """End all steps and threads."""
        with self._lock:
            self._closed = True
            steps, self._steps = list(self._steps.values()), OrderedDict()
            pool, self._pool = self._pool, None
        self.resolver.abort(error)
        for step in steps:
            step.drop(error)
        if pool is not None:
            pool.close(error.message)


def _over(step_id: int) -> errors.CancelledError:
    return errors.CancelledError(None, None, f"Step {step_id} is over.")


def _too_many(count: int) -> errors.ResourceExhaustedError:
    return errors.ResourceExhaustedError(
        None, None, f"{count} collective operations already run at one time."
    )


__all__ = ["CollectiveManager", "CollectiveResolver", "ResolvedDone"]
