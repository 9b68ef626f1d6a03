"""Record a plan's kernels and stages for the next process.

The record lies beside the kernels in the disk cache. It names the plan's kernels and the time that
the compiled step took to build. A process that finds the record and the kernels serves the first
run by compiled code. The record is a hint: a wrong one costs the time of building calls, never a
value. A pack brings the fingerprints and stages of its plans: their first runs always wait for
compiled code.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from tfjit.kernels.jit.object_file import write_atomically
from tfjit.kernels.jit.store import store

if TYPE_CHECKING:
    from pathlib import Path

    from tfjit.kernels.source import KernelSource
    from tfjit.passes.ir.dataflow_graph import DataflowGraph
    from tfjit.passes.ir.run_spec import RunSpec

MAX_NODES: Final = 20_000
"""Largest number of nodes of a recorded plan: the fingerprint costs 2 us a node."""


Splits = tuple[tuple[str, ...], ...]
"""The nodes of a plan's splits, one group a split."""
_packed: Final[dict[str, Splits]] = {}
_recorded: dict[str, Splits] | None = None


@dataclass(frozen=True, slots=True)
class PlanRecord:
    """Record the kernels and the costs of a plan.

    kernels: their names in the store. compiled_ms: processor time of passes, builders and layout.
    slow_ms: time of a run without compiled code.
    """

    kernels: tuple[str, ...]
    compiled_ms: float
    slow_ms: float


def fingerprint(graph: DataflowGraph, spec: RunSpec, names: Iterable[str]) -> str:
    """Return a hash of a run's signature and nodes.

    The hash covers the names, op types and known shapes of the needed nodes. It costs 2 us a node,
    and is exact enough for a hint.
    """
    digest = hashlib.sha256(
        repr(
            (spec.feeds, spec.fetches, spec.targets, sorted((spec.feed_types or {}).items()))
        ).encode()
    )
    for name, value in sorted(spec.feed_values.items()):
        digest.update(f"{name} {value.tolist()}\n".encode())
    for name in sorted(names):
        node = graph.node(name)
        digest.update(f"{name} {node.op} {node.output_shapes}\n".encode())
    return digest.hexdigest()[:48]


def _path(key: str, suffix: str = "plan") -> Path | None:
    return store.directory / f"{key}.{suffix}" if store.directory is not None else None


def add_packed(plans: Mapping[str, Splits]) -> None:
    """Let the plans of these fingerprints run compiled from their first run.

    Their kernels are in a pack, which the store has.
    """
    _packed.update(plans)


def record() -> None:
    """Record fingerprints and splits from now on, for a pack."""
    global _recorded
    _recorded = {}


def recorded() -> dict[str, Splits]:
    """Return the recorded splits by fingerprint."""
    return dict(sorted((_recorded or {}).items()))


def read(key: str) -> PlanRecord | None:
    """Return the record of that fingerprint, or None.

    A record counts only if all its kernels are still on disk, in the cache or the archive.
    """
    if _recorded is not None:
        _recorded.setdefault(key, ())
    if key in _packed:
        return PlanRecord((), compiled_ms=0.0, slow_ms=float("inf"))
    path = _path(key)
    if path is None:
        return None
    try:
        found = json.loads(path.read_bytes())
        record = PlanRecord(
            tuple(map(str, found["kernels"])), float(found["compiled_ms"]), float(found["slow_ms"])
        )
    except (OSError, ValueError, TypeError, KeyError):
        return None  # missing, of another version, or damaged: the record is rewritten
    return record if all(map(store.has_name, record.kernels)) else None


def write(key: str, sources: Iterable[KernelSource], compiled_ms: float, slow_ms: float) -> None:
    """Record a plan after all its kernels are loaded; ignore write errors."""
    path = _path(key) if key not in _packed else None
    if path is None:
        return
    record = PlanRecord(
        (*map(store.name_of, sources), *sorted(store.assembly.keys)),
        round(compiled_ms, 1),
        round(slow_ms, 3),
    )
    try:
        write_atomically(path, json.dumps(asdict(record)).encode())
    except OSError:
        return


def read_splits(key: str) -> list[list[str]]:
    """Return the nodes of a plan's splits, one list a split."""
    if key in _packed:
        return [list(names) for names in _packed[key]]
    path = _path(key, "splits")
    if path is None:
        return []
    try:
        return [list(map(str, names)) for names in json.loads(path.read_bytes())]
    except (OSError, ValueError, TypeError):
        return []  # missing or damaged


def write_splits(key: str, splits: Sequence[Iterable[str]]) -> None:
    """Record the nodes at which a plan is split; ignore write errors."""
    if _recorded is not None:
        _recorded[key] = tuple(tuple(sorted(names)) for names in splits)
    path = _path(key, "splits") if key not in _packed else None
    if path is not None:
        with suppress(OSError):
            write_atomically(path, json.dumps([sorted(names) for names in splits]).encode())


def read_fed_sizes(key: str) -> tuple[int, ...]:
    """Return the positions of the feeds that decide a plan's shapes."""
    path = _path(key, "sizes") if key not in _packed else None
    if path is None:
        return ()
    try:
        return tuple([int(k) for k in json.loads(path.read_bytes())])
    except (OSError, ValueError, TypeError):
        return ()  # missing or damaged


def write_fed_sizes(key: str, positions: Sequence[int]) -> None:
    """Record the feeds that decide a plan's shapes; ignore write errors."""
    path = _path(key, "sizes") if key not in _packed else None
    if path is not None:
        with suppress(OSError):
            write_atomically(path, json.dumps(list(positions)).encode())


__all__ = [
    "MAX_NODES",
    "PlanRecord",
    "Splits",
    "add_packed",
    "fingerprint",
    "read",
    "read_fed_sizes",
    "read_splits",
    "record",
    "recorded",
    "write",
    "write_fed_sizes",
    "write_splits",
]
