"""Compile kernels for levels of x86-64 and write their archives.

The kernels are the generic ones, or those of a pack. Compiler processes for a level run no kernel:
a machine makes archives for levels above its own.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

from tfjit.kernels.jit import loader, target
from tfjit.kernels.jit.archive import SUFFIX, write_archive
from tfjit.kernels.jit.cache_key import (
    HOST_LEVEL,
    complete_key,
    precompiled_key,
    precompiled_text_key,
)
from tfjit.kernels.jit.niceness import be_nice
from tfjit.kernels.jit.object_file import ObjectFile
from tfjit.kernels.source import KernelSource

_NICE: Final = 10
_BLOCK: Final = 8
"""Kernels that a process takes at a time."""
COMPLETE: Final = ObjectFile({}, (), b"")
"""The object of `complete_key` in an archive with the whole set."""
Progress = Callable[[int, int], None]
Text = tuple[str, tuple[str, ...]]
Compiled = tuple[dict[str, ObjectFile], list[str], float]
"""Kernels by key, reasons of those refused, processor seconds."""
P = ParamSpec("P")
R = TypeVar("R")


class Failed(Exception):
    """A kernel of the set does not compile; the message names it."""


@dataclass(frozen=True, slots=True)
class Built:
    """The archive of one level.

    code_bytes: object code before compression. file_bytes: of the archive. cpu_s: processor time
    of all processes. refused: titles of kernels that do not compile, which it lacks.
    """

    path: Path
    kernels: int
    code_bytes: int
    file_bytes: int
    cpu_s: float
    refused: tuple[str, ...] = ()


def build_archive(
    folder: Path,
    level: str,
    processes: int,
    sources: Sequence[KernelSource] | None = None,
    progress: Progress = lambda done, total: None,
    texts: Sequence[Text] = (),
    block: int = _BLOCK,
    strict: bool = True,
) -> Built:
    """Compile kernels for a level and write `folder`/<level>.tfk in one atomic step.

    sources: the kernels; all generic ones by default. progress: called with the numbers of compiled
    and of all kernels. texts: (LLVM assembly, its functions) beside those of the table executor.
    block: kernels that a process takes at a time. strict: every kernel has to compile. Raises
    Failed when one does not that has to, OSError when the file cannot be written.
    """
    objects: dict[str, ObjectFile] = {}
    refused: list[str] = []
    cpu_s = 0.0
    whole = sources is None
    with compilers(level, processes) as pool:
        if sources is None:
            sources = pool.submit(enumerate_kernels).result()
        total = len(sources)
        for found, failed, seconds in compiled(pool, level, sources, texts, block):
            if failed and strict:
                raise Failed(failed[0])
            objects.update(found)
            refused += failed
            cpu_s += seconds
            progress(min(len(objects), total), total)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{level}{SUFFIX}"
    marked = objects | ({complete_key(level): COMPLETE} if whole else {})
    size = write_archive(path, marked)
    path.chmod(0o644)
    code_bytes = sum(len(obj.code) for obj in objects.values())
    return Built(path, len(objects), code_bytes, size, cpu_s, tuple(refused))


class _ThisProcess(Executor):
    """Compile in this process, each block when its result is asked for."""

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        future: Future[R] = Future()
        future.set_result(fn(*args, **kwargs))
        return future

    def map(
        self,
        fn: Callable[..., R],
        *iterables: Iterable[object],
        timeout: float | None = None,
        chunksize: int = 1,
    ) -> Iterator[R]:
        return map(fn, *iterables)


def compiled(
    pool: Executor,
    level: str,
    sources: Sequence[KernelSource],
    texts: Sequence[Text] = (),
    block: int = _BLOCK,
) -> Iterator[Compiled]:
    """Yield a level's kernels in blocks.

    The first block has the table executor's assembly and `texts`.
    """
    assembly = pool.submit(_compile_texts, level, tuple(texts))
    blocks = [sources[at : at + block] for at in range(0, len(sources), block)]
    kernels = pool.map(partial(_compile, level), blocks)
    yield assembly.result()
    yield from kernels


@contextmanager
def compilers(level: str, processes: int) -> Iterator[Executor]:
    """Open niced processes that compile for a level.

    With 0 processes, this process compiles. It must not have made texts of kernels for another CPU.
    """
    if not processes:
        _start(level)
        yield _ThisProcess()
        return
    method = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, method, _start, (level,)) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _start(level: str) -> None:
    """Make a new process one that compiles for a level."""
    be_nice(_NICE)
    if level != HOST_LEVEL:
        target.compile_for(level)


def enumerate_kernels() -> tuple[KernelSource, ...]:
    """Return the generic kernels for this CPU, the most used first."""
    from tfjit.kernels.precompile.generic_kernels import generic_kernels

    return generic_kernels()


def _compile_texts(level: str, texts: Sequence[Text]) -> Compiled:
    """Compile the table executor with the thread pool, and other assembly."""
    from tfjit.kernels.precompile.generic_kernels import machine_texts

    start = time.process_time()
    found = {
        precompiled_text_key(text, functions, level): loader.compile_ir(text, functions)
        for text, functions in dict.fromkeys((*machine_texts(), *texts))
    }
    return found, [], time.process_time() - start


def _compile(level: str, sources: Sequence[KernelSource]) -> Compiled:
    """Compile kernels of which some may be refused."""
    from tfjit.kernels.jit import compiler

    start = time.process_time()
    os.environ.update(compiler.numba_target())  # before anything imports Numba
    found, refused = {}, []
    for source in sources:
        key = precompiled_key(source, level)
        unique = f"tfjit_{key[:24]}"
        try:
            obj = compiler.compile_text(
                source.text,
                source.entries,
                source.arity,
                source.interleave,
                f"<{unique}>",
                unique,
                source.attempt,
            )
        except Exception as error:  # Numba or the text may raise anything
            name = source.title or source.digest[:12]
            refused.append(f"{name} for {level}: {type(error).__name__}: {error}")
            continue
        found[key] = obj
    return found, refused, time.process_time() - start
