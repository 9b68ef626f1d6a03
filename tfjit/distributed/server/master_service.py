"""The methods of the master's service as calls of a MasterInterface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfjit.distributed.protocol.interfaces import MasterInterface, StepCall
from tfjit.distributed.protocol.status import of_exception
from tfjit.distributed.server.activity import Activity
from tfjit.distributed.server.calls import Call, Method
from tfjit.distributed.server.requests import given
from tfjit.framework import errors
from tfjit.runtime.host.cancellation import CancellationManager


class MasterService:
    """Answer requests to the master of a task."""

    def __init__(self, master: MasterInterface, activity: Activity) -> None:
        self._master = master
        self._activity = activity

    def methods(self) -> Mapping[str, Method]:
        """Return the methods by name."""
        return {
            "CreateSession": self.create_session,
            "ExtendSession": self.extend_session,
            "PartialRunSetup": self.partial_run_setup,
            "RunStep": self.run_step,
            "CloseSession": self.close_session,
            "ListDevices": self.list_devices,
            "Reset": self.reset,
            "MakeCallable": self.make_callable,
            "RunCallable": self.run_callable,
            "ReleaseCallable": self.release_callable,
        }

    def create_session(self, request: Any, call: Call) -> Any:
        """Open a session; close it again if its client has gone meanwhile."""
        from tfjit.protos import CreateSessionResponse

        self._activity.check()
        session, version = self._master.create_session(
            request.graph_def, given(request, "config"), request.target
        )
        if not call.is_active():
            self._master.close_session(session)
        return CreateSessionResponse(session_handle=session, graph_version=version)

    def extend_session(self, request: Any, call: Call) -> Any:
        """Add nodes to a session's graph."""
        from tfjit.protos import ExtendSessionResponse

        version = self._master.extend_session(
            request.session_handle, request.graph_def, request.current_graph_version
        )
        return ExtendSessionResponse(new_graph_version=version)

    def partial_run_setup(self, request: Any, call: Call) -> Any:
        """Prepare a step that is fed and fetched in parts."""
        from tfjit.protos import PartialRunSetupResponse

        self._activity.check()
        handle = self._master.partial_run_setup(
            request.session_handle,
            list(request.feed),
            list(request.fetch),
            list(request.target),
            request.request_id,
        )
        return PartialRunSetupResponse(partial_run_handle=handle)

    def run_step(self, request: Any, call: Call) -> Any:
        """Run a step; its error goes into the answer on request."""
        from tfjit.protos import RunStepResponse

        answer = RunStepResponse()
        try:
            self._fill_step(answer, request, call)
        except BaseException as raised:
            if not request.store_errors_in_response_body:
                raise
            error = of_exception(raised)
            return RunStepResponse(
                status_code=error.error_code,  # type: ignore[arg-type]  # the stub wants the enum
                status_error_message=error.message,
            )
        return answer

    def _fill_step(self, answer: Any, request: Any, call: Call) -> None:
        """Run a step and write its values into the answer."""
        step = StepCall(
            session=request.session_handle,
            feeds=[(item.name, call.value(item.tensor)) for item in request.feed],
            fetches=list(request.fetch),
            targets=list(request.target),
            options=given(request, "options"),
            partial_run=request.partial_run_handle,
            request_id=request.request_id,
            cancellation=_cancelled_with(call),
        )
        call.at_end(self._activity.begin())
        values, metadata = self._master.run_step(step)
        if len(values) != len(step.fetches):
            raise errors.InternalError(
                None, None, f"{len(step.fetches)} fetches gave {len(values)} values."
            )
        for name, value in zip(step.fetches, values):
            fetched = answer.tensor.add()
            fetched.name = name
            call.fill(fetched.tensor, value)
        if metadata is not None:
            answer.metadata.CopyFrom(metadata)

    def close_session(self, request: Any, call: Call) -> Any:
        """End a session."""
        from tfjit.protos import CloseSessionResponse

        self._master.close_session(request.session_handle)
        return CloseSessionResponse()

    def list_devices(self, request: Any, call: Call) -> Any:
        """Return the devices of the cluster, or those that a session sees."""
        from tfjit.protos import ListDevicesResponse

        local, remote = self._master.list_devices(request.session_handle)
        return ListDevicesResponse(local_device=local, remote_device=remote)

    def reset(self, request: Any, call: Call) -> Any:
        """Close all sessions and clear containers."""
        from tfjit.protos import ResetResponse

        self._master.reset(list(request.container), list(request.device_filters))
        return ResetResponse()

    def make_callable(self, request: Any, call: Call) -> Any:
        """Prepare a callable of a session."""
        from tfjit.protos import MakeCallableResponse

        self._activity.check()
        handle = self._master.make_callable(
            request.session_handle, request.options, request.request_id
        )
        return MakeCallableResponse(handle=handle)

    def run_callable(self, request: Any, call: Call) -> Any:
        """Run a callable."""
        from tfjit.protos import RunCallableResponse

        values = [call.value(fed) for fed in request.feed]
        cancellation = _cancelled_with(call)
        call.at_end(self._activity.begin())
        fetched, metadata = self._master.run_callable(
            request.session_handle, request.handle, values, request.request_id, cancellation
        )
        answer = RunCallableResponse()
        for value in fetched:
            call.fill(answer.fetch.add(), value)
        if metadata is not None:
            answer.metadata.CopyFrom(metadata)
        return answer

    def release_callable(self, request: Any, call: Call) -> Any:
        """Forget a callable."""
        from tfjit.protos import ReleaseCallableResponse

        self._master.release_callable(request.session_handle, request.handle)
        return ReleaseCallableResponse()


def _cancelled_with(call: Call) -> CancellationManager:
    """Return a cancellation that follows a client that goes."""
    cancellation = CancellationManager()
    call.when_gone(cancellation.cancel)
    return cancellation
