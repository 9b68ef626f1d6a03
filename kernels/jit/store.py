"""Hold the compiled kernels of this process: KernelSource -> addresses.

A kernel comes from memory, from stored object code (stored_code.py: a pack, the disk cache, an
archive) or from the compiler process. `store.lookup(source)` is a dictionary look-up.
`store.request(sources)` returns at once: a background thread loads kernels from disk, and worker
processes (`kernels/jit/compiler.py`) compile the others in the background. `store.compile(sources)`
waits. This process never imports Numba.
"""

from __future__ import annotations

import atexit
import functools
import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tfjit.framework import settings
from tfjit.kernels.jit import fork_imports, loader
from tfjit.kernels.jit.archive import Archive
from tfjit.kernels.jit.assembly import AssemblyLoader
from tfjit.kernels.jit.compilations import Compilations
from tfjit.kernels.jit.counters import Counters
from tfjit.kernels.jit.kernel_callbacks import KernelCallbacks
from tfjit.kernels.jit.precompiled import archive_level
from tfjit.kernels.jit.progress import CompileCounts
from tfjit.kernels.jit.stored_code import StoredCode
from tfjit.kernels.jit.targets import find_target
from tfjit.kernels.source import KernelSource

log = logging.getLogger("tfjit.cache")

# A forked child that calls exec within this time starts no compiler.
_EXEC_S = 0.05


def _is_interpreted(source: KernelSource) -> bool:
    return bool(source.target) and find_target(source.target).interprets


def _interpreted(source: KernelSource) -> dict[str, int] | None:
    """Return the addresses of a kernel that its target interprets, or None."""
    return find_target(source.target).interpret(source) if _is_interpreted(source) else None


class CompileError(Exception):
    """A kernel could not be compiled.

    The message names the kernel, its text file and the reason.
    """


class KernelStore:
    """Addresses of compiled kernels; loads and compiles missing ones.

    Safe to use from any thread.
    """

    def __init__(self, directory: Path | None = None, archives: Path | None = None) -> None:
        """Open the store at `directory`, or where the settings say.

        archives: the folder of precompiled kernels, by default that of the installed package.
        """
        self.counters = Counters()
        self.stored = StoredCode(self.counters, directory, archives)
        self._loaded: dict[KernelSource, dict[str, int]] = {}
        self._refused: dict[KernelSource, str] = {}
        self._withheld: set[KernelSource] = set()
        self._recorded: dict[KernelSource, None] | None = None
        self._known_refused: frozenset[str] = frozenset()
        self.assembly = AssemblyLoader(
            lambda: self.directory, self.stored.packs, self.stored.precompiled
        )
        self._reset()
        self._callbacks = KernelCallbacks(self._lock, self.are_final)
        self.compilations = Compilations(self, self._lock, self.stored, self.counters)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        # requested and not settled -> key ("" until it is known)
        self._pending: dict[KernelSource, str] = {}
        self._for_others: set[KernelSource] = set()  # requested for later processes alone
        self._to_load: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closed = False

    @property
    def directory(self) -> Path | None:
        """Return the directory of object code; None for memory only.

        None means that no directory is usable.
        """
        return self.stored.directory

    def add_archive(self, level: str, archive: Archive) -> None:
        """Serve kernels from a pack's archive, before the disk cache.

        level: the archive's; this CPU has it.
        """
        with self._lock:
            self.stored.packs.add(level, archive)

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
        return self.stored.is_generic(source)

    def name_of(self, source: KernelSource) -> str:
        """Return the name under which a later process finds a loaded kernel."""
        return self.stored.name_of(source)

    def has_name(self, name: str) -> bool:
        """Return whether cache or an archive has a kernel of that name."""
        return self.stored.holds_name(name)

    def has_kernels(self) -> bool:
        """Return whether any kernel is loaded, on disk or precompiled."""
        if self._recorded is not None:
            return False
        return bool(self._loaded) or self.stored.has_kernels()

    def refused(self, source: KernelSource) -> str | None:
        """Return the reason why the kernel cannot be compiled, or None."""
        return self._refused.get(source)

    def has_refusals(self) -> bool:
        """Return whether any kernel is refused."""
        return bool(self._refused)

    def compiles(self) -> bool:
        """Return whether missing kernels can be compiled, as far as known."""
        return "" not in self.stored.without_compiler

    def refusals(self) -> dict[KernelSource, str]:
        """Return every refused kernel with its reason.

        Tests treat a refusal as an error.
        """
        return dict(self._refused)

    def busy_workers(self) -> int:
        """Return the number of compiler processes at work, of a moment ago."""
        return self.compilations.queue.busy_workers()

    def has_compiler(self) -> bool:
        """Return whether a compiler process is running, perhaps an idle one.

        Takes no lock: the answer of a moment ago will do.
        """
        return bool(self.compilations.queue.workers)

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
                    self.compilations.queue.need(self._pending.get(source, ""))
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
            if not self.stored.packs.key(source):
                key = self.stored.key(source)
                if not self.stored.holds(source, key) and not _is_interpreted(source):
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
            addresses = _interpreted(source)
            if addresses is None:
                addresses = self.stored.load(source, name, archived=name)
            if addresses is not None:
                self.settle(source, addresses)
            else:
                with self._lock:
                    self._pending.pop(source, None)

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
        if not self._callbacks.add(wanted, callback):
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
            self.compilations.queue.want_workers(workers)
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
                    self.refuse(source, "an archive lacks it", quiet=True)
                    continue
                if self._recorded is not None:
                    if not source.target:  # archives are for the host
                        self._recorded[source] = None
                    self.settle(source)
                    continue
                key = "" if self.stored.packs.key(source) else self.stored.key(source)
                if self._load_from_disk(source, key):
                    continue
                if settings.text("TFJIT_JIT") == "off":
                    self.settle(source)
                    continue
                key = key or self.stored.key(source)
                if not key:
                    told = bool(self._refused)
                    reason = self.stored.without_compiler[source.target]
                    self.refuse(source, reason, quiet=told)
                    continue
                with self._lock:
                    self._pending[source] = key
                self.compilations.compile(source, key, self._for_others)
            # An unexpected failure settles the kernel, or its users would wait for ever.
            except Exception as error:
                self.refuse(source, f"{type(error).__name__}: {error}")

    def _load_from_disk(self, source: KernelSource, key: str) -> bool:
        """Load a stored kernel, or have its target interpret it.

        key: its name in the disk cache, or "". Returns whether it is loaded.
        """
        addresses = _interpreted(source)
        if addresses is None:
            addresses = self.stored.load(source, key)
        if addresses is not None:
            self.settle(source, addresses)
            return True
        settings.say("cache", "%s is not on disk", source.title or "a kernel")
        self.counters.misses += 1
        return False

    def settle(
        self, source: KernelSource, addresses: dict[str, int] | None = None, reason: str = ""
    ) -> None:
        """Settle a kernel.

        It has addresses, or the reason of its refusal, or is withheld without either.
        """
        with self._lock:
            if addresses is not None:
                self._loaded[source] = addresses
            elif reason:
                self._refused[source] = reason
            else:
                self._withheld.add(source)
            self.compilations.forget(self._pending.pop(source, ""))
            self._for_others.discard(source)
            self._changed.notify_all()
        self._callbacks.call_ready()

    def refuse(
        self, source: KernelSource, reason: str, path: str = "", quiet: bool = False
    ) -> None:
        """Settle a kernel that cannot be compiled.

        path: of its text. quiet: the reason was told for another kernel.
        """
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
        self.settle(source, reason=message)

    def close(self) -> None:
        """End the workers and the background thread; called at exit.

        Loaded kernels stay usable.
        """
        with self._lock:
            self._closed = True
            workers = self.compilations.queue.close()
            self._to_load.put(None)
            self._changed.notify_all()
        for worker in workers:
            worker.close()
        self.compilations.close()

    def _after_fork(self) -> None:
        """Reset workers, threads and pending requests in a forked child.

        Loaded kernels stay; workers and threads were the parent's. Kernels in progress are
        requested again, and callbacks in progress called again.
        """
        pending = list(self._pending)
        self._reset()
        self.stored.precompiled.reset_lock()
        self.compilations.after_fork(self._lock)
        if self._callbacks.after_fork(self._lock) or pending:
            self._run_in_background(functools.partial(self._resume, pending))

    def _resume(self, pending: list[KernelSource]) -> None:
        """Continue the parent's requests and callbacks in a forked child."""
        time.sleep(_EXEC_S)
        self.request(pending)
        self._callbacks.call_ready()

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
        return self.compilations.compile_ms(source)

    def compile_counts(self) -> CompileCounts:
        """Return the numbers of compiled or refused kernels and of pending ones."""
        return CompileCounts(self.counters.compiled + self.counters.refused, self.pending())

    def has_all_generic(self) -> bool:
        """Return whether an archive has all generic kernels. Raises NoCompiler."""
        return self.stored.precompiled.is_complete(archive_level())

    def archives(self) -> str:
        """Return as text which archives of generic kernels serve this process."""
        return self.stored.describe_archives()

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
