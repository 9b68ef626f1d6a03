"""Count the work of the kernel store."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Counters:
    """Counts of the store's work.

    hits: loaded from disk, of them precompiled: from an archive; misses: not on disk; compiled,
    refused: answers of workers; times in ms.
    """

    hits: int = 0
    precompiled: int = 0
    misses: int = 0
    damaged: int = 0
    compiled: int = 0
    refused: int = 0
    load_ms: float = 0.0
    compile_ms: float = 0.0
