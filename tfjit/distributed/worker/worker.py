"""The worker of one task, for its server and for masters."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from tfjit.distributed.channels.channels import Channel
from tfjit.distributed.protocol.deadlines import Deadlines
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
from tfjit.distributed.protocol.recent_requests import RecentRequests
from tfjit.distributed.protocol.task_names import addresses_of
from tfjit.distributed.worker.graph_run import GraphRun, Submit, given_up
from tfjit.distributed.worker.graph_session import graph_config
from tfjit.distributed.worker.late_runs import LateRuns
from tfjit.distributed.worker.peers import Channels, Peers
from tfjit.distributed.worker.staged_run import StagedRun
from tfjit.distributed.worker.step_log import StepLog
from tfjit.distributed.worker.step_rendezvous import StepRendezvous, Steps
from tfjit.distributed.worker.step_sequences import StepSequences
from tfjit.distributed.worker.tensor_batch import TensorBatch
from tfjit.distributed.worker.waiting_thread import WaitingThread
from tfjit.distributed.worker.whole_run import PartialRun, WholeRun
from tfjit.distributed.worker.worker_collectives import WorkerCollectives
from tfjit.distributed.worker.worker_session import WorkerSession
from tfjit.framework import errors, settings
from tfjit.runtime.collectives.buffer_table import Taken
from tfjit.runtime.host.cancellation import CancellableWait, CancellationManager
from tfjit.runtime.host.device import DeviceManager
from tfjit.runtime.host.growing_pool import GrowingPool
from tfjit.runtime.host.rendezvous import Received, parse_key
from tfjit.runtime.resources.variables_and_resources import SessionResource, SessionState

MAX_SESSIONS: Final = 10_000
MAX_STEPS: Final = 1024
"""Steps that hold a thread at one time."""


class Worker(WorkerInterface):
    """Run the partitions of one task.

    task: "/job:worker/replica:0/task:1". config: ConfigProto of the devices and their threads, or
    None. peers: "host:port" by task. Thread-safe. Variables, queues and tables live as long as the
    worker, and all its sessions share them by container and name. The session "" is always there:
    masters that open none have it.
    """

    def __init__(self, task: str, config: Any, peers: Mapping[str, str]) -> None:
        self.task = task
        self.config = config
        self.devices = DeviceManager(config, prefix=task)
        self.resource = SessionResource()
        self._channels = Channels()
        self._peers = Peers(peers, self._channels)
        self._cancellation = CancellationManager()
        self._threads = GrowingPool(
            f"tfjit-worker{task.replace('/', '-')}", MAX_STEPS, _too_many_steps
        )
        self.steps = Steps(task, settings.logs("rendezvous"))
        experimental = config.experimental if config is not None else None
        self.collectives = WorkerCollectives(
            self.devices,
            task,
            self._peers.worker,
            experimental.collective_group_leader if experimental is not None else "",
        )
        self.step_sequences = StepSequences(self._peers.worker)
        self._deadlines = Deadlines()
        self._late = LateRuns()
        self._log = StepLog()
        self._received_requests = RecentRequests()
        self._run_requests = RecentRequests()
        self._lock = threading.Lock()
        self._sessions: dict[str, WorkerSession] = {}
        self._sessions[""] = self._new_session(WorkerSessionCall(""))

    def get_status(self) -> list[Any]:
        return self.devices.attributes()

    def channel(self, address: str) -> Channel:
        """Return the channel to a task; the worker keeps it."""
        return self._channels.worker(address).channel

    # sessions

    def _new_session(self, call: WorkerSessionCall) -> WorkerSession:
        peers = self._peers
        if call.server_def is not None and call.server_def.cluster.job:
            peers = Peers(addresses_of(call.server_def.cluster), self._channels)
        io_threads = self.config.global_io_parallelism_threads if self.config is not None else 0
        state = SessionState(None if call.isolated else self.resource, io_threads=io_threads)
        return WorkerSession(
            call.session,
            state,
            self.devices,
            peers,
            self._cancellation,
            call.isolated,
            (call.master_task, call.master_incarnation),
            self.collectives,
        )

    def create_worker_session(self, call: WorkerSessionCall) -> None:
        if not call.session:
            raise errors.InvalidArgumentError(None, None, "Session must be non-empty.")
        stale: list[WorkerSession] = []
        with self._lock:
            if call.master_task:
                task, incarnation = call.master_task, call.master_incarnation
                stale = [
                    session
                    for session in self._sessions.values()
                    if session.master[0] == task and session.master[1] != incarnation
                ]
                for session in stale:
                    del self._sessions[session.handle]
            is_full = len(self._sessions) >= MAX_SESSIONS
            if call.session not in self._sessions and not is_full:
                self._sessions[call.session] = self._new_session(call)
            is_open = call.session in self._sessions
        for session in stale:
            self._close(session)
        if not is_open:
            raise errors.ResourceExhaustedError(
                None, None, f"The worker {self.task} has {MAX_SESSIONS} open sessions."
            )

    def delete_worker_session(self, session: str) -> None:
        with self._lock:
            found = self._sessions.pop(session, None) if session else None
        if found is not None:
            self._close(found)

    def _close(self, session: WorkerSession) -> None:
        session.close()
        error = errors.CancelledError(None, None, f"Session {session.handle} has been closed.")
        self.steps.drop_session(session.handle, error)

    def _session(self, handle: str) -> WorkerSession:
        found = self._sessions.get(handle)
        if found is None:
            raise errors.AbortedError(
                None,
                None,
                f"Session handle is not found: {handle}. Possibly this worker "
                f'("{self.task}") just restarted.',
            )
        return found

    # graphs

    def register_graph(
        self,
        session: str,
        graph_def: Any,
        config: Any = None,
        graph_options: Any = None,
        collective_graph_key: int = 0,
    ) -> str:
        found = self._session(session)
        leader = self.collectives.leader
        if not leader and config is not None:
            leader = config.experimental.collective_group_leader
        made = graph_config(self.config, config, graph_options)
        return found.register(graph_def, made, leader)

    def deregister_graph(self, session: str, graph: str) -> None:
        self._session(session).deregister(graph)

    # steps

    def start_graph(self, call: GraphCall, done: GraphDone) -> Cancel:
        try:
            self._check_run(call)
            if call.is_partial:
                return self._partial_part(call, done)
            run = self._new_run(call, done)
        except errors.OpError as error:
            done(error, None)
            return _nothing
        if run.is_short:
            run.submit = _at_once  # takes less time than the change of threads
            _start(run)
            return lambda: run.cancel(given_up())
        try:
            self._threads.submit(lambda: _start(run))
        except errors.OpError as error:
            run.fail(error)
            run.finish(None)
        return lambda: run.cancel(given_up())

    def run_graph(self, call: GraphCall) -> GraphResult:
        if call.is_partial:
            return super().run_graph(call)
        self._check_run(call)
        here = WaitingThread(self._threads.submit)
        outcome: list[Any] = []

        def done(error: BaseException | None, result: GraphResult | None) -> None:
            outcome[:] = error, result
            here.end()

        run = self._new_run(call, done, here.submit)
        with CancellableWait(call.cancellation, lambda: run.cancel(given_up())):
            _start(run)
            here.work()
        error, result = outcome
        outcome.clear()
        if error is None:
            return result
        try:
            raise error
        finally:
            del error

    def _check_run(self, call: GraphCall) -> None:
        self._session(call.session)
        self._run_requests.check(
            call.request_id,
            "RunGraph (Worker)",
            f'graph_handle: "{call.graph}" step_id: {call.step_id} request_id: {call.request_id}',
        )

    def _new_run(self, call: GraphCall, done: GraphDone, submit: Submit | None = None) -> GraphRun:
        """Return a run that is counted in its step and graph.

        submit: runs its later parts, by default the worker's threads.
        """
        session = self._session(call.session)
        graph = session.graph(call.graph)
        try:
            step = self.steps.begin(call.step_id, call.session, session.peers)
        except BaseException:
            graph.release()
            raise
        if self._log.is_on:
            step.log = self._log
        number = None

        def over(error: BaseException | None, result: GraphResult | None) -> None:
            if number is not None:
                self._deadlines.remove(number)
            if run.has_checks:
                self._late.remove(run)
            self.steps.end(step)
            done(error, result)

        options = call.options
        observed = options is not None and (
            options.record_timeline
            or options.record_costs
            or options.record_partition_graphs
            or options.report_tensor_allocations_upon_oom
        )
        kind = WholeRun if graph.staged is None or observed or call.is_partial else StagedRun
        run = kind(graph, call, step, session.cancellation, over, submit or self._threads.submit)
        if run.has_checks:
            self._late.add(run)
        if call.deadline_s is not None:
            number = self._deadlines.add(call.deadline_s, lambda: run.cancel(_too_late()))
        return run

    def _partial_part(self, call: GraphCall, done: GraphDone) -> Cancel:
        step = self.steps.find(call.step_id)
        with self._lock:
            partial = step.partial
            is_new = partial is None
            if partial is None:
                partial = step.partial = self._new_partial(call)
        if is_new:
            try:
                self._threads.submit(partial.run.work)
            except errors.OpError as error:
                partial.run.fail(error)
                partial.run.finish(None)
        number = None

        def over(error: BaseException | None, result: GraphResult | None) -> None:
            if number is not None:
                self._deadlines.remove(number)
            done(error, result)

        if call.deadline_s is not None:
            run = partial.run
            number = self._deadlines.add(call.deadline_s, lambda: run.cancel(_too_late()))
        return partial.part(call, over)

    def _new_partial(self, call: GraphCall) -> PartialRun:
        made: list[PartialRun] = []

        def over(error: BaseException | None, result: GraphResult | None) -> None:
            made[0].ended(error, result)

        whole = GraphCall(call.session, call.graph, call.step_id, is_partial=True)
        whole.options = call.options
        run = self._new_run(whole, over)
        assert isinstance(run, WholeRun)
        made.append(PartialRun(run))
        return made[0]

    def cleanup_graph(self, step_id: int) -> None:
        self.steps.clean_up(step_id)
        self.collectives.clean_up(step_id)

    def cleanup_all(self, containers: Sequence[str]) -> None:
        state = SessionState(self.resource)
        for manager in state.managers():
            manager.clear(tuple(containers))
        with self._lock:
            sessions = [session for session in self._sessions.values() if not session.isolated]
        for session in sessions:  # their plans hold variables that are gone
            session.forget_plans()

    def receive_tensor(self, step_id: int, key: str, done: Received, request_id: int = 0) -> Cancel:
        try:
            step = self._asked("RecvTensor", step_id, [key], request_id)
        except errors.OpError as error:
            done(error, None, False)
            return _nothing
        step.receive_here(key, done)

        def cancel() -> None:
            if step.withdraw(key, done):
                self.steps.forget_idle(step)
                done(errors.CancelledError(None, None, "RecvTensor was cancelled."), None, False)

        return cancel

    def receive_tensors(
        self, step_id: int, keys: Sequence[str], done: ReceivedSome, request_id: int = 0
    ) -> Cancel:
        try:
            step = self._asked("RecvTensors", step_id, keys, request_id)
        except errors.OpError as error:
            done(error, ())
            return _nothing
        give_up = TensorBatch(step, keys, done).start()

        def cancel() -> None:
            give_up()
            self.steps.forget_idle(step)

        return cancel

    def _asked(
        self, method: str, step_id: int, keys: Sequence[str], request_id: int
    ) -> StepRendezvous:
        """Return the step that tensors are asked of.

        Raises the errors of a faulty request.
        """
        about = ", ".join(f'"{key}"' for key in keys)
        self._received_requests.check(
            request_id,
            f"{method} (GrpcWorker)",
            f"step_id: {step_id} rendezvous_key: {about} request_id: {request_id}",
        )
        if not keys:
            raise errors.InvalidArgumentError(None, None, f"{method} has no key.")
        for key in keys:
            parsed = parse_key(key)
            source = self.devices.lookup(parsed.src_device)
            if parsed.src_incarnation != source.incarnation:
                raise errors.AbortedError(
                    None,
                    None,
                    f"{method} expects a different device incarnation: {parsed.src_incarnation} "
                    f'vs. {source.incarnation}. Your worker job ("{self.task}") was probably '
                    "restarted. Check your worker job for the reason why it was restarted.",
                )
        return self.steps.find(step_id)

    # the rest of the service

    def logging(self, request: Any) -> Any:
        """Return the LoggingResponse to a LoggingRequest: received tensors by step."""
        return self._log.answer(request)

    def tracing(self, request: Any) -> Any:
        """Raise UnimplementedError, as TensorFlow's worker does."""
        raise errors.UnimplementedError(
            None, None, "Tracing: a worker has no profiler to switch on; trace steps by RunOptions."
        )

    # collectives of members in other tasks

    def receive_buffer(self, request: Any, done: Taken) -> Cancel:
        return self.collectives.give_buffer(request, done)

    def complete_group(self, request: Any, done: MessageDone) -> Cancel:
        return self.collectives.complete_group(request, done)

    def complete_instance(self, request: Any, done: MessageDone) -> Cancel:
        return self.collectives.complete_instance(request, done)

    def get_step_sequence(self, request: Any) -> Any:
        if self.collectives.leader not in ("", self.task):
            raise errors.InternalError(
                None, None, "GetStepSequenceAsync called at non-group-leader"
            )
        return self.step_sequences.answer(request)

    def close(self) -> None:
        """End all sessions and steps, and free all memory."""
        with self._lock:
            sessions, self._sessions = list(self._sessions.values()), {}
        self._cancellation.cancel()
        for session in sessions:
            session.close()
        shut_down = errors.CancelledError(None, None, "The worker has been shut down.")
        self.steps.drop_all(shut_down)
        self.collectives.close(shut_down)
        self._channels.close()
        self._threads.close("The worker has been shut down.")
        for manager in SessionState(self.resource).managers():
            manager.clear_all()


def _start(run: GraphRun) -> None:
    try:
        run.start()
    except BaseException as error:  # the caller gets it, by `done`
        run.fail(error)
        run.finish(None)
        return
    run.work()


def _at_once(job: Callable[[], None]) -> None:
    job()


def _nothing() -> None:
    """Cancel a call that is over."""


def _too_many_steps(count: int) -> errors.ResourceExhaustedError:
    return errors.ResourceExhaustedError(
        None, None, f"The worker already runs {count} steps at one time."
    )


def _too_late() -> errors.DeadlineExceededError:
    return errors.DeadlineExceededError(None, None, "Deadline Exceeded")


__all__ = ["Worker"]
