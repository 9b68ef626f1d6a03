"""Read and write packs: models with plans and kernels in one file.

A pack is a ZIP file of uncompressed entries:

    tfjit_pack.json         the manifest: versions, runs, levels, size and SHA-256 of each entry
    model.pb                the GraphDef or MetaGraphDef
    variables/, assets/     of a SavedModel
    kernels/<level>.tfk     an archive of kernels (kernels/jit/archive.py) for a level of x86-64
    plans/<level>/<key>     finished plans of the runs (runtime/stored_plans/stored_plan.py)

The digests find damage. They are no signature: the machine code of a pack is run, so a pack has to
be trusted as a library is.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import struct
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tfjit.framework import errors
from tfjit.framework.version import __version__

if TYPE_CHECKING:
    import zipfile

    from tfjit.framework.graphs.typing import Message
    from tfjit.kernels.jit.archive import Archive

MODEL: Final = "model.pb"
_MANIFEST: Final = "tfjit_pack.json"
_FORMAT: Final = 1
_ZIP: Final = b"PK\x03\x04"
_LOCAL: Final = struct.Struct("<26xHH")  # lengths of name and extra field in a local header
_MANIFEST_BYTES: Final = 64 << 20
_BLOCK_BYTES: Final = 1 << 22
_DATE: Final = (1980, 1, 1, 0, 0, 0)  # equal contents make equal files


@dataclass(frozen=True, slots=True)
class PackedRun:
    """A run that the pack holds a plan of.

    feeds: shape by tensor name. fetches: names of tensors and operations. dynamic_reason: why the
    dataflow executor runs it node by node, "" for a run that is one step.
    """

    feeds: Mapping[str, tuple[int, ...]]
    fetches: tuple[str, ...]
    dynamic_reason: str = ""


@dataclass(frozen=True, slots=True)
class StartupRun:
    """A run that restores variables or fills tables of a new session.

    target: the operation. files: entry (or prefix of entries) by the string tensor that it is fed
    to.
    """

    target: str
    files: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PackedLevel:
    """The kernels for one level of x86-64.

    kernels: their number. plans: fingerprints of the plans that they serve, with the nodes at which
    each is split into stages. refused: titles of the kernels that cannot be compiled, which
    references serve.
    """

    kernels: int
    plans: Mapping[str, tuple[tuple[str, ...], ...]]
    refused: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Manifest:
    """The contents of a pack.

    tfjit: the version that wrote it. compiler: the digest of its compiler's sources. system,
    machine: as the kernels' ABI has them. kind: "GraphDef", "MetaGraphDef" or "SavedModel". levels:
    by name.
    """

    tfjit: str
    compiler: str
    system: str
    machine: str
    kind: str
    runs: tuple[PackedRun, ...] = ()
    startup: tuple[StartupRun, ...] = ()
    levels: Mapping[str, PackedLevel] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry's place in the file, size in bytes and digest."""

    begin: int
    size: int
    sha256: str


def pack_path(source: object) -> Path | None:
    """Return the path if a graph argument names a pack, else None.

    A pack is a ZIP file, which no message is. Raises OSError.
    """
    if isinstance(source, (str, os.PathLike)):
        path = Path(source)
        if path.is_file():
            with path.open("rb") as file:
                return path if file.read(len(_ZIP)) == _ZIP else None
    return None


class PackFile:
    """A pack that is open for reading.

    Its manifest is read at once, an entry when it is asked for. Safe to use from any thread.
    """

    def __init__(self, path: Path) -> None:
        """Read the manifest of the pack at `path`.

        Raises OSError when the file cannot be read, InvalidArgumentError when it is no pack, is cut
        off, or has a format of another version.
        """
        import zipfile

        self.path = path.absolute()
        self.size_bytes = path.stat().st_size
        try:
            with zipfile.ZipFile(path) as file:
                infos = {info.filename: info for info in file.infolist()}
                if _MANIFEST not in infos:
                    raise _invalid(f"{path} is a ZIP file and no pack of tfjit.")
                if infos[_MANIFEST].file_size > _MANIFEST_BYTES:
                    raise _invalid(f"{path} is a damaged pack: its manifest is too large.")
                content = json.loads(file.read(_MANIFEST))
        except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError) as error:
            raise _invalid(f"{path} is a damaged or truncated pack: {error}.") from None
        try:
            if int(content["format"]) != _FORMAT:
                raise _invalid(
                    f"{path} is a pack of format {content['format']}, and tfjit reads format "
                    f"{_FORMAT} here: pack the model again."
                )
            self.manifest = _manifest(content)
            self.entries = {
                str(name): self._entry(infos[name], str(entry["sha256"]), int(entry["bytes"]))
                for name, entry in content["entries"].items()
            }
        except (KeyError, TypeError, ValueError, AttributeError, struct.error) as error:
            raise _invalid(
                f"{path} is a damaged pack: {type(error).__name__} in its manifest: {error}."
            ) from None
        missing = [archive_name(level) for level in self.manifest.levels]
        missing = [name for name in (MODEL, *missing) if name not in self.entries]
        if missing:
            raise _invalid(f"{path} is a damaged pack: it lacks {', '.join(missing)}.")

    def _entry(self, info: zipfile.ZipInfo, digest: str, size: int) -> Entry:
        """Return the place of an entry.

        Raises ValueError when it cannot be right.
        """
        with self.path.open("rb") as file:
            file.seek(info.header_offset)
            name_bytes, extra_bytes = _LOCAL.unpack(file.read(_LOCAL.size))
        begin = info.header_offset + _LOCAL.size + name_bytes + extra_bytes
        stored = info.compress_type == 0 and info.file_size == size
        if not stored or begin + size > self.size_bytes:
            raise ValueError(f"{info.filename} has another form or size")
        return Entry(begin, size, digest)

    def read(self, name: str) -> bytes:
        """Return the bytes of an entry.

        Raises KeyError without one of that name, OSError when the file cannot be read,
        DataLossError when the bytes do not match their digest.
        """
        entry = self.entries[name]
        with self.path.open("rb") as file:
            file.seek(entry.begin)
            data = file.read(entry.size)
        self._compare(name, hashlib.sha256(data).hexdigest())
        return data

    def check(self, name: str) -> None:
        """Compare an entry with its digest, block by block.

        Raises KeyError, OSError, DataLossError as `read` does.
        """
        entry = self.entries[name]
        digest, left = hashlib.sha256(), entry.size
        with self.path.open("rb") as file:
            file.seek(entry.begin)
            while left and (block := file.read(min(left, _BLOCK_BYTES))):
                digest.update(block)
                left -= len(block)
        self._compare(name, digest.hexdigest())

    def _compare(self, name: str, digest: str) -> None:
        if digest != self.entries[name].sha256:
            raise errors.DataLossError(
                None, None, f"{self.path}: {name} does not match its digest: the pack is damaged."
            )

    def message(self) -> Message:
        """Return the GraphDef or MetaGraphDef.

        Raises OSError, DataLossError when it is damaged.
        """
        from google.protobuf.message import DecodeError

        from tfjit.protos import GraphDef, MetaGraphDef

        kind: type[Message] = GraphDef if self.manifest.kind == "GraphDef" else MetaGraphDef
        try:
            return kind.FromString(self.read(MODEL))
        except DecodeError as error:
            raise errors.DataLossError(None, None, f"{self.path}: {MODEL}: {error}") from None

    def plans(self, level: str) -> dict[str, str]:
        """Return the entries of a level's finished plans by key."""
        prefix = plan_name(level, "")
        return {name.removeprefix(prefix): name for name in self.entries if name.startswith(prefix)}

    def archive(self, level: str) -> Archive:
        """Return the kernels for a level.

        Raises KeyError for another level, OSError, DataLossError when they do not match their
        digest.
        """
        from tfjit.kernels.jit.archive import Archive, DamagedArchive

        name = archive_name(level)
        self.check(name)
        try:
            return Archive(self.path, self.entries[name].begin)
        except DamagedArchive as error:
            raise errors.DataLossError(None, None, str(error)) from None

    def fitting_level(self) -> tuple[str, str]:
        """Return the level that fits this process, or "" and the reason."""
        from tfjit.kernels.jit import target
        from tfjit.kernels.jit.cache_key import compiler_digest

        packed = self.manifest
        here = (sys.platform, platform.machine().lower())
        if (packed.system, packed.machine) != here:
            return "", f"they are for {packed.system} on {packed.machine}, not {' on '.join(here)}"
        if packed.tfjit != __version__:
            return "", f"they were compiled by tfjit {packed.tfjit}, and this is {__version__}"
        if packed.compiler != compiler_digest():
            return "", f"they were compiled by other sources of tfjit {__version__}"
        levels = target.levels_here()
        found = next((level for level in levels if level in packed.levels), "")
        if found:
            return found, ""
        wanted = ", ".join(sorted(packed.levels))
        return "", f"they are for {wanted}, and this process has {', '.join(levels) or 'no level'}"


def archive_name(level: str) -> str:
    """Return the name of the entry with a level's kernels."""
    return f"kernels/{level}.tfk"


def plan_name(level: str, key: str) -> str:
    """Return the name of the entry with a level's plan."""
    return f"plans/{level}/{key}"


def write_pack(path: Path, manifest: Manifest, entries: Mapping[str, bytes | Path]) -> int:
    """Write a pack in one atomic step; return its size in bytes.

    entries: content, or the file that holds it, by name. Raises OSError.
    """
    import zipfile

    listed: dict[str, dict[str, object]] = {}
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as file:
            for name, content in sorted(entries.items()):
                digest, size = hashlib.sha256(), 0
                with file.open(zipfile.ZipInfo(name, _DATE), "w", force_zip64=True) as target:
                    for block in _blocks(content):
                        target.write(block)
                        digest.update(block)
                        size += len(block)
                listed[name] = {"bytes": size, "sha256": digest.hexdigest()}
            text = json.dumps({"format": _FORMAT, **asdict(manifest), "entries": listed}, indent=1)
            file.writestr(zipfile.ZipInfo(_MANIFEST, _DATE), text)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return path.stat().st_size


def _blocks(content: bytes | Path) -> Iterator[bytes]:
    if isinstance(content, bytes):
        yield content
        return
    with content.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            yield block


def _manifest(content: Mapping[str, Any]) -> Manifest:
    """Return the manifest in parsed JSON. Raises KeyError, TypeError, ValueError."""
    return Manifest(
        tfjit=str(content["tfjit"]),
        compiler=str(content["compiler"]),
        system=str(content["system"]),
        machine=str(content["machine"]),
        kind=str(content["kind"]),
        runs=tuple(
            PackedRun(
                {str(name): tuple(map(int, shape)) for name, shape in run["feeds"].items()},
                tuple(map(str, run["fetches"])),
                str(run["dynamic_reason"]),
            )
            for run in content["runs"]
        ),
        startup=tuple(
            StartupRun(
                str(run["target"]), {str(name): str(file) for name, file in run["files"].items()}
            )
            for run in content["startup"]
        ),
        levels={
            str(name): PackedLevel(
                int(level["kernels"]),
                {
                    str(plan): tuple(tuple(map(str, names)) for names in splits)
                    for plan, splits in level["plans"].items()
                },
                tuple(map(str, level["refused"])),
            )
            for name, level in content["levels"].items()
        },
    )


def _invalid(text: str) -> errors.InvalidArgumentError:
    return errors.InvalidArgumentError(None, None, text)
