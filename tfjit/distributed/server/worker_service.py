"""The methods of the worker's service as calls of a WorkerInterface."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tfjit.distributed.protocol.interfaces import (
    Cancel,
    GraphCall,
    GraphResult,
    MessageDone,
    WorkerInterface,
    WorkerSessionCall,
)
from tfjit.distributed.protocol.status import of_exception
from tfjit.distributed.server.activity import Activity
from tfjit.distributed.server.calls import Call, Method, Reply, WaitingMethod
from tfjit.distributed.server.requests import given
from tfjit.framework import errors


class WorkerService:
    """Answer requests to the worker of a task."""

    def __init__(self, worker: WorkerInterface, activity: Activity) -> None:
        self._worker = worker
        self._activity = activity

    def methods(self) -> Mapping[str, Method]:
        """Return the methods that answer on their call's thread, by name."""
        return {
            "GetStatus": self.get_status,
            "CreateWorkerSession": self.create_worker_session,
            "DeleteWorkerSession": self.delete_worker_session,
            "RegisterGraph": self.register_graph,
            "DeregisterGraph": self.deregister_graph,
            "CleanupAll": self.cleanup_all,
            "MarkRecvFinished": self.mark_recv_finished,
            "Logging": lambda request, call: self._worker.logging(request),
            "Tracing": lambda request, call: self._worker.tracing(request),
            "GetStepSequence": lambda request, call: self._worker.get_step_sequence(request),
        }

    def waiting_methods(self) -> Mapping[str, WaitingMethod]:
        """Return the methods that hold no thread while they wait, by name."""
        return {
            "RunGraph": self.run_graph,
            "RecvTensor": self.receive_tensor,
            "CleanupGraph": self.cleanup_graph,
            "RecvBuf": self.receive_buffer,
            "CompleteGroup": lambda request, reply: _message(
                reply, lambda done: self._worker.complete_group(request, done)
            ),
            "CompleteInstance": lambda request, reply: _message(
                reply, lambda done: self._worker.complete_instance(request, done)
            ),
        }

    def parcel_methods(self) -> Mapping[str, WaitingMethod]:
        """Return the methods for tasks of tfjit alone, by name."""
        return {"RecvTensors": self.receive_tensors, "CleanupGraphs": self.cleanup_graphs}

    def get_status(self, request: Any, call: Call) -> Any:
        """Return the devices of the task."""
        from tfjit.protos import GetStatusResponse

        return GetStatusResponse(device_attributes=self._worker.get_status())

    def create_worker_session(self, request: Any, call: Call) -> Any:
        """Open the worker's side of a session."""
        from tfjit.protos import CreateWorkerSessionResponse

        self._activity.check()
        self._worker.create_worker_session(
            WorkerSessionCall(
                session=request.session_handle,
                server_def=given(request, "server_def"),
                isolated=request.isolate_session_state,
                devices=tuple(request.cluster_device_attributes),
                master_task=request.master_task,
                master_incarnation=request.master_incarnation,
            )
        )
        return CreateWorkerSessionResponse()

    def delete_worker_session(self, request: Any, call: Call) -> Any:
        """Close the worker's side of a session."""
        from tfjit.protos import DeleteWorkerSessionResponse

        self._worker.delete_worker_session(request.session_handle)
        return DeleteWorkerSessionResponse()

    def register_graph(self, request: Any, call: Call) -> Any:
        """Keep a partition."""
        from tfjit.protos import RegisterGraphResponse

        handle = self._worker.register_graph(
            request.session_handle,
            request.graph_def,
            given(request, "config_proto"),
            given(request, "graph_options"),
            request.collective_graph_key,
        )
        return RegisterGraphResponse(graph_handle=handle)

    def deregister_graph(self, request: Any, call: Call) -> Any:
        """Forget a partition."""
        from tfjit.protos import DeregisterGraphResponse

        self._worker.deregister_graph(request.session_handle, request.graph_handle)
        return DeregisterGraphResponse()

    def cleanup_graph(self, request: Any, reply: Reply) -> Cancel:
        """Drop the values of a step.

        It takes less time than the change to another thread.
        """
        from tfjit.protos import CleanupGraphResponse

        self._worker.cleanup_graph(request.step_id)
        reply.give(CleanupGraphResponse)
        return _nothing

    def cleanup_graphs(self, request: Any, reply: Reply) -> Cancel:
        """Drop the values of several steps."""
        from tfjit.protos import CleanupGraphResponse

        self._worker.cleanup_graphs(request.value)
        reply.give(CleanupGraphResponse)
        return _nothing

    def cleanup_all(self, request: Any, call: Call) -> Any:
        """Clear containers."""
        from tfjit.protos import CleanupAllResponse

        self._worker.cleanup_all(list(request.container))
        return CleanupAllResponse()

    def mark_recv_finished(self, request: Any, call: Call) -> Any:
        """Do nothing: no sent tensor is kept until this call."""
        from tfjit.protos import MarkRecvFinishedResponse

        return MarkRecvFinishedResponse()

    def receive_buffer(self, request: Any, reply: Reply) -> Cancel:
        """Send the buffer of a collective once a member gives it."""

        def done(error: BaseException | None, value: Any) -> None:
            if error is None:
                reply.give(lambda: reply.buffer(value))
            else:
                reply.fail(error)

        return self._worker.receive_buffer(request, done)

    def run_graph(self, request: Any, reply: Reply) -> Cancel:
        """Run a partition; its error goes into the answer on request."""
        in_body = request.store_errors_in_response_body
        leave = self._activity.enter()

        def done(error: BaseException | None, result: GraphResult | None) -> None:
            if error is None or in_body:
                reply.give(lambda: _graph_answer(reply, error, result))
            else:
                reply.fail(error)
            leave()

        try:
            call = GraphCall(
                session=request.session_handle,
                graph=request.graph_handle,
                step_id=request.step_id,
                feeds={item.name: reply.value(item.tensor) for item in request.send},
                fetches=list(request.recv_key),
                options=given(request, "exec_opts"),
                is_partial=request.is_partial,
                is_last_partial_run=request.is_last_partial_run,
                request_id=request.request_id,
                deadline_s=reply.deadline_s,
            )
            return self._worker.start_graph(call, done)
        except BaseException as raised:
            done(raised, None)
            return _nothing

    def receive_tensor(self, request: Any, reply: Reply) -> Cancel:
        """Send a tensor once the step has it."""

        def done(error: BaseException | None, value: Any, is_dead: bool) -> None:
            if error is None:
                reply.give(lambda: reply.received(value, is_dead))
            else:
                reply.fail(error)

        return self._worker.receive_tensor(
            request.step_id, request.rendezvous_key, done, request.request_id
        )

    def receive_tensors(self, request: Any, reply: Reply) -> Cancel:
        """Send several tensors, as the step has them."""
        left = len(request.rendezvous_key)

        def done(error: BaseException | None, found: Sequence[tuple[int, Any, bool]]) -> None:
            nonlocal left
            if error is not None:
                reply.fail(error)
                return
            left -= len(found)
            send = reply.give_part if left else reply.give
            send(lambda: _tensors_answer(reply, found))

        return self._worker.receive_tensors(
            request.step_id, list(request.rendezvous_key), done, request.request_id
        )


def _message(reply: Reply, start: Callable[[MessageDone], Cancel]) -> Cancel:
    """Answer with the message that a call of the worker gives."""

    def done(error: BaseException | None, answer: Any) -> None:
        if error is None:
            reply.give(lambda: answer)
        else:
            reply.fail(error)

    return start(done)


def _nothing() -> None:
    """Cancel a call that is over."""


def _tensors_answer(reply: Reply, found: Sequence[tuple[int, Any, bool]]) -> Any:
    """Return the message of a part of an answer to RecvTensors."""
    from tfjit.protos import RecvTensorsResponse

    answer = RecvTensorsResponse()
    for index, value, is_dead in found:
        if is_dead:
            answer.dead.append(index)
        else:
            reply.fill(answer.tensor.add(name=str(index)).tensor, value)
    return answer


def _graph_answer(reply: Reply, error: BaseException | None, result: GraphResult | None) -> Any:
    """Return the message of an answer to RunGraph."""
    from tfjit.protos import RunGraphResponse

    answer = RunGraphResponse()
    if error is None and result is not None:
        for key, value in result.fetches.items():
            fetched = answer.recv.add()
            fetched.name = key
            reply.fill(fetched.tensor, value)
        if result.step_stats is not None:
            answer.step_stats.CopyFrom(result.step_stats)
        if result.cost_graph is not None:
            answer.cost_graph.CopyFrom(result.cost_graph)
        answer.partition_graph.extend(result.partition_graphs)
    else:
        failed = of_exception(error or errors.InternalError(None, None, "RunGraph gave nothing."))
        # the stub wants the enum
        answer.status_code = failed.error_code  # type: ignore[assignment]
        answer.status_error_message = failed.message
    return answer
