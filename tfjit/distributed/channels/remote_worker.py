"""The worker of another task, over gRPC."""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Sequence
from typing import Any, Final

from tfjit.distributed.channels.channels import STREAMED, Channel
from tfjit.distributed.parcels.buffers import decode_buffer
from tfjit.distributed.parcels.parcel_bytes import decode, encode
from tfjit.distributed.parcels.parcels import Parcel
from tfjit.distributed.protocol.answer_sizes import AnswerSizes, bytes_of
from tfjit.distributed.protocol.interfaces import (
    Cancel,
    GraphCall,
    GraphDone,
    GraphResult,
    MessageDone,
    ReceivedSome,
    WorkerInterface,
    WorkerSessionCall,
)
from tfjit.distributed.protocol.methods import PARCELS, WORKER
from tfjit.distributed.protocol.tensors import decode_received
from tfjit.framework import errors
from tfjit.runtime.collectives.buffer_table import Taken
from tfjit.runtime.host.rendezvous import Received
from tfjit.runtime.kernel_api.op_kernel import DEAD

log: Final = logging.getLogger("tfjit.distributed")

CLEANUP_TIMEOUT_S: Final = 10.0
_IDS: Final = random.Random()  # the system's own numbers are a system call each
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_IDS.seed)


def request_id() -> int:
    """Return an id that no other request has; never 0."""
    return _IDS.getrandbits(62) + 1


class RemoteWorker(WorkerInterface):
    """Call a worker through a channel.

    timeout_s: the limit of calls that do not run graphs, None for none. Errors of the connection
    are UnavailableError.
    """

    def __init__(self, channel: Channel, timeout_s: float | None = None) -> None:
        self.channel = channel
        self._timeout_s = timeout_s
        self._sizes = AnswerSizes(STREAMED)

    def _call(self, method: str, request: Any) -> Any:
        return self.channel.call(WORKER, method, request, self._timeout_s)

    def get_status(self) -> list[Any]:
        from tfjit.protos import GetStatusRequest

        return list(self._call("GetStatus", GetStatusRequest()).device_attributes)

    def create_worker_session(self, call: WorkerSessionCall) -> None:
        from tfjit.protos import CreateWorkerSessionRequest

        request = CreateWorkerSessionRequest(
            session_handle=call.session,
            isolate_session_state=call.isolated,
            cluster_device_attributes=call.devices,
            master_task=call.master_task,
            master_incarnation=call.master_incarnation,
        )
        if call.server_def is not None:
            request.server_def.CopyFrom(call.server_def)
        self._call("CreateWorkerSession", request)

    def delete_worker_session(self, session: str) -> None:
        from tfjit.protos import DeleteWorkerSessionRequest

        self._call("DeleteWorkerSession", DeleteWorkerSessionRequest(session_handle=session))

    def register_graph(
        self,
        session: str,
        graph_def: Any,
        config: Any = None,
        graph_options: Any = None,
        collective_graph_key: int = 0,
    ) -> str:
        from tfjit.protos import RegisterGraphRequest

        request = RegisterGraphRequest(
            session_handle=session,
            create_worker_session_called=True,
            graph_def=graph_def,
            collective_graph_key=collective_graph_key,
        )
        if config is not None:
            request.config_proto.CopyFrom(config)
        if graph_options is not None:
            request.graph_options.CopyFrom(graph_options)
        return str(self._call("RegisterGraph", request).graph_handle)

    def deregister_graph(self, session: str, graph: str) -> None:
        from tfjit.protos import DeregisterGraphRequest

        request = DeregisterGraphRequest(
            session_handle=session, create_worker_session_called=True, graph_handle=graph
        )
        self._call("DeregisterGraph", request)

    def start_graph(self, call: GraphCall, done: GraphDone) -> Cancel:
        size_key = call.session, call.graph

        def answered(error: errors.OpError | None, found: Any) -> None:
            if error is not None:
                done(error, None)
                return
            try:
                parcel = _graph_answer(found)
                answer = parcel.message
                if answer.status_code:
                    raise errors.make_error(answer.status_code, answer.status_error_message)
                fetches = {item.name: parcel.value(item.tensor) for item in answer.recv}
                self._sizes.note(size_key, fetches.values())
            except errors.OpError as failed:
                done(failed, None)
                return
            done(
                None,
                GraphResult(
                    fetches,
                    answer.step_stats if answer.HasField("step_stats") else None,
                    answer.cost_graph if answer.HasField("cost_graph") else None,
                    tuple(answer.partition_graph),
                ),
            )

        size = max(bytes_of(call.feeds.values()), self._sizes.find(size_key))
        beside = self.channel.beside(size)
        if beside is None:
            request = encode(graph_parcel(call))
            return self.channel.start(WORKER, "RunGraph", request, answered, call.deadline_s)
        parcel = graph_parcel(call)
        return beside.start(WORKER, "RunGraph", parcel, answered, call.deadline_s)

    def cleanup_graph(self, step_id: int) -> None:
        from tfjit.protos import CleanupGraphRequest

        self._clean_up(WORKER, "CleanupGraph", CleanupGraphRequest(step_id=step_id))

    def cleanup_graphs(self, step_ids: Sequence[int]) -> None:
        if len(step_ids) == 1 or not self.channel.is_tfjits:
            super().cleanup_graphs(step_ids)
            return
        from tfjit.protos import Int64List

        self._clean_up(PARCELS, "CleanupGraphs", Int64List(value=step_ids))

    def _clean_up(self, service: str, method: str, request: Any) -> None:
        def answered(error: errors.OpError | None, answer: Any) -> None:
            if error is not None:  # a task that is gone has no values of the step either
                log.debug("%s of %s: %s", method, self.channel.address, error.message)

        self.channel.start(service, method, request, answered, CLEANUP_TIMEOUT_S)

    def cleanup_all(self, containers: Sequence[str]) -> None:
        from tfjit.protos import CleanupAllRequest

        self._call("CleanupAll", CleanupAllRequest(container=containers))

    def receive_tensor(self, step_id: int, key: str, done: Received, request_id: int = 0) -> Cancel:
        from tfjit.protos import RecvTensorRequest

        def answered(error: errors.OpError | None, answer: Any) -> None:
            if error is not None:
                done(error, None, False)
                return
            try:
                if isinstance(answer, Parcel):
                    is_dead = answer.message.is_dead
                    value = DEAD if is_dead else answer.value(answer.message.tensor)
                else:
                    value, is_dead = decode_received(answer)
            except errors.OpError as faulty:
                done(faulty, None, False)
                return
            self._sizes.note(key, (value,))
            done(None, value, is_dead)

        request = RecvTensorRequest(step_id=step_id, rendezvous_key=key, request_id=request_id)
        beside = self.channel.beside(self._sizes.find(key))
        if beside is None:
            return self.channel.start(WORKER, "RecvTensor", request, answered)
        return beside.start(WORKER, "RecvTensor", Parcel(request), answered)

    def sends_batches(self, key: str) -> bool:
        return self.channel.answers_in_parts(self._sizes.find(key))

    def receive_tensors(
        self, step_id: int, keys: Sequence[str], done: ReceivedSome, request_id: int = 0
    ) -> Cancel:
        from tfjit.protos import RecvTensorsRequest

        left = set(range(len(keys)))

        def part(answer: Parcel) -> None:
            try:
                found: list[tuple[int, Any, bool]] = []
                message = answer.message
                for index in message.dead:
                    left.remove(index)  # KeyError: it is none of the missing ones
                    found.append((index, DEAD, True))
                for item in message.tensor:
                    index, value = int(item.name), answer.value(item.tensor)
                    left.remove(index)
                    self._sizes.note(keys[index], (value,))
                    found.append((index, value, False))
            except (errors.OpError, KeyError, ValueError) as faulty:
                done(_not_answered(faulty), ())
            else:
                done(None, found)

        def answered(error: errors.OpError | None, answer: Parcel | None) -> None:
            if answer is not None:
                part(answer)
            if left:
                done(error or _not_answered("tensors are missing"), ())

        request = RecvTensorsRequest(step_id=step_id, rendezvous_key=keys, request_id=request_id)
        return self.channel.start_parts(PARCELS, "RecvTensors", request, answered, part)

    def receive_buffer(self, request: Any, done: Taken) -> Cancel:
        def answered(error: errors.OpError | None, answer: Any) -> None:
            if error is not None:
                done(error, None)
                return
            try:
                value = decode_buffer(answer)
            except errors.OpError as faulty:
                done(faulty, None)
                return
            done(None, value)

        beside = self.channel.beside(request.num_bytes)
        if beside is None:
            return self.channel.start(WORKER, "RecvBuf", request, answered)
        return beside.start(WORKER, "RecvBuf", Parcel(request), answered)

    def complete_group(self, request: Any, done: MessageDone) -> Cancel:
        return self.channel.start(WORKER, "CompleteGroup", request, done)

    def complete_instance(self, request: Any, done: MessageDone) -> Cancel:
        return self.channel.start(WORKER, "CompleteInstance", request, done)

    def get_step_sequence(self, request: Any) -> Any:
        return self._call("GetStepSequence", request)


def _not_answered(why: object) -> errors.InternalError:
    return errors.InternalError(None, None, f"Could not parse the answer to RecvTensors: {why}")


def _graph_answer(found: Parcel | bytes) -> Parcel:
    """Return the answer to RunGraph. Raises InternalError for bytes that are none."""
    from google.protobuf.message import DecodeError

    from tfjit.protos import RunGraphResponse

    if isinstance(found, Parcel):
        return found
    try:
        return decode(RunGraphResponse, found)
    except DecodeError as error:
        raise errors.InternalError(
            None, None, f"Could not parse the answer to RunGraph: {error}"
        ) from None


def graph_parcel(call: GraphCall) -> Parcel:
    """Return the RunGraphRequest of a call with arrays beside it."""
    from tfjit.protos import RunGraphRequest

    request = RunGraphRequest(
        session_handle=call.session,
        create_worker_session_called=True,
        graph_handle=call.graph,
        step_id=call.step_id,
        recv_key=call.fetches,
        is_partial=call.is_partial,
        is_last_partial_run=call.is_last_partial_run,
        store_errors_in_response_body=True,
        request_id=call.request_id,
    )
    if call.options is not None:
        request.exec_opts.CopyFrom(call.options)
    parcel = Parcel(request)
    for key, value in call.feeds.items():
        parcel.fill(request.send.add(name=key).tensor, value)
    return parcel


__all__ = ["RemoteWorker", "graph_parcel", "request_id"]
