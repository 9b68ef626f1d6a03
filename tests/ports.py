"""Ports for servers of tests."""

from __future__ import annotations

import itertools
import os
import random
import socket
from typing import Final

_PORTS: Final = range(20_000, 32_000)
"""Below those that the system gives to connections, which come between choice and use."""
_numbers: itertools.cycle[int] | None = None
_owner = 0  # the process that the numbers are for


def free_ports(count: int) -> list[int]:
    """Return ports that no socket is bound to, each time others.

    Processes begin at random places, so two that look at once find different ports.
    """
    global _numbers, _owner
    if _numbers is None or _owner != os.getpid():
        start = random.SystemRandom().randrange(len(_PORTS))
        _numbers, _owner = itertools.cycle([*_PORTS[start:], *_PORTS[:start]]), os.getpid()
    return list(itertools.islice(filter(_is_free, _numbers), count))


def _is_free(port: int) -> bool:
    with socket.socket() as made:
        try:
            made.bind(("localhost", port))
        except OSError:
            return False
    return True
