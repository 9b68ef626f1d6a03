"""Store finished plan variants on disk, for later processes.

A file holds a variant's lowered partition with its compiled calls (`lowered_pickle.py`), named by a
hash of all that decides it (`plan_key.py`). A process that finds the file runs neither passes nor
builders. Files lie beside the kernels, in a directory private to the user: like object code,
their contents are trusted, and digests find damage only.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tfjit.framework import errors, settings
from tfjit.framework.gc_pause import collection_paused
from tfjit.kernels.jit.object_file import write_atomically
from tfjit.kernels.jit.store import store
from tfjit.runtime.schedule.kernel_selection import CallReport
from tfjit.runtime.stored_plans import plan_file
from tfjit.runtime.stored_plans.plan_file import DAMAGED, NotStorable

if TYPE_CHECKING:
    from pathlib import Path

    from tfjit.kernels.ir.backend import Backend
    from tfjit.kernels.source import KernelSource
    from tfjit.runtime.lowering.lowered import Lowered
    from tfjit.runtime.stored_plans.keyed_session import KeyedSession
    from tfjit.runtime.stored_plans.plan_key import PlanKey

log = logging.getLogger("tfjit.plan")

SUFFIX: Final = "stored"
MAX_BYTES: Final = 64 << 20
"""Largest file.

A plan with more folded or packed constants is made anew.
"""
ALL_BYTES: Final = 256 << 20
"""Bytes of all files above which old ones are dropped.

Those longest unused go, down to a half.
"""
LEAST_MS: Final = 10.0
"""Least processor time of passes and builders that is worth a file."""


@dataclass(frozen=True, slots=True)
class StoredPlan:
    """A variant that an earlier process made.

    device: of its partition. nodes: the number of nodes that passes left. kernels: those that were
    loaded then, with their names. assembly_names: those of compiled assembly.
    """

    lowered: Lowered
    calls: CallReport | None
    device: str
    nodes: int
    kernels: tuple[tuple[KernelSource, str], ...]
    assembly_names: Mapping[str, str]


def are_used() -> bool:
    """Return whether plans are stored and read back."""
    return settings.flag("TFJIT_STORED_PLANS")


def path_of(key: str) -> Path | None:
    """Return the file of a key, or None without a directory."""
    directory = store.directory
    return directory / f"{key}.{SUFFIX}" if directory is not None else None


def to_bytes(
    lowered: Lowered,
    calls: CallReport | None,
    device: str,
    nodes: int,
    key: PlanKey,
    name: str = "",
    name_of: Callable[[KernelSource], str] | None = None,
) -> bytes:
    """Return the contents of a file. Raises NotStorable.

    name: of the file; "" is that of the key. name_of: the name of a kernel, by default that of the
    store, of a loaded kernel.
    """
    threads = key.threads if lowered.has_loops or lowered.splits else 0
    report = (calls.kernels, calls.groups, calls.shared, calls.unfused) if calls else None
    fields = (device, nodes, threads, report)
    return plan_file.contents(
        name or key.name, fields, lowered, key, lowered.backend, MAX_BYTES, name_of
    )


def from_bytes(data: memoryview, key: PlanKey, backend: Backend, name: str = "") -> StoredPlan:
    """Return the plan in a file's contents, 64-byte aligned.

    name: of the file; "" is that of the key.

    Raises ValueError for contents that `to_bytes` has not written for this key.
    """
    from tfjit.runtime.lowering.lowered import Lowered

    file = plan_file.opened(data, name or key.name)
    device, nodes, threads, calls = file.fields
    if threads and threads != key.threads:
        raise ValueError(f"its loops are divided between {threads} threads")
    assert isinstance(device, str) and isinstance(nodes, int)
    lowered = file.root(Lowered, key, backend)
    report = CallReport(*calls) if isinstance(calls, tuple) else None
    return StoredPlan(lowered, report, device, nodes, file.kernels, file.assembly_names)


_packed: Final[dict[str, Callable[[], bytes]]] = {}


def add_packed(plans: Mapping[str, Callable[[], bytes]]) -> None:
    """Let the plans of a pack serve this process.

    plans: functions that return their contents, by `PlanKey.name_in_packs`.
    """
    _packed.update(plans)


def _read_packed(session: KeyedSession, key: PlanKey) -> StoredPlan | None:
    """Return a pack's plan for a key, or None."""
    name = key.name_in_packs
    content = _packed.get(name)
    if content is None:
        return None
    try:
        return from_bytes(
            plan_file.at_boundary(content()), key, session.devices.default.backend, name
        )
    except (*DAMAGED, OSError, errors.OpError) as error:
        settings.say("cache", "a packed plan is made again: %s", error)
        return None


def read(session: KeyedSession, key: PlanKey) -> StoredPlan | None:
    """Return the stored plan of a key, or None.

    A damaged file, or one of another version, is ignored.
    """
    if not key.name or not are_used():
        return None
    if _packed:
        with collection_paused():
            found = _read_packed(session, key)
        if found is not None:
            return found
    path = path_of(key.name)
    data = plan_file.read_file(path) if path is not None else None
    if data is None:
        return None
    with collection_paused():
        try:
            return from_bytes(data, key, session.devices.default.backend)
        except DAMAGED as error:
            settings.say("cache", "%s is made again: %s", path, error)
            log.debug("stored plan %s is ignored: %s", path, error)
            return None


def is_stored(name: str) -> bool:
    """Return whether the disk has a file of this name."""
    path = path_of(name) if name and are_used() else None
    return path is not None and path.exists()


def write(name: str, data: bytes) -> bool:
    """Store a file's contents; return whether the disk has them.

    Write errors are ignored, like those of kernels.
    """
    path = path_of(name)
    if path is None:
        return False
    try:
        _drop_old(path.parent, len(data))
        write_atomically(path, data)
    except OSError:
        return False
    return True


def _drop_old(directory: Path, more: int) -> None:
    """Drop the plans longest unused, if all are too large."""
    found = sorted(
        (entry.stat().st_mtime, entry.stat().st_size, entry.path)
        for entry in os.scandir(directory)
        if entry.name.endswith(f".{SUFFIX}")
    )
    total = more + sum(size for _, size, _ in found)
    if total <= ALL_BYTES:
        return
    for _, size, path in found:
        if total <= ALL_BYTES // 2:
            return
        with suppress(OSError):
            os.unlink(path)
        total -= size


__all__ = [
    "ALL_BYTES",
    "LEAST_MS",
    "MAX_BYTES",
    "NotStorable",
    "StoredPlan",
    "add_packed",
    "are_used",
    "from_bytes",
    "is_stored",
    "read",
    "to_bytes",
    "write",
]
