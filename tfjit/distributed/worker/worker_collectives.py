"""The collectives of a worker, with members in other tasks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from tfjit.distributed.channels.remote_worker import request_id
from tfjit.distributed.protocol.interfaces import Cancel, MessageDone
from tfjit.distributed.worker.step_sequences import FindWorker
from tfjit.framework import errors
from tfjit.framework.types import dtypes
from tfjit.framework.types.shape import fill_proto
from tfjit.runtime.collectives.buffer_table import Taken
from tfjit.runtime.collectives.collective_manager import CollectiveManager, CollectiveResolver
from tfjit.runtime.collectives.collective_params import CollectiveCall, Group, Member
from tfjit.runtime.host.cancellation import CancellationManager
from tfjit.runtime.host.device import DeviceManager


class LeaderResolver(CollectiveResolver):
    """Find the members of groups by their leader.

    task: this one. find_worker: returns the worker of a task.
    """

    def __init__(self, devices: DeviceManager, task: str, find_worker: FindWorker) -> None:
        super().__init__(devices)
        self._task, self._find_worker = task, find_worker

    def join_group(
        self,
        call: CollectiveCall,
        attributes: Any,
        cancellation: CancellationManager | None,
        done: Callable[[BaseException | None, Group | None], None],
    ) -> None:
        if call.leader in ("", self._task) or self.groups.find(call.group_key) is not None:
            super().join_group(call, attributes, cancellation, done)
            return
        from tfjit.protos import CompleteGroupRequest

        request = CompleteGroupRequest(
            group_key=call.group_key,
            group_size=call.group_size,
            device_type=call.device_type,
            collective_type=call.kind,
            device_attributes=attributes,
        )

        def answered(error: BaseException | None, answer: Any) -> None:
            if error is not None:
                done(error, None)
                return
            members = tuple(Member(one) for one in answer.device_attributes)
            if len(members) != answer.group_size:
                text = "CompleteGroupResponse group_size doesn't match device_name list"
                done(errors.InternalError(None, None, text), None)
                return
            self.groups.keep(answer.group_key, answer.device_type, members)
            super(LeaderResolver, self).join_group(call, attributes, cancellation, done)

        self._ask(
            lambda: self._find_worker(call.leader).complete_group(request, ended),
            ended := _Once(answered),
            cancellation,
        )

    def join_instance(
        self,
        call: CollectiveCall,
        group: Group,
        cancellation: CancellationManager | None,
        done: Callable[[BaseException | None, int], None],
    ) -> None:
        if call.leader in ("", self._task) or self.instances.knows(call):
            super().join_instance(call, group, cancellation, done)
            return
        from tfjit.protos import CompleteInstanceRequest

        request = CompleteInstanceRequest(
            name=call.name,
            type=call.kind,
            group_key=call.group_key,
            group_size=call.group_size,
            instance_key=call.instance_key,
            device_type=call.device_type,
            subdiv_offset=call.subdiv_offsets,
            device=call.device,
            is_source=call.is_source,
            step_id=call.step_id,
        )
        # the stub wants the enum
        request.data_type = call.dtype.as_datatype_enum  # type: ignore[assignment]
        request.shape.SetInParent()
        fill_proto(request.shape, call.shape)

        def answered(error: BaseException | None, answer: Any) -> None:
            if error is None:
                try:
                    self.instances.learn(call, answer.source_rank, group.size)
                except errors.OpError as failure:
                    error = failure
            if error is not None:
                done(error, -1)
            else:
                super(LeaderResolver, self).join_instance(call, group, cancellation, done)

        self._ask(
            lambda: self._find_worker(call.leader).complete_instance(request, ended),
            ended := _Once(answered),
            cancellation,
        )

    @staticmethod
    def _ask(
        start: Callable[[], Cancel], ended: _Once, cancellation: CancellationManager | None
    ) -> None:
        """Call the leader; a cancellation gives the call up."""
        try:
            cancel = start()
        except errors.OpError as error:
            ended(error, None)
            return
        if cancellation is None:
            return
        token = cancellation.register(cancel)
        if token is None:
            cancel()
        else:
            ended.then(lambda: cancellation.deregister(token))


class _Once:
    """A `done` that passes one call on, and then calls a function."""

    def __init__(self, done: MessageDone) -> None:
        self._done: MessageDone | None = done
        self._lock = threading.Lock()
        self._last: Callable[[], object] | None = None

    def __call__(self, error: BaseException | None, answer: Any) -> None:
        with self._lock:
            done, self._done = self._done, None
            last = self._last
        if last is not None:
            last()
        if done is not None:
            done(error, answer)

    def then(self, last: Callable[[], object]) -> None:
        """Call a function at the end, at once if that has passed."""
        with self._lock:
            is_over = self._done is None
            self._last = last
        if is_over:
            last()


class WorkerCollectives(CollectiveManager):
    """Run the collectives of a worker's steps.

    leader: of the server's config, or "".
    """

    def __init__(
        self, devices: DeviceManager, task: str, find_worker: FindWorker, leader: str
    ) -> None:
        super().__init__(devices, task, LeaderResolver(devices, task, find_worker))
        self._devices, self._find_worker, self.leader = devices, find_worker, leader

    def receive_remote(
        self, step_id: int, member: Member, key: str, size: int, device: str, done: Taken
    ) -> Cancel:
        from tfjit.protos import RecvBufRequest

        request = RecvBufRequest(
            step_id=step_id,
            buf_rendezvous_key=key,
            num_bytes=size,
            src_device=member.device,
            src_incarnation=member.incarnation,
            dst_device=device,
            request_id=request_id(),
            failed_attempts=self.failures(step_id),
        )
        try:
            return self._find_worker(member.task).receive_buffer(request, done)
        except errors.OpError as error:
            done(error, None)
            return _nothing

    # requests of other tasks

    def give_buffer(self, request: Any, done: Taken) -> Cancel:
        """Answer a RecvBufRequest once a member of this task gives the buffer."""
        key, source = request.buf_rendezvous_key, request.src_device
        try:
            incarnation = self._devices.lookup(source).incarnation
            if incarnation != request.src_incarnation:
                raise errors.FailedPreconditionError(
                    None,
                    None,
                    f"RecvBuf expects a different device incarnation: {request.src_incarnation} "
                    f'vs. {incarnation}. Your worker job that contains the device ("{source}") was '
                    "probably restarted. Check your worker job for the reason why it was "
                    "restarted.",
                )
            buffers = self.asked_step(request.step_id, request.failed_attempts).buffers
        except errors.OpError as error:
            done(error, None)
            return _nothing
        buffers.take(key, done)
        return lambda: buffers.withdraw(key, done)

    def complete_group(self, request: Any, done: MessageDone) -> Cancel:
        """Answer a CompleteGroupRequest once all devices of the group have come."""
        from tfjit.protos import CompleteGroupResponse

        def grouped(error: BaseException | None, group: Group | None) -> None:
            if error is not None or group is None:
                done(error, None)
                return
            answer = CompleteGroupResponse(
                group_key=group.key,
                group_size=group.size,
                device_type=group.device_type,
                num_tasks=len(group.devices_per_task()),
                device_attributes=[member.attributes for member in group.members],
            )
            done(None, answer)

        if not request.HasField("device_attributes"):
            raise errors.InternalError(
                None, None, "CompleteGroupRequest device_attributes is not set."
            )
        cancellation = CancellationManager()
        self.resolver.groups.join(
            request.group_key,
            request.group_size,
            request.device_type,
            request.device_attributes,
            grouped,
            cancellation,
        )
        return cancellation.cancel

    def complete_instance(self, request: Any, done: MessageDone) -> Cancel:
        """Answer a CompleteInstanceRequest when the source of a broadcast is known."""
        from tfjit.protos import CompleteInstanceResponse

        group = self.resolver.groups.find(request.group_key)
        if group is None:
            raise errors.FailedPreconditionError(
                None,
                None,
                f"group {request.group_key} not found. This normally means the server has "
                "restarted",
            )
        call = CollectiveCall(
            request.name,
            request.type,
            request.group_key,
            request.group_size,
            request.instance_key,
            request.device,
            request.device_type,
            dtypes.as_dtype(request.data_type),
            tuple(dim.size for dim in request.shape.dim),
            request.step_id,
            request.is_source,
        )
        ended = _Once(done)

        def met(error: BaseException | None, source_rank: int) -> None:
            if error is not None:
                ended(error, None)
            else:
                ended(
                    None,
                    CompleteInstanceResponse(
                        instance_key=call.instance_key, source_rank=source_rank
                    ),
                )

        self.resolver.instances.join(call, group, met)
        text = "CompleteInstance was cancelled."
        return lambda: ended(errors.CancelledError(None, None, text), None)


def _nothing() -> None:
    """Cancel a call that is over."""


__all__ = ["LeaderResolver", "WorkerCollectives"]
