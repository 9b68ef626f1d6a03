"""Errors of the runtime as gRPC's status, and back.

TensorFlow's status codes are gRPC's. Payloads travel in the trailing metadata.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tfjit.framework import errors

if TYPE_CHECKING:
    import grpc

DETAILS: Final = "grpc-status-details-bin"
"""The trailing metadata that carry payloads."""
MAX_MESSAGE: Final = 6000
"""The bytes of a message in a status: gRPC limits headers to 8 kB."""
_STREAM_REMOVED: Final = "Stream removed"


def of_exception(error: BaseException) -> errors.OpError:
    """Return any exception of a call as an error of the protocol."""
    if isinstance(error, errors.OpError):
        return error
    return errors.InternalError(None, None, f"{type(error).__name__}: {error}")


def short_message(error: errors.OpError) -> str:
    """Return an error's message, cut to the length of a status."""
    encoded = error.message.encode(errors="replace")  # a name may have lone surrogates
    if len(encoded) * 3 > MAX_MESSAGE:
        length = 0
        for at, byte in enumerate(encoded):
            length += 1 if 0x20 <= byte < 0x7F and byte != 0x25 else 3  # gRPC escapes the others
            if length > MAX_MESSAGE:
                return encoded[:at].decode(errors="ignore") + " ... [truncated]"
    return encoded.decode()


def trailing_metadata(error: errors.OpError) -> tuple[tuple[str, bytes], ...]:
    """Return the metadata with an error's payloads."""
    if not error.experimental_payloads:
        return ()
    from tfjit.protos import GrpcPayloadContainer

    container = GrpcPayloadContainer(payloads=error.experimental_payloads)
    return ((DETAILS, container.SerializeToString()),)


def _payloads(metadata: Any) -> dict[str, bytes]:
    """Return the payloads in trailing metadata, none where they do not parse."""
    from google.protobuf.message import DecodeError

    from tfjit.protos import GrpcPayloadContainer

    for key, value in metadata or ():
        if key == DETAILS:
            try:
                return dict(GrpcPayloadContainer.FromString(value).payloads)
            except DecodeError:
                return {}
    return {}


def of_call(call: grpc.RpcError, target: str) -> errors.OpError:
    """Return the error of a failed call.

    target: the address that was called.
    """
    return of_status(call.code().value[0], call.details() or "", call.trailing_metadata(), target)


def of_status(code: int, text: str, metadata: Any, target: str) -> errors.OpError:
    """Return the error of a status.

    target: the address that was called. A connection that broke is UnavailableError, as if it
    could not be made.
    """
    if code == errors.UNKNOWN and text == _STREAM_REMOVED:
        code = errors.UNAVAILABLE
    payloads = _payloads(metadata)
    if code == errors.UNAVAILABLE and not payloads:
        text = f"{text}\nThe task at {target} cannot be reached."
    made = errors.make_error(code, text)
    made.experimental_payloads.update(payloads)
    return made


__all__ = [
    "DETAILS",
    "MAX_MESSAGE",
    "of_call",
    "of_exception",
    "of_status",
    "short_message",
    "trailing_metadata",
]
