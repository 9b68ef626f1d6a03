"""Answers to calls, and their errors, in frames."""

from __future__ import annotations

from tfjit.distributed.parcels.frames import ANSWER, FAILURE, PART, Frame
from tfjit.distributed.parcels.parcels import Parcel
from tfjit.distributed.protocol import methods
from tfjit.framework import errors


def answer(method: str, frame: Frame) -> Parcel:
    """Return the answer in a frame. Raises the error that it has."""
    from google.protobuf.message import DecodeError

    if frame.kind == FAILURE:
        raise _failure(frame)
    if frame.kind not in (ANSWER, PART):
        raise errors.InternalError(None, None, f"{method} was answered by a frame of another kind.")
    try:
        message = methods.response_class(method).FromString(frame.message)
    except DecodeError as error:
        raise errors.InternalError(
            None, None, f"Could not parse the answer to {method}: {error}"
        ) from None
    return Parcel(message, list(frame.arrays))


def _failure(frame: Frame) -> errors.OpError:
    """Return the error in a frame: its code is the method's number."""
    from tfjit.protos import GrpcPayloadContainer

    length = int.from_bytes(frame.message[:4], "little")
    error = errors.make_error(frame.method, frame.message[4 : 4 + length].decode(errors="replace"))
    payloads = GrpcPayloadContainer.FromString(frame.message[4 + length :]).payloads
    error.experimental_payloads.update(payloads)
    return error


def failure_message(error: errors.OpError) -> bytes:
    """Return the message of a frame that carries an error."""
    from tfjit.protos import GrpcPayloadContainer

    text = error.message.encode(errors="replace")  # a name may have lone surrogates
    payloads = GrpcPayloadContainer(payloads=error.experimental_payloads)
    return len(text).to_bytes(4, "little") + text + payloads.SerializeToString()


__all__ = ["answer", "failure_message"]
