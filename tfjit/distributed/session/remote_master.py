"""The master of another task, over gRPC."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tfjit.distributed.channels.channels import STREAMED, Channel
from tfjit.distributed.channels.local_channel import LocalChannel
from tfjit.distributed.channels.parcel_calls import ParcelCalls
from tfjit.distributed.channels.remote_worker import request_id as new_request_id
from tfjit.distributed.parcels.parcels import Parcel
from tfjit.distributed.protocol.answer_sizes import AnswerSizes, bytes_of
from tfjit.distributed.protocol.interfaces import MasterInterface, StepCall
from tfjit.distributed.protocol.methods import MASTER
from tfjit.distributed.session.step_messages import (
    callable_answer,
    callable_parcel,
    callable_request,
    step_answer,
    step_parcel,
    step_request,
)
from tfjit.framework import errors
from tfjit.runtime.host.cancellation import CancellationManager

CLOSE_S: Final = 10.0
"""The seconds that closing a session or callable may take where no other limit is set."""


class RemoteMaster(MasterInterface):
    """Call a master through a channel.

    timeout_s: the limit of every call (`operation_timeout_in_ms`), None for none; a step's options
    may have another. patience_s: the limit of waiting for a task that cannot be reached yet, when a
    session is created. Errors of the connection are UnavailableError.
    """

    def __init__(
        self, channel: Channel, timeout_s: float | None = None, patience_s: float = 10.0
    ) -> None:
        self.channel = channel
        self._timeout_s = timeout_s
        self._patience_s = patience_s
        self._sizes = AnswerSizes(STREAMED)
        # (session, handle) of callables with a time limit -> milliseconds
        self._callable_limits: dict[tuple[str, int], int] = {}

    def _call(self, method: str, request: Any) -> Any:
        return self.channel.call(MASTER, method, request, self._timeout_s)

    def _run(
        self, method: str, request: bytes, timeout_ms: int, cancellation: CancellationManager | None
    ) -> bytes:
        """Return the answer to a request for a step.

        timeout_ms: the step's limit; 0 for the session's.
        """
        limit = timeout_ms / 1000 if timeout_ms > 0 else self._timeout_s
        try:
            return bytes(self.channel.call(MASTER, method, request, limit, cancellation))
        except errors.DeadlineExceededError as error:
            raise error.restated("Operation timed out.") from None

    def _run_beside(
        self,
        beside: LocalChannel | ParcelCalls,
        method: str,
        request: Parcel,
        timeout_ms: int,
        cancellation: CancellationManager | None,
    ) -> Parcel:
        """Return the answer to a step's request with arrays beside both."""
        limit = timeout_ms / 1000 if timeout_ms > 0 else self._timeout_s
        try:
            return beside.call(MASTER, method, request, limit, cancellation)
        except errors.DeadlineExceededError as error:
            raise error.restated("Operation timed out.") from None

    def create_session(
        self,
        graph_def: Any,
        config: Any,
        target: str = "",
        cancellation: CancellationManager | None = None,
    ) -> tuple[str, int]:
        from tfjit.protos import CreateSessionRequest

        request = CreateSessionRequest(graph_def=graph_def, target=target)
        if config is not None:
            request.config.CopyFrom(config)
        try:
            answer = self.channel.call(
                *(MASTER, "CreateSession", request, self._timeout_s or self._patience_s),
                *(cancellation, True),
            )
        except errors.DeadlineExceededError:
            if self._timeout_s:
                raise
            raise errors.UnavailableError(
                None,
                None,
                f"The task at {self.channel.address} has not made a session within "
                f"{self._patience_s:g} s: is its server running? "
                "ConfigProto.operation_timeout_in_ms sets another limit.",
            ) from None
        return answer.session_handle, answer.graph_version

    def extend_session(self, session: str, graph_def: Any, version: int) -> int:
        from tfjit.protos import ExtendSessionRequest

        request = ExtendSessionRequest(
            session_handle=session, graph_def=graph_def, current_graph_version=version
        )
        return int(self._call("ExtendSession", request).new_graph_version)

    def run_step(self, call: StepCall) -> tuple[list[Any], Any]:
        """Run a step; return (values of the fetches, RunMetadata or None).

        An array that may be written is the caller's own. Raises InternalError for an answer without
        one of the fetches.
        """
        timeout_ms = 0 if call.options is None else call.options.timeout_in_ms
        key = tuple(call.fetches)
        fed = bytes_of(value for _, value in call.feeds)
        beside = self.channel.beside(max(fed, self._sizes.find(key)))
        if beside is None:
            data = self._run("RunStep", step_request(call), timeout_ms, call.cancellation)
            names, values, answer = step_answer(data)
        else:
            parcel = self._run_beside(
                beside, "RunStep", step_parcel(call), timeout_ms, call.cancellation
            )
            answer = parcel.message
            names = [item.name for item in answer.tensor]
            values = [parcel.value(item.tensor) for item in answer.tensor]
        if answer.status_code:
            raise errors.make_error(answer.status_code, answer.status_error_message)
        self._sizes.note(key, values)
        if names != list(call.fetches):
            values = _ordered(names, values, call.fetches)
        return values, answer.metadata if answer.HasField("metadata") else None

    def partial_run_setup(
        self,
        session: str,
        feeds: Sequence[str],
        fetches: Sequence[str],
        targets: Sequence[str],
        request_id: int = 0,
    ) -> str:
        from tfjit.protos import PartialRunSetupRequest

        request = PartialRunSetupRequest(
            session_handle=session,
            feed=feeds,
            fetch=fetches,
            target=targets,
            request_id=request_id or new_request_id(),
        )
        return str(self._call("PartialRunSetup", request).partial_run_handle)

    def close_session(self, session: str) -> None:
        from tfjit.protos import CloseSessionRequest

        request = CloseSessionRequest(session_handle=session)
        self.channel.call(MASTER, "CloseSession", request, self._timeout_s or CLOSE_S)

    def list_devices(
        self, session: str = "", cancellation: CancellationManager | None = None
    ) -> tuple[list[Any], list[Any]]:
        from tfjit.protos import ListDevicesRequest

        request = ListDevicesRequest(session_handle=session)
        answer = self.channel.call(MASTER, "ListDevices", request, self._timeout_s, cancellation)
        return list(answer.local_device), list(answer.remote_device)

    def reset(self, containers: Sequence[str], device_filters: Sequence[str]) -> None:
        from tfjit.protos import ResetRequest

        self._call("Reset", ResetRequest(container=containers, device_filters=device_filters))

    def make_callable(self, session: str, options: Any, request_id: int = 0) -> int:
        from tfjit.protos import MakeCallableRequest

        request = MakeCallableRequest(
            session_handle=session, options=options, request_id=request_id or new_request_id()
        )
        handle = int(self._call("MakeCallable", request).handle)
        if options.run_options.timeout_in_ms > 0:
            self._callable_limits[session, handle] = options.run_options.timeout_in_ms
        return handle

    def run_callable(
        self,
        session: str,
        callable_handle: int,
        values: Sequence[Any],
        request_id: int = 0,
        cancellation: CancellationManager | None = None,
    ) -> tuple[list[Any], Any]:
        """Run a callable; return (values of its fetches, RunMetadata or None).

        An array that may be written is the caller's own.
        """
        timeout_ms = self._callable_limits.get((session, callable_handle), 0)
        key = session, callable_handle
        beside = self.channel.beside(max(bytes_of(values), self._sizes.find(key)))
        if beside is not None:
            sent = callable_parcel(session, callable_handle, values, request_id)
            parcel = self._run_beside(beside, "RunCallable", sent, timeout_ms, cancellation)
            answer = parcel.message
            found = [parcel.value(item) for item in answer.fetch]
            self._sizes.note(key, found)
            return found, answer.metadata if answer.HasField("metadata") else None
        request = callable_request(session, callable_handle, values, request_id or new_request_id())
        found, answer = callable_answer(self._run("RunCallable", request, timeout_ms, cancellation))
        self._sizes.note(key, found)
        return found, answer.metadata if answer.HasField("metadata") else None

    def release_callable(self, session: str, callable_handle: int) -> None:
        from tfjit.protos import ReleaseCallableRequest

        self._callable_limits.pop((session, callable_handle), None)
        request = ReleaseCallableRequest(session_handle=session, handle=callable_handle)
        self.channel.call(MASTER, "ReleaseCallable", request, self._timeout_s or CLOSE_S)


def _ordered(names: Sequence[str], values: Sequence[Any], fetches: Sequence[str]) -> list[Any]:
    """Return an answer's values in the order of the fetches."""
    found = dict(zip(names, values, strict=True))
    missing = [name for name in fetches if name not in found]
    if missing:
        raise errors.InternalError(
            None, None, f"The answer to RunStep has no value of the fetch {missing[0]}."
        )
    return [found[name] for name in fetches]


__all__ = ["CLOSE_S", "RemoteMaster"]
