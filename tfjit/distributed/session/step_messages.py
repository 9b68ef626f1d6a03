"""Requests that feed and their answers, as messages with arrays beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from google.protobuf.message import DecodeError

from tfjit.distributed.parcels.parcel_bytes import decode, encode
from tfjit.distributed.parcels.parcels import Parcel
from tfjit.distributed.protocol.interfaces import StepCall
from tfjit.framework import errors


def step_request(call: StepCall) -> bytes:
    """Return the bytes of the RunStepRequest of a call."""
    return encode(step_parcel(call))


def callable_request(session: str, handle: int, values: Sequence[Any], request_id: int) -> bytes:
    """Return the bytes of a RunCallableRequest."""
    return encode(callable_parcel(session, handle, values, request_id))


def step_parcel(call: StepCall) -> Parcel:
    """Return the RunStepRequest of a call with arrays beside it."""
    from tfjit.protos import RunStepRequest

    request = RunStepRequest(
        session_handle=call.session,
        fetch=call.fetches,
        target=call.targets,
        options=call.options,
        partial_run_handle=call.partial_run,
        store_errors_in_response_body=True,
        request_id=call.request_id,
    )
    parcel = Parcel(request)
    for name, value in call.feeds:
        fed = request.feed.add(name=name)
        parcel.fill(fed.tensor, value)
    return parcel


def callable_parcel(session: str, handle: int, values: Sequence[Any], request_id: int) -> Parcel:
    """Return a RunCallableRequest with arrays beside it."""
    from tfjit.protos import RunCallableRequest

    parcel = Parcel(
        RunCallableRequest(session_handle=session, handle=handle, request_id=request_id)
    )
    for value in values:
        parcel.fill(parcel.message.feed.add(), value)
    return parcel


def step_answer(data: bytes) -> tuple[list[str], list[Any], Any]:
    """Return (names, values, message) of the bytes of a RunStepResponse.

    The message may lack the tensors. Raises InternalError for bytes that are no such message,
    InvalidArgumentError for a tensor that does not fit its shape.
    """
    from tfjit.protos import RunStepResponse

    parcel = _answer("RunStep", RunStepResponse, data)
    named = parcel.message.tensor
    return [item.name for item in named], [parcel.value(i.tensor) for i in named], parcel.message


def callable_answer(data: bytes) -> tuple[list[Any], Any]:
    """Return (values, message) of the bytes of a RunCallableResponse, as `step_answer` does."""
    from tfjit.protos import RunCallableResponse

    parcel = _answer("RunCallable", RunCallableResponse, data)
    return [parcel.value(item) for item in parcel.message.fetch], parcel.message


def _answer(method: str, message_class: Any, data: bytes) -> Parcel:
    try:
        return decode(message_class, data)
    except DecodeError as error:
        raise errors.InternalError(
            None, None, f"Could not parse the answer to {method}: {error}"
        ) from None


__all__ = [
    "callable_answer",
    "callable_parcel",
    "callable_request",
    "step_answer",
    "step_parcel",
    "step_request",
]
