"""Say whether another runtime can take part."""

from __future__ import annotations

import importlib.util


class Absent(Exception):
    """A candidate cannot take part; the message says why."""


def installed(module: str) -> bool:
    """Return whether a module can be imported."""
    return importlib.util.find_spec(module) is not None


__all__ = ["Absent", "installed"]
