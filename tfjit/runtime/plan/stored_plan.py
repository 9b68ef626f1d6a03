"""Store finished plan variants on disk, for later processes.

A file holds a variant's lowered partition with its compiled calls (`lowered_pickle.py`), named by a
hash of all that decides it (`plan_key.py`). A process that finds the file runs neither passes nor
builders. Files lie beside the kernels, in a directory private to the user: like object code,
their contents are trusted, and digests find damage only.
"""

from __future__ import annotations

import hashlib
import logging
import os
import pickle
import struct
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from tfjit.framework import errors, settings
from tfjit.framework.gc_pause import collection_paused
from tfjit.kernels.jit.object_file import write_atomically
from tfjit.kernels.jit.store import store
from tfjit.kernels.source import KernelSource
from tfjit.runtime.lowering.lowered_pickle import ALIGN_BYTES, NotStorable, decode, encode
from tfjit.runtime.schedule.kernel_selection import CallReport

if TYPE_CHECKING:
    from pathlib import Path

    from tfjit.kernels.ir.backend import Backend
    from tfjit.runtime.lowering.lowering import Lowered
    from tfjit.runtime.plan.host import PlanHost
    from tfjit.runtime.plan.plan_key import PlanKey
    from tfjit.runtime.resources.variables_and_resources import Variable

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
_MAGIC: Final = b"tfjit plan 1\n"
_LENGTHS: Final = struct.Struct("<QQ")  # of the header and of the pickle
_TOUCH_S: Final = 86_400.0
_DIGEST_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class StoredPlan:
    """A variant that an earlier process made.

    device: of its partition. nodes: the number of nodes that passes left. kernels: those that were
    loaded then, with their names. ir_names: those of compiled assembly.
    """

    lowered: Lowered
    calls: CallReport | None
    device: str
    nodes: int
    kernels: tuple[tuple[KernelSource, str], ...]
    ir_names: Mapping[str, str]


def are_used() -> bool:
    """Return whether plans are stored and read back."""
    return settings.flag("TFJIT_STORED_PLANS")


def path_of(key: str) -> Path | None:
    """Return the file of a key, or None without a directory."""
    directory = store.directory
    return directory / f"{key}.{SUFFIX}" if directory is not None else None


def _aligned(count: int) -> int:
    return -count % ALIGN_BYTES


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
    variables = {id(variable): name for name, variable in key.variables.items()}
    encoded = encode(lowered, variables, key.constants)
    sizes = [buffer.raw().nbytes for buffer in encoded.arrays]
    if sum(sizes) + len(encoded.pickled) > MAX_BYTES:
        raise NotStorable(f"it takes {sum(sizes) >> 20} MB")
    header = pickle.dumps(
        (
            name or key.name,
            device,
            nodes,
            key.threads if lowered.has_loops or lowered.splits else 0,
            (calls.kernels, calls.groups, calls.shared, calls.unfused) if calls else None,
            [
                (s.text, s.entries, s.arity, s.interleave, s.title, s.module, s.attempt)
                for s in encoded.sources
            ],
            [*map(name_of or _name_of, encoded.sources)],
            dict(store.ir_names),
            sizes,
        ),
        5,
    )
    parts = [_LENGTHS.pack(len(header), len(encoded.pickled)), header, encoded.pickled]
    at = len(_MAGIC) + _DIGEST_BYTES + sum(map(len, parts))
    for buffer in encoded.arrays:
        gap = _aligned(at)
        parts += [bytes(gap), buffer.raw().tobytes()]
        at += gap + len(parts[-1])
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return b"".join([_MAGIC, digest.digest(), *parts])


def _name_of(source: KernelSource) -> str:
    return store.name_of(source) if store.lookup(source) is not None else ""


def from_bytes(data: memoryview, key: PlanKey, backend: Backend, name: str = "") -> StoredPlan:
    """Return the plan in a file's contents, 64-byte aligned.

    name: of the file; "" is that of the key.

    Raises ValueError for contents that `to_bytes` has not written for this key.
    """
    start = len(_MAGIC)
    if bytes(data[:start]) != _MAGIC:
        raise ValueError("it is of another version")
    body = start + _DIGEST_BYTES
    if hashlib.sha256(data[body:]).digest() != bytes(data[start:body]):
        raise ValueError("its digest does not match")
    header_bytes, pickled_bytes = _LENGTHS.unpack_from(data, body)
    body += _LENGTHS.size
    found, device, nodes, threads, calls, texts, names, ir_names, sizes = pickle.loads(
        data[body : body + header_bytes]
    )
    if found != (name or key.name):
        raise ValueError("it is another plan's")
    if threads and threads != key.threads:
        raise ValueError(f"its loops are divided between {threads} threads")
    body += header_bytes
    pickled = data[body : body + pickled_bytes]
    at = body + pickled_bytes
    arrays = []
    for size in sizes:
        at += _aligned(at)
        arrays.append(data[at : at + size])
        at += size
    sources = [KernelSource(*fields) for fields in texts]
    named = [(source, name) for source, name in zip(sources, names, strict=True) if name]

    def variable(node: str) -> Variable:
        return key.variables[node]

    def constant(node: str) -> np.ndarray:
        return np.ascontiguousarray(key.constants[node])

    try:
        lowered = decode(pickled, arrays, sources, variable, constant, backend)
    # a class or a node that is no longer there
    except (pickle.UnpicklingError, AttributeError, LookupError, TypeError, ImportError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error
    report = CallReport(*calls) if calls is not None else None
    return StoredPlan(lowered, report, device, nodes, tuple(named), ir_names)


_packed: Final[dict[str, Callable[[], bytes]]] = {}


def add_packed(plans: Mapping[str, Callable[[], bytes]]) -> None:
    """Let the plans of a pack serve this process.

    plans: functions that return their contents, by `PlanKey.name_in_packs`.
    """
    _packed.update(plans)


def _read_packed(session: PlanHost, key: PlanKey) -> StoredPlan | None:
    """Return a pack's plan for a key, or None."""
    name = key.name_in_packs
    content = _packed.get(name)
    if content is None:
        return None
    try:
        return from_bytes(_at_boundary(content()), key, session.devices.default.backend, name)
    except (ValueError, struct.error, EOFError, OSError, errors.OpError) as error:
        settings.say("cache", "a packed plan is made again: %s", error)
        return None


def _at_boundary(data: bytes) -> memoryview:
    """Return a copy of the bytes on a boundary of ALIGN_BYTES."""
    whole = np.empty(len(data) + ALIGN_BYTES, np.uint8)
    first = _aligned(whole.ctypes.data)
    whole[first : first + len(data)] = np.frombuffer(data, np.uint8)
    return memoryview(whole)[first : first + len(data)].toreadonly()  # type: ignore[arg-type]


def _read_file(path: Path) -> memoryview | None:
    """Return a file's bytes on a boundary of ALIGN_BYTES, or None."""
    try:
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
            size = found.st_size
            whole = np.empty(size + ALIGN_BYTES, np.uint8)
            first = _aligned(whole.ctypes.data)
            data = memoryview(whole)[first : first + size]  # type: ignore[arg-type]
            if file.readinto(data) != size:
                return None
            if time.time() - found.st_mtime > _TOUCH_S:
                with suppress(OSError):
                    os.utime(path)  # files are dropped by their last use
    except OSError:
        return None
    return data.toreadonly()


def read(session: PlanHost, key: PlanKey) -> StoredPlan | None:
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
    data = _read_file(path) if path is not None else None
    if data is None:
        return None
    with collection_paused():
        try:
            return from_bytes(data, key, session.devices.default.backend)
        except (ValueError, struct.error, EOFError) as error:
            settings.say("cache", "%s is made again: %s", path, error)
            log.debug("stored plan %s is ignored: %s", path, error)
            return None


def write(key: PlanKey, data: bytes) -> bool:
    """Store a file's contents; return whether the disk has them.

    Write errors are ignored, like those of kernels.
    """
    path = path_of(key.name)
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
    "StoredPlan",
    "add_packed",
    "are_used",
    "from_bytes",
    "read",
    "to_bytes",
    "write",
]
