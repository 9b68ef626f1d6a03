"""The methods of the services: their paths and messages."""

from __future__ import annotations

from typing import Any, Final

from tfjit import protos

MASTER: Final = "tensorflow.MasterService"
WORKER: Final = "tensorflow.WorkerService"
PARCELS: Final = "tfjit.Parcels"
"""The service of tfjit's tasks for each other."""
INVITE: Final = "Invite"
"""The method that tells the port of direct connections, in JSON."""

_METHODS: Final = {
    MASTER: (
        *("CreateSession", "ExtendSession", "PartialRunSetup", "RunStep", "CloseSession"),
        *("ListDevices", "Reset", "MakeCallable", "RunCallable", "ReleaseCallable"),
    ),
    WORKER: (
        *("GetStatus", "CreateWorkerSession", "DeleteWorkerSession", "RegisterGraph"),
        *("DeregisterGraph", "RunGraph", "CleanupGraph", "CleanupAll", "RecvTensor"),
        *("MarkRecvFinished", "Logging", "Tracing", "RecvBuf"),
        *("CompleteGroup", "CompleteInstance", "GetStepSequence"),
    ),
    PARCELS: ("RecvTensors", "CleanupGraphs"),
}
_MESSAGES: Final = {
    "CleanupGraphsRequest": "Int64List",  # the ids of steps
    "CleanupGraphsResponse": "CleanupGraphResponse",
}


def method_names(service: str) -> tuple[str, ...]:
    """Return the names of a service's methods."""
    return _METHODS[service]


def path(service: str, method: str) -> str:
    """Return the path of a method in requests."""
    return f"/{service}/{method}"


def request_class(method: str) -> Any:
    """Return the message class of a method's requests."""
    return _message_class(f"{method}Request")


def response_class(method: str) -> Any:
    """Return the message class of a method's answers."""
    return _message_class(f"{method}Response")


def _message_class(name: str) -> Any:
    return getattr(protos, _MESSAGES.get(name, name))
