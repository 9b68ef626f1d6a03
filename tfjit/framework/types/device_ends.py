"""Name feeds and fetches that are in the memory of accelerators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class DeviceEnds:
    """Feeds and fetches in the memory of accelerators.

    Pairs of a tensor's name and its device's full name, sorted.
    """

    feeds: tuple[tuple[str, str], ...] = ()
    fetches: tuple[tuple[str, str], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.feeds or self.fetches)


ON_HOST: Final = DeviceEnds()
"""All feeds and fetches are in host memory."""

__all__ = ["ON_HOST", "DeviceEnds"]
