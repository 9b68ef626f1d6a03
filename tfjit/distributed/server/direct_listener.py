"""Answer frames of tfjit's tasks on other hosts through TCP.

The client's end is `channels/direct_channel.py`. A client shows a token that gRPC has told it. So
whoever is admitted reaches the port of gRPC as well, and could run any graph there.
"""

from __future__ import annotations

import secrets
import socket
from typing import Any, Final

from tfjit.distributed.channels.direct_channel import Invitation, greet_client, prepare
from tfjit.distributed.parcels.frames import Connection
from tfjit.distributed.server.local_listener import LocalListener, listening
from tfjit.distributed.server.thread_pool import ThreadPool


class DirectListener(LocalListener):
    """Listen at a free port of an interface. invitation: for clients."""

    def __init__(self, bound: str, pool: ThreadPool) -> None:
        """Bind the port. bound: the interface's address. Raises OSError."""
        super().__init__(0, bound, pool)
        port = int(self._socket.getsockname()[1])
        self.invitation: Final = Invitation(port, secrets.token_hex(16))

    def _bind(self, port: int) -> socket.socket:
        found = socket.getaddrinfo(self._bound.strip("[]"), port, type=socket.SOCK_STREAM)
        family, _, _, _, address = found[0]
        return listening(family, address)

    def _greet(self, connection: Connection, made: socket.socket) -> dict[str, Any]:
        prepare(made)
        return greet_client(connection, self.invitation.token)


__all__ = ["DirectListener"]
