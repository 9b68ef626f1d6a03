"""Ports for servers of tests."""

from __future__ import annotations

import socket


def free_ports(count: int) -> list[int]:
    """Return ports that no socket is bound to."""
    sockets = [socket.socket() for _ in range(count)]
    for made in sockets:
        made.bind(("localhost", 0))
    ports = [made.getsockname()[1] for made in sockets]
    for made in sockets:
        made.close()
    return ports
