"""The health service, which launchers and load balancers ask.

Its messages have one field each, so they are read and written by hand: grpcio alone brings no
classes for them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tfjit.distributed.protocol.methods import MASTER, WORKER
from tfjit.distributed.protocol.wire import read_varint
from tfjit.framework import errors

SERVICE: Final = "grpc.health.v1.Health"
METHOD: Final = "Check"
_SERVING: Final = b"\x08\x01"
_NOT_SERVING: Final = b"\x08\x02"
_NAME: Final = 0x0A


def answer(request: bytes, is_serving: Callable[[], bool]) -> bytes:
    """Return the answer to a check of the server or a service.

    Raises NotFoundError for another service, InvalidArgumentError for bytes that are no request.
    """
    service = _service_of(request)
    if service not in ("", MASTER, WORKER, SERVICE):
        raise errors.NotFoundError(None, None, f"There is no service {service!r}.")
    return _SERVING if is_serving() else _NOT_SERVING


def _service_of(request: bytes) -> str:
    """Return the name in a request, which is its only field."""
    name, at = b"", 0
    try:
        while at < len(request):
            if request[at] != _NAME:
                raise IndexError
            length, at = read_varint(request, at + 1)
            name, at = request[at : at + length], at + length
            if len(name) != length:
                raise IndexError
        return name.decode()
    except (IndexError, UnicodeDecodeError):
        raise errors.InvalidArgumentError(
            None, None, f"Could not parse {len(request)} bytes as a HealthCheckRequest."
        ) from None
