"""Requests that feed and their answers, as bytes and values.

A large feed is copied once, into the request. A large fetched value is a view of the answer.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Final

from google.protobuf.message import DecodeError

from tfjit.distributed.protocol.interfaces import StepCall
from tfjit.distributed.protocol.parcels import Parcel
from tfjit.distributed.protocol.tensors import from_content, from_proto, size_of, tensor_parts
from tfjit.distributed.protocol.wire import fields, varint
from tfjit.framework import errors

# field numbers and wire types
_NAME: Final = b"\x0a"  # of NamedTensorProto
_TENSOR: Final = b"\x12"
_STEP_FEED: Final = b"\x12"  # of RunStepRequest
_STEP_ID: Final = b"\x40"
_CALLABLE_FEED: Final = b"\x1a"  # of RunCallableRequest
_RESULT: Final = 0x0A  # of RunStepResponse and RunCallableResponse
_NAMED_TENSOR: Final = 0x12
_CONTENT: Final = 0x22  # of TensorProto
# a shorter answer is parsed by protobuf, which then takes less time than a walk in Python
_LARGE: Final = 1 << 16


@functools.lru_cache(maxsize=1024)
def _head(
    session: str, fetches: tuple[str, ...], targets: tuple[str, ...], options: bytes, handle: str
) -> bytes:
    """Return the bytes that a signature's RunStepRequests share."""
    from tfjit.protos import RunOptions, RunStepRequest

    return RunStepRequest(
        session_handle=session,
        fetch=fetches,
        target=targets,
        options=RunOptions.FromString(options),
        partial_run_handle=handle,
        store_errors_in_response_body=True,
    ).SerializeToString()


def step_request(call: StepCall) -> bytes:
    """Return the bytes of the RunStepRequest of a call."""
    options = b"" if call.options is None else call.options.SerializeToString()
    parts: list[Any] = [
        _head(call.session, tuple(call.fetches), tuple(call.targets), options, call.partial_run)
    ]
    for name, value in call.feeds:
        tensor = tensor_parts(value)
        text = name.encode()
        named = [_NAME, varint(len(text)), text, _TENSOR, varint(size_of(tensor)), *tensor]
        parts += [_STEP_FEED, varint(size_of(named)), *named]
    if call.request_id:
        parts += [_STEP_ID, varint(call.request_id)]
    return b"".join(parts)


def callable_request(session: str, handle: int, values: Sequence[Any], request_id: int) -> bytes:
    """Return the bytes of a RunCallableRequest."""
    from tfjit.protos import RunCallableRequest

    head = RunCallableRequest(session_handle=session, handle=handle, request_id=request_id)
    parts: list[Any] = [head.SerializeToString()]
    for value in values:
        tensor = tensor_parts(value)
        parts += [_CALLABLE_FEED, varint(size_of(tensor)), *tensor]
    return b"".join(parts)


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

    try:
        if len(data) < _LARGE:
            message = RunStepResponse.FromString(data)
            names = [item.name for item in message.tensor]
            return names, [from_proto(item.tensor) for item in message.tensor], message
        names, values, rest = [], [], bytearray()
        for tag, start, first, end in fields(data, 0, len(data)):
            if tag == _RESULT:
                name, value = _named_tensor(data, first, end)
                names.append(name)
                values.append(value)
            else:
                rest += data[start:end]
        return names, values, RunStepResponse.FromString(bytes(rest))
    except (DecodeError, IndexError) as error:
        raise _faulty("RunStep", error) from None


def callable_answer(data: bytes) -> tuple[list[Any], Any]:
    """Return (values, message) of the bytes of a RunCallableResponse, as `step_answer` does."""
    from tfjit.protos import RunCallableResponse

    try:
        if len(data) < _LARGE:
            message = RunCallableResponse.FromString(data)
            return [from_proto(item) for item in message.fetch], message
        values, rest = [], bytearray()
        for tag, start, first, end in fields(data, 0, len(data)):
            if tag == _RESULT:
                values.append(_tensor(data, first, end))
            else:
                rest += data[start:end]
        return values, RunCallableResponse.FromString(bytes(rest))
    except (DecodeError, IndexError) as error:
        raise _faulty("RunCallable", error) from None


def _named_tensor(data: bytes, at: int, end: int) -> tuple[str, Any]:
    from tfjit.protos import NamedTensorProto

    value, rest = None, bytearray()
    for tag, start, first, stop in fields(data, at, end):
        if tag == _NAMED_TENSOR:
            value = _tensor(data, first, stop)
        else:
            rest += data[start:stop]
    if value is None:
        raise IndexError("a result has no tensor")
    return NamedTensorProto.FromString(bytes(rest)).name, value


def _tensor(data: bytes, at: int, end: int) -> Any:
    """Return the value of a TensorProto within the data."""
    from tfjit.protos import TensorProto

    content, rest = None, bytearray()
    for tag, start, first, stop in fields(data, at, end):
        if tag == _CONTENT:
            content = first, stop
        else:
            rest += data[start:stop]
    described = TensorProto.FromString(bytes(rest))
    return from_proto(described) if content is None else from_content(described, data, *content)


def _faulty(method: str, error: Exception) -> errors.InternalError:
    return errors.InternalError(None, None, f"Could not parse the answer to {method}: {error}")


__all__ = [
    "callable_answer",
    "callable_parcel",
    "callable_request",
    "step_answer",
    "step_parcel",
    "step_request",
]
