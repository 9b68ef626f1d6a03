"""Measure the CPU seconds that compiling the kernels of graphs takes.

`python -m benchmarks.compile_time [NAME ...] [--slowest N] [--json FILE]`. A name is the start of a
workload's name, of those of `python -m benchmarks --list`. The kernels are compiled one after the
other in this process, as a compiler process does it, and nothing is written to the cache.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from unittest import mock

import numpy as np

from tfjit.kernels.jit import compiler, loader

if TYPE_CHECKING:
    from benchmarks.workload import Workload
    from tfjit.kernels.source import KernelSource

DEFAULT: Final = (
    "MobileNetV2 224, batch 1",
    "ResNet50 224, batch 1",
    "training step, LSTM 128 units, 50 steps, batch 32, v1",
    "transformer layer, 8x128x256",
    "DLRM, batch 256",
    "training step, CNN 28x28, Adam, batch 64",
)


@dataclass(frozen=True, slots=True)
class Row:
    """Hold the CPU seconds of one kernel. bytes: of its object code; lines: of its text."""

    title: str
    cpu_s: float
    bytes: int
    lines: int


class Phases:
    """Sum CPU seconds by phase; the time of an inner phase is not the outer one's."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self._inner: list[float] = []

    def timed(self, function: Callable[..., Any], phase: str) -> Callable[..., Any]:
        """Return the function with its time counted under `phase`."""

        @functools.wraps(function)
        def counted(*args: Any, **kwargs: Any) -> Any:
            start = time.process_time()
            self._inner.append(0.0)
            try:
                return function(*args, **kwargs)
            finally:
                elapsed = time.process_time() - start
                self.seconds[phase] += elapsed - self._inner.pop()
                if self._inner:
                    self._inner[-1] += elapsed

        return counted

    @contextmanager
    def watching(self, functions: Sequence[tuple[Any, str, str]]) -> Iterator[None]:
        """Count the times of (module, function's name, phase) in a `with` block."""
        with ExitStack() as stack:
            for owner, name, phase in functions:
                counted = self.timed(getattr(owner, name), phase)
                stack.enter_context(mock.patch.object(owner, name, counted))
            yield


def kernels_of(workload: Workload) -> list[KernelSource]:
    """Return the kernels of a workload's step, which is not compiled for it."""
    import tfjit
    from benchmarks.harness import graph_bytes

    with tfjit.Session(graph=graph_bytes(workload)) as session:
        names = [*workload.fetches, *workload.targets]
        elements = [session.graph.as_graph_element(name) for name in names]
        lowered = session.lower(elements, dict(workload.feeds(np.random.default_rng(0))))
        stages = lowered._stages
        stages.as_text("step", compiled=False)  # selects the kernels
        calls = [
            call
            for instruction in stages._lowered.instructions
            for call in (instruction.call, instruction.unfused)
            if call is not None
        ]
    return list(dict.fromkeys(source for call in calls for source in call.sources()))


def import_numba() -> float:
    """Import Numba as a compiler process does; return the CPU seconds of that."""
    for name in [name for name in os.environ if name.startswith("NUMBA_")]:
        del os.environ[name]
    os.environ.update(compiler.numba_target())
    start = time.process_time()
    compiler.import_numba()
    return time.process_time() - start


def measure(sources: Sequence[KernelSource]) -> tuple[list[Row], Phases]:
    """Compile kernels in this process; return a row for each and the phases of all."""
    from tfjit.kernels.jit import front_end

    phases, rows = Phases(), []
    watched = (
        (front_end, "translate", "text to LLVM IR"),
        (compiler, "compiled_by_numba", "texts left to Numba"),
        (compiler, "optimise", "LLVM passes"),
        (loader, "emit", "object emission"),
        (compiler, "compile_text", "import of texts, LLVM's parser"),
    )
    with phases.watching(watched):
        for number, source in enumerate(sources):
            start = time.process_time()
            obj = compiler.compile_text(
                source.text,
                source.entries,
                source.arity,
                source.interleave,
                f"<kernel {number}>",
                f"tfjit_{number}",
            )
            elapsed = time.process_time() - start
            rows.append(Row(source.title, elapsed, len(obj.code), source.text.count("\n")))
    return rows, phases


def main(argv: list[str] | None = None) -> int:
    """Run the command; returns 2 for unknown names."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compile_time", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="workloads (default: six)")
    parser.add_argument("--slowest", type=int, default=20, help="kernels listed (default 20)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures")
    args = parser.parse_args(argv)

    from benchmarks.__main__ import scripts

    known = [workload for workloads in scripts().values() for workload in workloads]
    wanted = args.names or DEFAULT
    chosen = [w for w in known if any(w.name.startswith(name) for name in wanted)]
    unknown = [name for name in args.names if not any(w.name.startswith(name) for w in known)]
    if unknown:
        print(f"unknown workload {', '.join(unknown)}", file=sys.stderr)
        return 2
    by_workload = {workload.name: kernels_of(workload) for workload in chosen}
    sources = list(dict.fromkeys(s for found in by_workload.values() for s in found))
    imported = import_numba()
    rows, phases = measure(sources)
    total = sum(row.cpu_s for row in rows)
    print(f"{len(rows)} kernels, {total:.3f} CPU s, and {imported:.3f} s for Numba's import")
    for phase, seconds in phases.seconds.most_common():
        print(f"  {seconds:8.3f}  {phase}")
    print("graphs, with each kernel that they use:")
    of_source = dict(zip(sources, rows, strict=True))
    for name, found in by_workload.items():
        print(f"  {sum(of_source[s].cpu_s for s in found):8.3f}  {name} ({len(found)} kernels)")
    slowest = sorted(rows, key=lambda row: -row.cpu_s)[: args.slowest]
    print(f"the {len(slowest)} slowest, {sum(row.cpu_s for row in slowest):.3f} CPU s:")
    for row in slowest:
        print(f"  {row.cpu_s:8.3f}  {row.bytes:6} bytes  {row.lines:4} lines  {row.title}")
    if args.json:
        figures = {"import_s": imported, "phases": dict(phases.seconds)}
        figures["kernels"] = [asdict(row) for row in rows]
        args.json.write_text(json.dumps(figures, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
