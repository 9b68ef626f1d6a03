"""A worker on a port, as task 1 of a cluster whose task 0 is a TensorFlow server."""

from __future__ import annotations

import threading
from concurrent import futures
from typing import Any

import grpc

from tests.ports import free_ports
from tfjit.distributed.parcels.buffers import encode_buffer
from tfjit.distributed.protocol import methods, status
from tfjit.distributed.protocol.interfaces import GraphCall, WorkerSessionCall
from tfjit.distributed.protocol.tensors import encode_received, fill, from_proto
from tfjit.distributed.worker.worker import Worker
from tfjit.framework import errors


class WorkerServer:
    """The service of a worker, with a thread for each call. worker: may be replaced."""

    def __init__(self) -> None:
        self.worker: Worker | None = None
        handlers = {
            name: grpc.unary_unary_rpc_method_handler(
                self._handler(name),
                methods.request_class(name).FromString,
                lambda answer: answer if isinstance(answer, bytes) else answer.SerializeToString(),
            )
            for name in methods.method_names(methods.WORKER)
        }
        self.server = grpc.server(
            futures.ThreadPoolExecutor(32),
            options=(
                ("grpc.max_send_message_length", -1),
                ("grpc.max_receive_message_length", -1),
                ("grpc.so_reuseport", 0),
            ),
        )
        self.server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(methods.WORKER, handlers),)
        )
        self.port = self.server.add_insecure_port("localhost:0")
        self.calls: list[str] = []

    def start(self, worker: Worker) -> None:
        """Serve a worker."""
        self.worker = worker
        self.server.start()

    def stop(self) -> None:
        """End the service and its worker."""
        if self.worker is not None:
            self.worker.close()
        self.server.stop(0).wait()

    def _handler(self, name: str) -> Any:
        def call(request: Any, context: Any) -> Any:
            self.calls.append(name)
            try:
                return self._answer(name, request, context)
            except Exception as raised:
                error = status.of_exception(raised)
                context.set_trailing_metadata(status.trailing_metadata(error))
                codes = {code.value[0]: code for code in grpc.StatusCode}
                context.abort(codes[error.error_code], status.short_message(error))

        return call

    def _answer(self, name: str, request: Any, context: Any) -> Any:
        worker = self.worker
        assert worker is not None
        response = methods.response_class(name)()
        session = getattr(request, "session_handle", "")
        if name == "GetStatus":
            response.device_attributes.extend(worker.get_status())
        elif name == "CreateWorkerSession":
            worker.create_worker_session(
                WorkerSessionCall(
                    session,
                    request.server_def,
                    request.isolate_session_state,
                    list(request.cluster_device_attributes),
                    request.master_task,
                    request.master_incarnation,
                )
            )
        elif name == "DeleteWorkerSession":
            worker.delete_worker_session(session)
        elif name == "RegisterGraph":
            response.graph_handle = worker.register_graph(
                session, request.graph_def, request.config_proto, request.graph_options
            )
        elif name == "DeregisterGraph":
            worker.deregister_graph(session, request.graph_handle)
        elif name == "RunGraph":
            return self._run(worker, request, context)
        elif name == "RecvTensor":
            return _receive(worker, request, context)
        elif name == "CleanupGraph":
            worker.cleanup_graph(request.step_id)
        elif name == "CleanupAll":
            worker.cleanup_all(list(request.container))
        elif name == "Logging":
            return worker.logging(request)
        elif name == "Tracing":
            worker.tracing(request)
        elif name == "RecvBuf":
            return encode_buffer(_answer_of(worker.receive_buffer, request, context))
        elif name in ("CompleteGroup", "CompleteInstance"):
            start = worker.complete_group if name == "CompleteGroup" else worker.complete_instance
            return _answer_of(start, request, context)
        elif name == "GetStepSequence":
            return worker.get_step_sequence(request)
        return response

    def _run(self, worker: Worker, request: Any, context: Any) -> Any:
        over = threading.Event()
        outcome: list[Any] = []

        def done(error: BaseException | None, result: Any) -> None:
            outcome[:] = error, result
            over.set()

        cancel = worker.start_graph(
            GraphCall(
                request.session_handle,
                request.graph_handle,
                request.step_id,
                {sent.name: from_proto(sent.tensor) for sent in request.send},
                list(request.recv_key),
                request.exec_opts if request.HasField("exec_opts") else None,
                request.is_partial,
                request.is_last_partial_run,
                request.request_id,
            ),
            done,
        )
        context.add_callback(cancel)
        over.wait()
        error, result = outcome
        response = methods.response_class("RunGraph")()
        if error is not None:
            if not request.store_errors_in_response_body:
                raise error
            response.status_code = error.error_code
            response.status_error_message = error.message
            return response
        for key, value in result.fetches.items():
            named = response.recv.add()
            named.name = key
            fill(named.tensor, value)
        if result.step_stats is not None:
            response.step_stats.CopyFrom(result.step_stats)
        if result.cost_graph is not None:
            response.cost_graph.CopyFrom(result.cost_graph)
        response.partition_graph.extend(result.partition_graphs)
        return response


def _answer_of(start: Any, request: Any, context: Any) -> Any:
    over = threading.Event()
    outcome: list[Any] = []

    def done(error: BaseException | None, answer: Any) -> None:
        outcome[:] = error, answer
        over.set()

    context.add_callback(start(request, done))
    over.wait()
    error, answer = outcome
    if error is not None:
        raise error
    return answer


def _receive(worker: Worker, request: Any, context: Any) -> bytes:
    over = threading.Event()
    outcome: list[Any] = []

    def done(error: BaseException | None, value: Any, is_dead: bool) -> None:
        outcome[:] = error, value, is_dead
        over.set()

    cancel = worker.receive_tensor(
        request.step_id, request.rendezvous_key, done, request.request_id
    )
    context.add_callback(cancel)
    over.wait()
    error, value, is_dead = outcome
    if error is not None:
        raise error
    return encode_received(value, is_dead)


class MixedCluster:
    """A TensorFlow server as task 0 and master, and a worker of ours as task 1."""

    def __init__(self) -> None:
        import tensorflow as tf

        self.served = WorkerServer()
        (port,) = free_ports(1)
        self.addresses = [f"localhost:{port}", f"localhost:{self.served.port}"]
        self.server = tf.compat.v1.train.Server(
            {"worker": self.addresses}, job_name="worker", task_index=0
        )
        self.target = self.server.target
        self.served.start(self.fresh_worker())

    def fresh_worker(self) -> Worker:
        """Return a new worker for task 1."""
        tasks = {f"/job:worker/replica:0/task:{i}": a for i, a in enumerate(self.addresses)}
        return Worker("/job:worker/replica:0/task:1", None, tasks)

    @property
    def worker(self) -> Worker:
        """The worker that is task 1 now."""
        assert self.served.worker is not None
        return self.served.worker


__all__ = ["MixedCluster", "WorkerServer", "errors"]
