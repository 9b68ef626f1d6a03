"""Make a pack: a model with its plans and kernels."""

from __future__ import annotations

import multiprocessing
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from tfjit.client.packing.recorder import (
    Checked,
    Recorded,
    RunFailed,
    RunRequest,
    check,
    record,
)
from tfjit.client.session.pack_file import (
    MODEL,
    Manifest,
    PackedLevel,
    PackedRun,
    StartupRun,
    archive_name,
    plan_name,
    write_pack,
)
from tfjit.framework.version import __version__
from tfjit.kernels.jit import target
from tfjit.kernels.jit.archive import Archive
from tfjit.kernels.jit.cache_key import compiler_digest, precompiled_key
from tfjit.kernels.precompile.archive_builder import Built, build_archive

if TYPE_CHECKING:
    from tfjit.client.session.model_file import ModelFile
    from tfjit.framework.graphs.typing import Message

_T = TypeVar("_T")
_VARIABLES: Final = "variables/variables"  # prefix of the checkpoint, in a SavedModel and a pack
_BLOCK: Final = 2  # kernels that a compiler process takes at a time: a pack has few
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Packed:
    """A pack that was written.

    checked: its kernels in a fresh process on this machine, None where this CPU has none of its
    levels.
    """

    path: Path
    size_bytes: int
    manifest: Manifest
    checked: Checked | None


def pack_model(
    model: ModelFile,
    requests: Sequence[RunRequest],
    out: Path,
    levels: Sequence[str],
    processes: int | None = None,
    progress: Progress = lambda text: None,
) -> Packed:
    """Write a pack of the model for these runs and levels.

    processes: compilers at a time, by default one a core. progress: called with the present work.
    Raises RunFailed when a run does not work, ValueError on a machine of another architecture,
    OSError when a file cannot be read or written.
    """
    manifest, entries = _content(model)
    with tempfile.TemporaryDirectory(prefix="tfjit_pack_") as name:
        folder = Path(name)
        plain = folder / "plain.tfjit"
        write_pack(plain, manifest, entries)
        packed_levels = {}
        recorded: Recorded | None = None
        for level in levels:
            recorded, built = _build_level(
                folder, plain, level, requests, processes or target.available_cpus(), progress
            )
            entries[archive_name(level)] = built.path
            for key, data in recorded.stored.items():
                entries[plan_name(level, key)] = data
            packed_levels[level] = PackedLevel(built.kernels, recorded.plans, built.refused)
        assert recorded is not None, "no levels"
        runs = tuple(
            PackedRun(shapes, request.fetches, reason)
            for request, (shapes, reason) in zip(requests, recorded.runs, strict=True)
        )
        size = write_pack(out, replace(manifest, runs=runs, levels=packed_levels), entries)
    checked = None
    if not set(levels).isdisjoint(target.levels_here()):
        progress("checking the pack")
        checked = _in_fresh_process(check, out, requests)
    return Packed(out, size, replace(manifest, runs=runs, levels=packed_levels), checked)


def _build_level(
    folder: Path,
    plain: Path,
    level: str,
    requests: Sequence[RunRequest],
    processes: int,
    progress: Progress,
) -> tuple[Recorded, Built]:
    """Return the needs of the runs at a level, and their archive.

    The runs are recorded again, with their groups divided, while kernels do not compile.
    """
    refused: set[str] = set()
    reasons: dict[str, None] = {}
    while True:
        progress(f"finding the kernels for {level}")
        recorded = _in_fresh_process(record, plain, level, requests, frozenset(refused))
        built = build_archive(
            folder,
            level,
            processes,
            recorded.sources,
            lambda done, total: progress(f"{level}: {done} of {total} kernels"),
            recorded.texts,
            _BLOCK,
            strict=False,
        )
        reasons.update(dict.fromkeys(built.refused))
        archive = Archive(built.path)
        lacking = {
            source.digest
            for source in recorded.sources
            if precompiled_key(source, level) not in archive
        }
        if lacking <= refused:
            return recorded, replace(built, refused=tuple(reasons))
        refused |= lacking


def _in_fresh_process(function: Callable[..., _T], *args: object) -> _T:
    """Return the result of a function in a fresh process."""
    with tempfile.TemporaryDirectory() as cache:
        method = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(1, method, _use_cache, (cache,)) as pool:
            return pool.submit(function, *args).result()


def _use_cache(folder: str) -> None:
    os.environ["TFJIT_CACHE_DIR"] = folder


def _content(model: ModelFile) -> tuple[Manifest, dict[str, bytes | Path]]:
    """Return a manifest without kernels, and the entries of the model."""
    manifest = Manifest(
        __version__, compiler_digest(), sys.platform, platform.machine().lower(), model.kind
    )
    message = model.message
    entries: dict[str, bytes | Path] = {}
    if model.kind == "SavedModel":
        message, startup = _startup(message, model.path.parent)
        manifest = replace(manifest, startup=startup)
        for part in ("variables", "assets"):
            root = model.path.parent / part
            for file in sorted(root.rglob("*")) if root.is_dir() else ():
                if file.is_file():
                    entries[file.relative_to(model.path.parent).as_posix()] = file
    entries[MODEL] = message.SerializeToString(deterministic=True)
    return manifest, entries


def _startup(meta: Message, folder: Path) -> tuple[Message, tuple[StartupRun, ...]]:
    """Return a SavedModel's meta graph and its startup runs."""
    from tfjit.client.saving import saved_model_loader

    runs = []
    if (folder / f"{_VARIABLES}.index").is_file():
        meta = _with_saver(meta)
        saver = meta.saver_def
        if saver.restore_op_name:
            tensor = saver.filename_tensor_name
            runs.append(StartupRun(saver.restore_op_name, {tensor: _VARIABLES}))
    initializer = saved_model_loader.initializer_of(meta)
    if initializer:
        files = {t: f"assets/{name}" for t, name in saved_model_loader.asset_files(meta).items()}
        runs.append(StartupRun(initializer.split(":")[0].lstrip("^"), files))
    return meta, tuple(runs)


def _with_saver(meta: Message) -> Message:
    """Return a meta graph that has the nodes to restore its variables.

    Models of TensorFlow 2 leave them out.
    """
    if meta.HasField("saver_def"):
        return meta
    from tfjit.client.saving.meta_graph import import_scoped_meta_graph
    from tfjit.client.saving.saver import Saver
    from tfjit.framework.graphs.graph import Graph

    with Graph().as_default() as graph:
        variables, _ = import_scoped_meta_graph(meta, graph=graph)
        if not variables:
            return meta
        saver = Saver(variables)
        made = type(meta)()
        made.CopyFrom(meta)
        made.graph_def.CopyFrom(graph.as_graph_def())
        made.saver_def.CopyFrom(saver.as_saver_def())
    return made


__all__ = ["Packed", "RunFailed", "RunRequest", "pack_model"]
