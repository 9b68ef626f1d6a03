"""The import of gRPC's library, as this process wants it set."""

from __future__ import annotations

import importlib.metadata
import os
import sys
from typing import Any, Final

from tfjit.framework import errors

_SETTING: Final = "GRPC_EXPERIMENTS"
_KNOWN: Final = (1, 85)
"""The last version of grpcio that is known to have the experiments."""
_LARGEST_IN_HEAP: Final = (32 << 20) - (64 << 10)
"""The bytes of the largest block that glibc counts, less its header."""


def import_grpc() -> Any:
    """Return the module grpc. Raises UnimplementedError where it is not installed."""
    try:
        if "grpc" not in sys.modules:
            _import_polling_grpc()
            _keep_freed_memory()
        import grpc
    except ImportError:
        raise errors.UnimplementedError(
            None,
            None,
            "Clusters need grpcio, which is not installed: pip install 'tfjit[grpc]'",
        ) from None
    return grpc


def _import_polling_grpc() -> None:
    """Import grpc such that waiting threads read the sockets themselves.

    From 1.66 on, other threads read them and wake those that wait, which takes a third of a
    short call's time. gRPC reads the setting when it is loaded. Newer versions than the known ones
    may lack it and would print that; a setting of the user's stays.
    """
    version = importlib.metadata.version("grpcio").split(".")
    if _SETTING in os.environ or not version[1].isdigit() or tuple(map(int, version[:2])) > _KNOWN:
        return
    os.environ[_SETTING] = "-event_engine_client,-event_engine_listener"
    try:
        import grpc  # noqa: F401
    finally:
        del os.environ[_SETTING]


def _keep_freed_memory() -> None:
    """Make the C library keep the memory of freed messages.

    glibc gives freed memory back to the kernel from 128 kB on, until a program frees a larger
    block: then from twice that block's size on. gRPC frees a message's memory before the next one
    comes, and the kernel clears each page that it gives again: a third of the time of 100 MB.
    """
    bytes(_LARGEST_IN_HEAP)  # its pages are never touched


__all__ = ["import_grpc"]
