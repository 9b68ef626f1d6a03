"""Have compiler processes compile the kernels that the store lacks."""

from __future__ import annotations

import base64
import threading
from collections.abc import Container, Sequence
from typing import TYPE_CHECKING, Protocol

from tfjit.kernels.jit import loader
from tfjit.kernels.jit.compile_queue import CompileQueue
from tfjit.kernels.jit.counters import Counters
from tfjit.kernels.jit.object_file import DamagedObject, ObjectFile
from tfjit.kernels.jit.progress import CompileCounts, CompileProgress
from tfjit.kernels.jit.stored_code import StoredCode
from tfjit.kernels.jit.targets import find_target
from tfjit.kernels.source import KernelSource

if TYPE_CHECKING:
    from tfjit.kernels.jit.archive_job import ArchiveJob


class Settlement(Protocol):
    """Receive the outcome of compilations, on threads of the processes."""

    def settle(self, source: KernelSource, addresses: dict[str, int]) -> None:
        """Take the addresses of a compiled kernel."""

    def refuse(
        self, source: KernelSource, reason: str, path: str = "", quiet: bool = False
    ) -> None:
        """Take the reason why a kernel cannot be compiled.

        path: of its text. quiet: the reason was told for another kernel.
        """

    def compile_counts(self) -> CompileCounts:
        """Return the numbers of settled and of pending kernels."""


class Compilations:
    """Kernels that compiler processes work on.

    owner: receives them. lock: the owner's, which guards the queue as well. counters: the owner's.
    """

    def __init__(
        self, owner: Settlement, lock: threading.Lock, stored: StoredCode, counters: Counters
    ) -> None:
        self._owner = owner
        self._stored = stored
        self._counters = counters
        self._compile_ms: dict[KernelSource, float] = {}
        self._progress = CompileProgress(owner.compile_counts)
        self._reset(lock)

    def _reset(self, lock: threading.Lock) -> None:
        self._lock = lock
        self._by_key: dict[str, KernelSource] = {}
        self.queue = CompileQueue(lock, self._request, self._on_answer, self._on_lost)
        self._archive_job: ArchiveJob | None = None

    def after_fork(self, lock: threading.Lock) -> None:
        """Forget the parent's processes and requests. lock: the child's."""
        self._reset(lock)
        self._progress.after_fork()

    def compile(self, source: KernelSource, key: str, for_others: Container[KernelSource]) -> None:
        """Request a kernel under its key; return at once.

        for_others: the kernels that later processes alone use, which are compiled last.
        """
        with self._lock:
            self._by_key[key] = source
            self.queue.put(key, for_others=source in for_others)
            if not source.target and self._archive_job is None:
                self._want_archive()
        self._progress.begin()

    def _want_archive(self) -> None:
        """Have this machine's archive built where a kernel had to be compiled."""
        if self._stored.packs.has_archive():
            return
        from tfjit.kernels.jit.archive_job import ArchiveJob

        self._archive_job = ArchiveJob(
            self._stored.precompiled,
            lambda: self._owner.compile_counts().pending,
            self._stored.cache_directory,
        )
        self._archive_job.want()

    def forget(self, key: str) -> None:
        """Drop the request for a settled kernel. The caller holds the lock."""
        self._by_key.pop(key, None)

    def compile_ms(self, source: KernelSource) -> float | None:
        """Return the compiler's time for a kernel.

        None where this process has not compiled it.
        """
        return self._compile_ms.get(source)

    # the queue holds the lock
    def _request(self, key: str) -> dict[str, object] | None:
        """Return the message that asks a process for a kernel."""
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
            "directory": str(self._stored.directory or ""),
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
        self._counters.compile_ms += self._compile_ms[source]
        if "error" in answer:
            self._owner.refuse(source, str(answer["error"]), str(answer["path"]))
            return
        self._counters.compiled += 1
        try:
            obj = ObjectFile.decode(base64.b64decode(str(answer["object"])))
            addresses = self._stored.load_object(source, obj)
        except (DamagedObject, loader.LoadError) as error:
            reason = f"its object code does not load: {error}"
            self._owner.refuse(source, reason, str(answer["path"]))
        else:
            self._owner.settle(source, addresses)

    def _on_lost(self, keys: Sequence[str], reason: str) -> None:
        with self._lock:
            lost = [self._by_key[key] for key in keys if key in self._by_key]
        for n, source in enumerate(lost):
            self._owner.refuse(source, reason, quiet=n > 0)

    def close(self) -> None:
        """Let the archive be built now, if it is wanted."""
        if self._archive_job is not None:
            self._archive_job.close()
