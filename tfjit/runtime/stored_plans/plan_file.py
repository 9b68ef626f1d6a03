"""Write and open the bytes of a stored plan.

The bytes hold a digest, a header and a pickle (`lowered_pickle.py`). The header has the plan's
name, the fields that its kind needs, and the kernels with their names in the store. Large arrays
lie behind the pickle, on boundaries of ALIGN_BYTES. Digests find damage only.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import struct
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np

from tfjit.kernels.jit.store import store
from tfjit.kernels.source import KernelSource
from tfjit.runtime.lowering.lowered_pickle import ALIGN_BYTES, NotStorable, decode, encode

if TYPE_CHECKING:
    from pathlib import Path

    from tfjit.kernels.ir.backend import Backend
    from tfjit.runtime.resources.variables_and_resources import Variable
    from tfjit.runtime.stored_plans.plan_key import PlanKey

_Root = TypeVar("_Root")
_MAGIC: Final = b"tfjit plan 2\n"
_LENGTHS: Final = struct.Struct("<QQ")  # of the header and of the pickle
_TOUCH_S: Final = 86_400.0
_DIGEST_BYTES: Final = 32

DAMAGED: Final = (ValueError, struct.error, EOFError)
"""Errors of bytes that `contents` has not written."""


@dataclass(frozen=True, slots=True)
class PlanFile:
    """Hold an opened file.

    fields: of its kind. kernels: those that were loaded when it was written, with their names.
    assembly_names: those of compiled assembly.
    """

    fields: tuple[object, ...]
    kernels: tuple[tuple[KernelSource, str], ...]
    assembly_names: Mapping[str, str]
    _sources: tuple[KernelSource, ...]
    _pickled: memoryview
    _arrays: tuple[memoryview, ...]

    def root(self, kind: type[_Root], key: PlanKey, backend: Backend) -> _Root:
        """Return the pickled object.

        Raises ValueError where it is of another kind, or its classes are no longer there.
        """

        def variable(node: str) -> Variable:
            return key.variables[node]

        def constant(node: str) -> np.ndarray:
            return np.ascontiguousarray(key.constants[node])

        try:
            return decode(
                kind, self._pickled, self._arrays, self._sources, variable, constant, backend
            )
        # a class or a node that is no longer there
        except (
            pickle.UnpicklingError,
            AttributeError,
            LookupError,
            TypeError,
            ImportError,
        ) as error:
            raise ValueError(f"{type(error).__name__}: {error}") from error


def contents(
    name: str,
    fields: tuple[object, ...],
    root: object,
    key: PlanKey,
    backend: Backend,
    most_bytes: int,
    name_of: Callable[[KernelSource], str] | None = None,
) -> bytes:
    """Return the bytes of a plan. Raises NotStorable.

    name: of the file. root: the object to pickle, with a partition of this backend. name_of: the
    name of a kernel, by default that of the store, of a loaded kernel.
    """
    variables = {id(variable): name for name, variable in key.variables.items()}
    encoded = encode(root, backend, variables, key.constants)
    sizes = [buffer.raw().nbytes for buffer in encoded.arrays]
    if sum(sizes) + len(encoded.pickled) > most_bytes:
        raise NotStorable(f"it takes {sum(sizes) >> 20} MB")
    header = pickle.dumps(
        (
            name,
            fields,
            [
                (s.text, s.entries, s.arity, s.interleave, s.title, s.module, s.attempt)
                for s in encoded.sources
            ],
            [*map(name_of or _name_of, encoded.sources)],
            dict(store.assembly.names),
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


def opened(data: memoryview, name: str) -> PlanFile:
    """Return the file in these bytes.

    data: on a boundary of ALIGN_BYTES. Raises one of DAMAGED for bytes that `contents` has not
    written under this name.
    """
    start = len(_MAGIC)
    if bytes(data[:start]) != _MAGIC:
        raise ValueError("it is of another version")
    body = start + _DIGEST_BYTES
    if hashlib.sha256(data[body:]).digest() != bytes(data[start:body]):
        raise ValueError("its digest does not match")
    header_bytes, pickled_bytes = _LENGTHS.unpack_from(data, body)
    body += _LENGTHS.size
    found, fields, texts, names, assembly_names, sizes = pickle.loads(
        data[body : body + header_bytes]
    )
    if found != name:
        raise ValueError("it is another plan's")
    body += header_bytes
    pickled = data[body : body + pickled_bytes]
    at = body + pickled_bytes
    arrays = []
    for size in sizes:
        at += _aligned(at)
        arrays.append(data[at : at + size])
        at += size
    sources = tuple(KernelSource(*text) for text in texts)
    named = tuple((source, name) for source, name in zip(sources, names, strict=True) if name)
    return PlanFile(fields, named, assembly_names, sources, pickled, tuple(arrays))


def _name_of(source: KernelSource) -> str:
    return store.name_of(source) if store.lookup(source) is not None else ""


def _aligned(count: int) -> int:
    return -count % ALIGN_BYTES


def _space(size: int) -> memoryview:
    """Return memory on a boundary of ALIGN_BYTES."""
    whole = np.empty(size + ALIGN_BYTES, np.uint8)
    first = _aligned(whole.ctypes.data)
    return memoryview(whole)[first : first + size]  # type: ignore[arg-type]


def at_boundary(data: bytes) -> memoryview:
    """Return a copy of the bytes on a boundary of ALIGN_BYTES."""
    space = _space(len(data))
    space[:] = data
    return space.toreadonly()


def read_file(path: Path) -> memoryview | None:
    """Return a file's bytes on a boundary of ALIGN_BYTES, or None."""
    try:
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
            data = _space(found.st_size)
            if file.readinto(data) != found.st_size:
                return None
            if time.time() - found.st_mtime > _TOUCH_S:
                with suppress(OSError):
                    os.utime(path)  # files are dropped by their last use
    except OSError:
        return None
    return data.toreadonly()


__all__ = ["DAMAGED", "NotStorable", "PlanFile", "at_boundary", "contents", "opened", "read_file"]
