"""Compile every kernel that suites and programs build for GPUs. No GPU is needed.

    python -m tests.kernels.cuda.compile_all --processes 2 --keep build/launches
    python -m tests.kernels.cuda.compile_all --tests tests/contract tests/kernels/cuda/gemm

The launches are collected first. Those of the conformance suite: all nodes are placed on a
simulated GPU, and the host's references compute the values. Those of the tests of kernels and
programs, in the simulator. Those of the benchmark's graphs at full size, which run nothing. Each
text is then compiled for sm_80, sm_90 and sm_100. A text that the simulator runs and the compiler
refuses would show on hardware alone, as work of the host.

The report has a line a suite, then a line for each fault: a refusal, a launch that does not fit on
a multiprocessor, local memory, a warning of the linker. The exit status tells whether any text is
refused or does not fit. It takes half an hour of a core to collect and 0.1 s a text and
architecture to compile. --from FOLDER compiles what an earlier command has kept.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import warnings
from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import median
from typing import Final

from tests import hardware
from tests.kernels.cuda.collected_texts import CollectedText, Outcome, compiled, read_texts
from tests.kernels.cuda.launch_collection import FOLDER
from tests.kernels.cuda.linked import ALL

ROOT: Final = Path(__file__).resolve().parents[3]
_PYTEST: Final = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p")
_PLUGIN: Final = "tests.kernels.cuda.launch_collection"
_SLOW: Final = ("local memory", "warning")
"""Texts of the faults that cost time alone."""


def collect(folder: Path, tests: Sequence[str], processes: int) -> None:
    """Write the launches of tests, of all and of the benchmark where there are none named."""
    environment = os.environ | {FOLDER: str(folder)}
    environment.pop("NUMBA_ENABLE_CUDASIM", None)
    parallel = ("--numprocesses", str(processes)) if processes > 1 else ()
    conformance = [f"tests/{name}" for name in hardware.CONFORMANCE]
    chosen = [t for t in tests if _is_conformance(t)] if tests else conformance
    if chosen:
        _run((*_PYTEST, _PLUGIN, *parallel, "-m", "gpu", *chosen), environment, simulated=True)
    chosen = [t for t in tests if t not in chosen] if tests else _simulating()
    if chosen:
        _run((*_PYTEST, _PLUGIN, *parallel, *chosen), environment)
    if not tests:
        _run(("-m", "tests.kernels.cuda.benchmark_launches", str(folder)), environment)


def _is_conformance(test: str) -> bool:
    path = ROOT / test
    if path.is_file():
        return hardware.is_conformance(path)
    return test.removeprefix("tests/").startswith(hardware.CONFORMANCE)


def _simulating() -> list[str]:
    """Return the test modules that have a simulated GPU of their own."""
    return [
        file.relative_to(ROOT).as_posix()
        for file in sorted(hardware.TESTS.rglob("test_*.py"))
        if hardware.simulates(file)
    ]


def _run(arguments: Sequence[str], environment: dict[str, str], simulated: bool = False) -> None:
    if simulated:
        environment = environment | {"NUMBA_ENABLE_CUDASIM": "1"}
    done = subprocess.run([sys.executable, *arguments], cwd=ROOT, env=environment, check=False)
    # what tests assert on kernels of the host fails while it has none, and their launches count
    if done.returncode not in (0, 1):
        raise SystemExit(f"collecting failed: {' '.join(arguments)}")


def compile_texts(
    texts: dict[str, CollectedText], architectures: Sequence[str], processes: int
) -> list[Outcome]:
    """Return the outcome for each text and architecture."""
    requests = [(digest, one, name) for name in architectures for digest, one in texts.items()]
    outcomes = []
    with ProcessPoolExecutor(processes) as pool:
        for number, outcome in enumerate(pool.map(compiled, requests, chunksize=4), 1):
            outcomes.append(outcome)
            if number % 200 == 0:
                print(f"{number} of {len(requests)} compiled", file=sys.stderr, flush=True)
    return outcomes


def report(texts: dict[str, CollectedText], outcomes: Iterable[Outcome]) -> bool:
    """Print the table and the faults; return whether a GPU could run each text."""
    by_digest: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        by_digest[outcome.digest].append(outcome)
    suites: dict[str, list[str]] = defaultdict(list)
    for digest, one in texts.items():
        for name in {_suite(origin) for origin in one.origins}:
            suites[name].append(digest)
    print(f"{'suite':28} texts  refused  local  float64  registers: median, most")
    for name, digests in [*sorted(suites.items()), ("all", list(texts))]:
        found = [by_digest[digest] for digest in digests]
        registers = [o.resources.registers for some in found for o in some if not o.refused]
        counts = [
            sum(any(o.refused for o in some) for some in found),
            sum(any(o.resources.local_bytes for o in some) for some in found),
            sum(any(dict(o.counts).get("float64") for o in some) for some in found),
        ]
        print(
            f"{name:28} {len(digests):5}  {counts[0]:7}  {counts[1]:5}  {counts[2]:7}  "
            f"{median(registers or [0]):6.0f}, {max(registers or [0])}"
        )
    runs = True
    for digest, one in sorted(texts.items(), key=lambda item: (item[1].writer, item[1].title)):
        faults: dict[str, list[str]] = defaultdict(list)
        for outcome in by_digest[digest]:
            for fault in outcome.faults(one):
                faults[fault].append(outcome.architecture)
        for fault, names in faults.items():
            print(f"{one.writer}: {one.title} ({min(one.origins)}), {', '.join(names)}: {fault}")
            runs &= any(text in fault for text in _SLOW)
    return runs


def _suite(origin: str) -> str:
    """Return the folder of a test, or "benchmarks/gpu"."""
    if ":" in origin:
        return origin.partition(":")[0]
    parts = origin.split("/")
    return "/".join(parts[: min(3, len(parts) - 1)])


def main() -> int:
    """Collect, compile and report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tests", nargs="+", default=[], metavar="PATH", help="these alone")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--architectures", nargs="+", default=list(ALL), metavar="NAME")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="of the collected launches")
    parser.add_argument("--from", type=Path, dest="kept", metavar="FOLDER", help="compile those")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of Numba, on texts that only tests have
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.kept or options.keep or Path(temporary)
        if options.kept is None:
            collect(folder.resolve(), options.tests, options.processes)
        texts = read_texts(folder)
    outcomes = compile_texts(texts, options.architectures, options.processes)
    return 0 if report(texts, outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
