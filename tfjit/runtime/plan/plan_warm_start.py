"""What a plan's compiled step was made of the last time, kept beside the kernels so that the next
process can start with it.

The record of a plan names its kernels in the disk cache and says how long the compiled step took to
make. It is a hint: a process that finds it, and the kernels, serves the first run by compiled code.
A wrong one costs the time of building calls, never a value.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from tfjit.kernels.jit.cache_key import cache_key
from tfjit.kernels.jit.object_file import write_atomically
from tfjit.kernels.jit.store import store

if TYPE_CHECKING:
    from pathlib import Path

    from tfjit.kernels.source import KernelSource
    from tfjit.passes.ir.dataflow_graph import DataflowGraph
    from tfjit.passes.ir.run_spec import RunSpec

MAX_NODES: Final = 3000
"""The passes over a larger graph take longer than any first run, so it is not recorded."""
_RUNS: Final = 15.0


@dataclass(frozen=True, slots=True)
class PlanRecord:
    """kernels: names in the disk cache. compiled_ms: passes, builders and layout, of processor
    time; slow_ms: a run without them.
    """

    kernels: tuple[str, ...]
    compiled_ms: float
    slow_ms: float

    @property
    def pays_soon(self) -> bool:
        """Whether a program with a few runs to do is done earlier if the first one waits for the
        compiled step.
        """
        return self.compiled_ms <= _RUNS * self.slow_ms


def fingerprint(graph: DataflowGraph, spec: RunSpec, names: Iterable[str]) -> str:
    """Hash of a signature and of names, op types and known shapes of the nodes it needs: 2 us a
    node, and enough for a hint.
    """
    digest = hashlib.sha256(
        repr(
            (spec.feeds, spec.fetches, spec.targets, sorted((spec.feed_types or {}).items()))
        ).encode()
    )
    for name in sorted(names):
        node = graph.node(name)
        digest.update(f"{name} {node.op} {node.output_shapes}\n".encode())
    return digest.hexdigest()[:48]


def _path(key: str) -> Path | None:
    return store.directory / f"{key}.plan" if store.directory is not None else None


def read(key: str) -> PlanRecord | None:
    """The record of that fingerprint, if there is one and the disk still has all its kernels."""
    path = _path(key)
    if path is None:
        return None
    try:
        found = json.loads(path.read_bytes())
        record = PlanRecord(
            tuple(map(str, found["kernels"])), float(found["compiled_ms"]), float(found["slow_ms"])
        )
    except (OSError, ValueError, TypeError, KeyError):
        return None  # not there, of another version, or damaged: it is written anew
    return (
        record
        if all(
            os.path.exists(path.parent / f"{os.path.basename(name)}.o") for name in record.kernels
        )
        else None
    )


def write(key: str, sources: Iterable[KernelSource], compiled_ms: float, slow_ms: float) -> None:
    """Record a plan whose kernels are all loaded. What cannot be written is not recorded."""
    path = _path(key)
    if path is None:
        return
    record = PlanRecord(
        (*map(cache_key, sources), *sorted(store.ir_keys)), round(compiled_ms, 1), round(slow_ms, 3)
    )
    try:
        write_atomically(path, json.dumps(asdict(record)).encode())
    except OSError:
        return


__all__ = ["MAX_NODES", "PlanRecord", "fingerprint", "read", "write"]
