"""Hold the compiled kernels of this process: KernelSource -> addresses.

A kernel comes from memory, a pack, the disk cache, the archive of precompiled kernels
(precompiled.py) or the compiler process. `store.lookup(source)` is a dictionary look-up.
`store.request(sources)` returns at once: a background thread loads kernels from disk, and worker
processes (`kernels/jit/compiler.py`) compile the others in the background. `store.compile(sources)`
waits. This process never imports Numba.

On disk a kernel is two files named by a key (cache_key.py): KEY.py, the text, for people and
tracebacks, and KEY.o, the object code (object_file.py).
"""

from __future__ import annotations

import atexit
import base64
import functools
import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tfjit.framework import settings
from tfjit.kernels.jit import fork_imports, loader
from tfjit.kernels.jit.archive import Archive
from tfjit.kernels.jit.assembly import AssemblyLoader
from tfjit.kernels.jit.cache_directory import ARCHIVES, KERNELS, private_directory
from tfjit.kernels.jit.cache_key import cache_key
from tfjit.kernels.jit.compile_queue import CompileQueue
from tfjit.kernels.jit.object_file import DamagedObject, ObjectFile
from tfjit.kernels.jit.precompiled import Archives, Precompiled, archive_level
from tfjit.kernels.jit.progress import CompileCounts, CompileProgress
from tfjit.kernels.jit.targets import find_target
from tfjit.kernels.source import KernelSource

if TYPE_CHECKING:
    from tfjit.kernels.jit.archive_job import ArchiveJob

log = logging.getLogger("tfjit.cache")

_TOUCH_SECONDS = 86400.0
# A forked child that calls exec within this time starts no compiler.
_EXEC_S = 0.05


def _is_interpreted(source: KernelSource) -> bool:
    return bool(source.target) and find_target(source.target).interprets


class CompileError(Exception):
    """A kernel could not be compiled.

    The message names the kernel, its text file and the reason.
    """


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


class KernelStore:
    """Addresses of compiled kernels; loads and compiles missing ones.

    Safe to use from any thread.
    """

    def __init__(self, directory: Path | None = None, archives: Path | None = None) -> None:
        """Open the store at `directory`, or where the settings say.

        archives: the folder of precompiled kernels, by default that of the installed package.
        """
        self.counters = Counters()
        self._compile_ms: dict[KernelSource, float] = {}
        self._progress = CompileProgress(self.compile_counts)
        self._parent = directory
        self._directory: Path | None = None
        self._directory_known = False
        self._loaded: dict[KernelSource, dict[str, int]] = {}
        self._refused: dict[KernelSource, str] = {}
        self._withheld: set[KernelSource] = set()
        self._packs = Archives()
        self._precompiled = Precompiled(archives, self._own_archives)
        self._archive_job: ArchiveJob | None = None
        self._generic: dict[KernelSource, str] = {}  # those from archives, with their keys
        self._without_compiler: dict[str, str] = {}  # target -> the reason, once it was met
        self._recorded: dict[KernelSource, None] | None = None
        self._known_refused: frozenset[str] = frozenset()
        self.assembly = AssemblyLoader(lambda: self.directory, self._packs, self._precompiled)
        self._reset()

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        # requested and not settled -> key ("" until it is known)
        self._pending: dict[KernelSource, str] = {}
        self._by_key: dict[str, KernelSource] = {}
        self._for_others: set[KernelSource] = set()  # requested for later processes alone
        self._waiting: list[tuple[list[KernelSource], Callable[[], None]]] = []
        self._calling: list[tuple[list[KernelSource], Callable[[], None]]] = []
        self._to_load: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._queue = CompileQueue(
            self._lock, self._compile_request, self._on_answer, self._on_lost
        )
        self._closed = False

    def _cache_directory(self) -> Path:
        return (self._parent or settings.cache_dir()).absolute()

    def _own_archives(self) -> Path | None:
        """Return the folder of the machine's own archives, or None."""
        return private_directory(self._cache_directory(), ARCHIVES, make=False)[0]

    @property
    def directory(self) -> Path | None:
        """Return the directory of object code; None for memory only.

        None means that no directory is usable.
        """
        if not self._directory_known:
            self._directory, reason = private_directory(self._cache_directory(), KERNELS)
            self._directory_known = True
            if reason:
                # a pack brings its kernels, and no directory is asked for
                level = logging.DEBUG if self._packs.has_archive() else logging.WARNING
                log.log(level, "tfjit: compiled kernels are kept in memory only: %s", reason)
        return self._directory

    def add_archive(self, level: str, archive: Archive) -> None:
        """Serve kernels from a pack's archive, before the disk cache.

        level: the archive's; this CPU has it.
        """
        with self._lock:
            self._packs.add(level, archive)

    def record(self, refused: Collection[str] = ()) -> None:
        """Record the requested kernels from now on.

        They are neither loaded nor compiled. For a process that finds the kernels that a graph
        needs: it runs on references. refused: digests of kernels that cannot be compiled.
        """
        self._recorded = {}
        self._known_refused = frozenset(refused)
        self.assembly.record()

    def recorded(self) -> tuple[list[KernelSource], list[tuple[str, tuple[str, ...]]]]:
        """Return the recorded kernels, and the recorded (LLVM assembly, its functions)."""
        return list(self._recorded or ()), self.assembly.recorded()

    def lookup(self, source: KernelSource) -> dict[str, int] | None:
        """Return entry -> address if the kernel is loaded in this process."""
        return self._loaded.get(source)

    def is_generic(self, source: KernelSource) -> bool:
        """Return whether the kernel's code is for a level, not this CPU.

        Such code comes from an archive.
        """
        return source in self._generic

    def name_of(self, source: KernelSource) -> str:
        """Return the name under which a later process finds a loaded kernel."""
        return self._generic.get(source) or cache_key(source)

    def has_name(self, name: str) -> bool:
        """Return whether cache or an archive has a kernel of that name."""
        if self._packs.holds(name):
            return True
        directory = self.directory
        if directory is not None and (directory / f"{os.path.basename(name)}.o").exists():
            return True
        return self._precompiled.holds(name)

    def has_kernels(self) -> bool:
        """Return whether any kernel is loaded, on disk or precompiled."""
        if self._recorded is not None:
            return False
        if self._loaded or self._packs.has_archive() or self._precompiled.has_archive():
            return True
        directory = self.directory
        if directory is None:
            return False
        with os.scandir(directory) as entries:  # a kernel has its text beside its code
            return any(entry.name.endswith(".py") for entry in entries)

    def refused(self, source: KernelSource) -> str | None:
        """Return the reason why the kernel cannot be compiled, or None."""
        return self._refused.get(source)

    def has_refusals(self) -> bool:
        """Return whether any kernel is refused."""
        return bool(self._refused)

    def compiles(self) -> bool:
        """Return whether missing kernels can be compiled, as far as known."""
        return "" not in self._without_compiler

    def refusals(self) -> dict[KernelSource, str]:
        """Return every refused kernel with its reason.

        Tests treat a refusal as an error.
        """
        return dict(self._refused)

    def busy_workers(self) -> int:
        """Return the number of compiler processes at work, of a moment ago."""
        return self._queue.busy_workers()

    def are_final(self, sources: Iterable[KernelSource]) -> bool:
        """Return whether no kernel of these will change its state.

        Each is loaded, refused, or not compiled because of TFJIT_JIT=off.
        """
        return all(
            source in self._loaded or source in self._refused or source in self._withheld
            for source in sources
        )

    def request(self, sources: Iterable[KernelSource], for_others: bool = False) -> None:
        """Start to load or compile the missing kernels; return at once.

        Kernels in progress are not requested twice. With TFJIT_JIT=off only the disk's kernels are
        loaded. for_others: later processes use the kernels; all other kernels are compiled first.
        """
        wanted = list(sources)
        with self._lock:
            new = self._claim(wanted)
            if for_others:
                self._for_others.update(new)
            else:
                self._for_others.difference_update(wanted)
                for source in wanted:
                    self._queue.need(self._pending.get(source, ""))
            if new:
                self._run_in_background(functools.partial(self._load_or_queue, new))

    def load(self, sources: Iterable[KernelSource]) -> bool:
        """Load the disk's kernels before returning; request the others.

        Loading takes 0.1 ms a kernel. Returns whether all are loaded.
        """
        wanted = list(dict.fromkeys(sources))
        with self._lock:
            new = self._claim(wanted)
        if new:
            self._load_or_queue(new)
        return all(source in self._loaded for source in wanted)

    def load_present(self, sources: Iterable[KernelSource]) -> bool:
        """Load the disk's kernels and request no others.

        Returns whether all are loaded.
        """
        wanted = list(dict.fromkeys(sources))
        for source in wanted:
            if source in self._loaded or source in self._refused or self._recorded is not None:
                continue
            if source in self._pending:  # another thread loads or compiles; no look at the disk
                continue
            key = ""
            if not self._packs.key(source):
                key = self._cache_key(source)
                if (
                    not self._is_cached(key)
                    and not self._precompiled.key(source)
                    and not _is_interpreted(source)
                ):
                    continue
            with self._lock:
                claimed = bool(self._claim([source]))
            if claimed and not self._load_from_disk(source, key):
                with self._lock:
                    self._pending.pop(source, None)
        return all(source in self._loaded for source in wanted)

    def load_named(
        self, kernels: Iterable[tuple[KernelSource, str]], assembly_names: Mapping[str, str]
    ) -> None:
        """Load kernels under the names of an earlier process.

        No name is computed, which would import llvmlite. Missing kernels are left alone.
        assembly_names: of `assembly.names` in that process.
        """
        self.assembly.expect(assembly_names)
        for source, name in kernels:
            if source in self._loaded or source in self._refused or self._recorded is not None:
                continue
            with self._lock:
                claimed = bool(self._claim([source]))
            if not claimed:
                continue
            if (
                self._interpret(source)
                or self._load_archived(source, self._packs, name)
                or self._load_cached(source, name)
                or self._load_archived(source, self._precompiled, name)
            ):
                self.counters.hits += 1
            else:
                with self._lock:
                    self._pending.pop(source, None)

    def _cache_key(self, source: KernelSource) -> str:
        """Return the kernel's name in the disk cache; "" without a compiler."""
        if source.target in self._without_compiler:
            return ""
        try:
            return cache_key(source)
        except loader.NoCompiler as error:
            self._without_compiler[source.target] = str(error)
            return ""

    def _is_cached(self, key: str) -> bool:
        directory = self.directory if key else None
        return directory is not None and (directory / f"{key}.o").exists()

    # the caller holds the lock
    def _claim(self, sources: Iterable[KernelSource]) -> list[KernelSource]:
        if self._closed:
            return []
        new = [
            s
            for s in dict.fromkeys(sources)
            if s not in self._loaded and s not in self._refused and s not in self._pending
        ]
        self._pending.update(dict.fromkeys(new, ""))
        if new and self._withheld:
            self._withheld.difference_update(new)
        return new

    def when_ready(self, sources: Iterable[KernelSource], callback: Callable[[], None]) -> None:
        """Request kernels, and call back once when all are settled.

        If they are settled already the call comes at once, else on a thread of the store.
        """
        wanted = list(dict.fromkeys(sources))
        self.request(wanted)
        with self._lock:
            if not self.are_final(wanted):
                self._waiting.append((wanted, callback))
                return
        callback()

    def compile(
        self,
        sources: Sequence[KernelSource],
        workers: int = 1,
        timeout: float | None = None,
        refusals: bool = False,
    ) -> None:
        """Compile kernels and return when all are loaded.

        workers: compiler processes it may use at a time. refusals: refused kernels, which the log
        names, are left to their references. Raises CompileError when one is refused (without
        `refusals`), TimeoutError after `timeout` seconds.
        """
        with self._lock:
            self._queue.want_workers(workers)
        self.request(sources)
        with self._changed:
            done = self._changed.wait_for(lambda: self._closed or self.are_final(sources), timeout)
        if not done:
            raise TimeoutError(f"{len(sources)} kernels are not compiled after {timeout} s")
        for source in sources:
            if source in self._refused and not refusals:
                raise CompileError(self._refused[source])
        for source in sources:
            if source not in self._loaded and source not in self._refused:
                reason = "TFJIT_JIT=off" if source in self._withheld else "the process is ending"
                raise CompileError(
                    f"kernel {source.title or source.digest[:12]!r} is not compiled: {reason}"
                )

    def _run_in_background(self, job: Callable[[], None]) -> None:
        self._to_load.put(job)
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._serve, args=(self._to_load,), name="tfjit-store", daemon=True
            )
            self._thread.start()

    def _serve(self, jobs: queue.SimpleQueue[Callable[[], None] | None]) -> None:
        while (job := jobs.get()) is not None:
            job()

    def _load_or_queue(self, sources: list[KernelSource]) -> None:
        for source in sources:
            try:
                if source.digest in self._known_refused:
                    self._refuse(source, "an archive lacks it", quiet=True)
                    continue
                if self._recorded is not None:
                    if not source.target:  # archives are for the host
                        self._recorded[source] = None
                    self._settle(source)
                    continue
                key = "" if self._packs.key(source) else self._cache_key(source)
                if self._load_from_disk(source, key):
                    continue
                if settings.text("TFJIT_JIT") == "off":
                    self._settle(source)
                    continue
                key = key or self._cache_key(source)
                if not key:
                    told = bool(self._refused)
                    self._refuse(source, self._without_compiler[source.target], quiet=told)
                    continue
                with self._lock:
                    self._pending[source] = key
                    self._by_key[key] = source
                self._enqueue(key)
            # An unexpected failure settles the kernel, or its users would wait for ever.
            except Exception as error:
                self._refuse(source, f"{type(error).__name__}: {error}")

    def _load_from_disk(self, source: KernelSource, key: str) -> bool:
        """Load a kernel from pack, disk cache or installed archive.

        key: its name in the disk cache, or "". Returns whether one of them has it, or the target
        interprets it.
        """
        if self._interpret(source):
            return True
        if (
            self._load_archived(source, self._packs)
            or self._load_cached(source, key)
            or self._load_archived(source, self._precompiled)
        ):
            self.counters.hits += 1
            return True
        settings.say("cache", "%s is not on disk", source.title or "a kernel")
        self.counters.misses += 1
        return False

    def _interpret(self, source: KernelSource) -> bool:
        """Settle a kernel that its target interprets; return whether it does."""
        if not _is_interpreted(source):
            return False
        self._settle(source, find_target(source.target).interpret(source))
        return True

    def _load_cached(self, source: KernelSource, key: str) -> bool:
        directory = self.directory if key else None
        if directory is None:
            return False
        path = directory / f"{key}.o"
        try:
            data = path.read_bytes()
        except OSError:
            return False
        try:
            self._load(source, ObjectFile.decode(data))
            if time.time() - path.stat().st_mtime > _TOUCH_SECONDS:
                os.utime(path)  # the worker drops kernels by their last use
        except OSError:
            # Another process dropped it, or the directory is read-only: it is loaded all the same.
            pass
        except (DamagedObject, loader.LoadError) as error:
            self.counters.damaged += 1
            settings.say("cache", "%s is compiled again: %s", path, error)
            return False
        return True

    def _load_archived(self, source: KernelSource, archives: Archives, key: str = "") -> bool:
        key = key or archives.key(source)
        obj = archives.read(key) if key else None
        if obj is None:
            return False
        self._generic[source] = key  # before waiting callers see it as loaded
        try:
            self._load(source, obj)
        except loader.LoadError as error:
            del self._generic[source]
            settings.say("cache", "the precompiled %s does not load: %s", source.title, error)
            return False
        self.counters.precompiled += 1
        return True

    def _load(self, source: KernelSource, obj: ObjectFile) -> None:
        start = time.perf_counter()
        load = find_target(source.target).load if source.target else loader.load
        addresses = load(obj)
        self.counters.load_ms += (time.perf_counter() - start) * 1e3
        self._settle(source, addresses)

    def _settle(
        self, source: KernelSource, addresses: dict[str, int] | None = None, reason: str = ""
    ) -> None:
        with self._lock:
            if addresses is not None:
                self._loaded[source] = addresses
            elif reason:
                self._refused[source] = reason
            else:
                self._withheld.add(source)
            key = self._pending.pop(source, "")
            self._by_key.pop(key, None)
            self._for_others.discard(source)
            self._changed.notify_all()
        self._call_ready()

    def _call_ready(self) -> None:
        """Call the callbacks of settled kernels."""
        with self._lock:
            ready = [entry for entry in self._waiting if self.are_final(entry[0])]
            self._waiting = [entry for entry in self._waiting if entry not in ready]
            self._calling += ready  # a child that is forked now has to call them
        for entry in ready:
            try:
                entry[1]()
            except Exception:
                log.exception("tfjit: a callback of the kernel store failed")
            finally:
                with self._lock:
                    self._calling.remove(entry)

    def _refuse(
        self, source: KernelSource, reason: str, path: str = "", quiet: bool = False
    ) -> None:
        self.counters.refused += 1
        message = (
            f"kernel {source.title or source.digest[:12]!r}{f' ({path})' if path else ''} "
            f"cannot be compiled: {reason}"
        )
        log.log(
            logging.DEBUG if quiet else logging.WARNING,
            "tfjit: %s\nThe reference kernel serves it, or smaller groups' kernels do.",
            message,
        )
        self._settle(source, reason=message)

    def _enqueue(self, key: str) -> None:
        with self._lock:
            source = self._by_key.get(key)
            self._queue.put(key, for_others=source in self._for_others)
            host = source is not None and not source.target
            if host and self._archive_job is None and not self._packs.has_archive():
                from tfjit.kernels.jit.archive_job import ArchiveJob

                self._archive_job = ArchiveJob(
                    self._precompiled, self.pending, self._cache_directory
                )
                self._archive_job.want()
        self._progress.begin()

    # the queue holds the lock
    def _compile_request(self, key: str) -> dict[str, object] | None:
        source = self._by_key.get(key)
        if source is None:
            return None  # settled meanwhile
        request: dict[str, object] = {
            "key": key,
            "text": source.text,
            "entries": list(source.entries),
            "arity": source.arity,
            "interleave": source.interleave,
            "attempt": source.attempt,
            "title": source.title,
            "directory": str(self.directory or ""),
        }
        if source.target:
            target = find_target(source.target)
            request |= {"compiler": target.compiler, "architecture": target.architecture()}
        return request

    def _on_answer(self, answer: dict[str, object]) -> None:
        with self._lock:
            source = self._by_key.get(str(answer["key"]))
        if source is None:
            return
        self._compile_ms[source] = float(str(answer["ms"]))
        self.counters.compile_ms += self._compile_ms[source]
        if "error" in answer:
            self._refuse(source, str(answer["error"]), str(answer["path"]))
            return
        self.counters.compiled += 1
        try:
            self._load(source, ObjectFile.decode(base64.b64decode(str(answer["object"]))))
        except (DamagedObject, loader.LoadError) as error:
            self._refuse(source, f"its object code does not load: {error}", str(answer["path"]))

    def _on_lost(self, keys: Sequence[str], reason: str) -> None:
        with self._lock:
            lost = [self._by_key[key] for key in keys if key in self._by_key]
        for n, source in enumerate(lost):
            self._refuse(source, reason, quiet=n > 0)

    def close(self) -> None:
        """End the workers and the background thread; called at exit.

        Loaded kernels stay usable.
        """
        with self._lock:
            self._closed = True
            workers = self._queue.close()
            self._to_load.put(None)
            self._changed.notify_all()
        for worker in workers:
            worker.close()
        if self._archive_job is not None:
            self._archive_job.close()

    def _after_fork(self) -> None:
        """Reset workers, threads and pending requests in a forked child.

        Loaded kernels stay; workers and threads were the parent's. Kernels in progress are
        requested again, and callbacks in progress called again.
        """
        pending, waiting = list(self._pending), [*self._waiting, *self._calling]
        self._reset()
        self._precompiled.reset_lock()
        self._archive_job = None
        self._progress.after_fork()
        self._waiting = waiting
        if pending or waiting:
            self._run_in_background(functools.partial(self._resume, pending))

    def _resume(self, pending: list[KernelSource]) -> None:
        """Continue the parent's requests and callbacks in a forked child."""
        time.sleep(_EXEC_S)
        self.request(pending)
        self._call_ready()

    def __repr__(self) -> str:
        return (
            f"<KernelStore {len(self._loaded)} loaded, {len(self._pending)} pending, "
            f"{len(self._refused)} refused>"
        )

    def pending(self) -> int:
        """Return the number of requested kernels that are not settled."""
        return len(self._pending)

    def compile_ms(self, source: KernelSource) -> float | None:
        """Return the compiler's time for a kernel.

        None where this process has not compiled it.
        """
        return self._compile_ms.get(source)

    def compile_counts(self) -> CompileCounts:
        """Return the numbers of compiled or refused kernels and of pending ones."""
        return CompileCounts(self.counters.compiled + self.counters.refused, self.pending())

    def has_all_generic(self) -> bool:
        """Return whether an archive has all generic kernels. Raises NoCompiler."""
        return self._precompiled.is_complete(archive_level())

    def archives(self) -> str:
        """Return as text which archives of generic kernels serve this process."""
        found = self._precompiled.describe() or "none"
        folder = self._own_archives()
        if folder is None or "=0" in found:
            return found
        from tfjit.kernels.jit.build_lock import BuildLock

        lock = BuildLock(folder, archive_level())
        builder, failure = lock.holder(), lock.failure()
        if builder:
            return f"{found}; process {builder} builds more"
        return f"{found}; the last build failed: {failure}" if failure else found

    def snapshot(self) -> Counters:
        """Return a copy of the counters."""
        return replace(self.counters)


store = KernelStore()
atexit.register(store.close)


# These handlers are the last before a fork. Holders of the store's locks may be importing.
def _before_fork() -> None:
    loader.fork_lock().acquire()
    store._lock.acquire()
    fork_imports.hold()


def _after_fork_in_parent() -> None:
    fork_imports.release()
    store._lock.release()
    loader.fork_lock().release()


def _after_fork_in_child() -> None:
    fork_imports.release()
    loader.reset_after_fork()
    store._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )
