"""Start each program in separate processes.

One process for each library and state of the cache.
"""

from __future__ import annotations

import compileall
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.programs import archives
from benchmarks.programs.catalogue import Program
from benchmarks.programs.record import Record

ROOT: Final = Path(__file__).resolve().parents[2]
TENSORFLOW: Final = "tensorflow"
OTHER_MODE: Final = "tensorflow, other oneDNN mode"
COLD: Final = "tfjit cold"
WARM: Final = "tfjit warm"
PACKED: Final = "tfjit packed"
# They would give the libraries other threads or slower products than they choose; the last one
# would have each process compile tfjit's modules, where TensorFlow's are compiled.
_UNSET: Final = (
    "OPENBLAS_CORETYPE",
    "OPENBLAS_L2_SIZE",
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "TFJIT_CACHE_DIR",
    "PYTHONDONTWRITEBYTECODE",
)
_MODULES: Final = ("tfjit", "kernels", "passes", "protos")
_START_S: Final = 120.0  # a process may take so much longer than its time limit


@dataclass(frozen=True, slots=True)
class Options:
    """Hold the settings of the runs.

    limit_s: a program stops after the step that passes it. profiled_s: the time in which tfjit's
    runs are sampled. archives: whether tfjit's runs find archives of generic kernels.
    """

    length: str
    threads: int
    limit_s: float
    runs: Sequence[str] = (TENSORFLOW, COLD, WARM)
    profiled_s: float = 0.0
    archives: bool = True


def onednn_mode(kind: str) -> str:
    """Return the value of TF_ENABLE_ONEDNN_OPTS in a run.

    It is the user's, or the other one.
    """
    mode = os.environ.get("TF_ENABLE_ONEDNN_OPTS", "1")
    return mode if kind != OTHER_MODE else "0" if mode != "0" else "1"


def compile_modules() -> None:
    """Write the bytecode of tfjit's modules, as an installer of packages does."""
    for folder in _MODULES:
        compileall.compile_dir(ROOT / folder, quiet=2)


def start(
    program: Program, kind: str, options: Options, cache: Path, arguments: Sequence[str] = ()
) -> Record:
    """Run one program in a separate process and return its record.

    arguments: further ones of the process.
    """
    library = TENSORFLOW if kind in (TENSORFLOW, OTHER_MODE) else "tfjit"
    environment = {name: value for name, value in os.environ.items() if name not in _UNSET}
    environment |= {
        "TFJIT_CACHE_DIR": str(cache),
        "TF_ENABLE_ONEDNN_OPTS": onednn_mode(kind),
        "TF_CPP_MIN_LOG_LEVEL": "3",
        **archives.VARIABLES,
        **({} if options.archives else archives.WITHOUT),
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
    }
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "record.json"
        command = [sys.executable, "-m", "benchmarks.programs.child", program.name, library]
        command += ["--length", options.length, "--threads", str(options.threads)]
        command += ["--limit", str(options.limit_s), "--out", str(out)]
        command += ["--profile", str(options.profiled_s)] if library == "tfjit" else []
        command += arguments
        try:
            done = subprocess.run(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=options.limit_s + _START_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            return Record(kind, failure=f"took more than {error.timeout:.0f} s")
        if not out.exists() and not ("--write-pack" in arguments and not done.returncode):
            return Record(kind, failure=f"status {done.returncode}\n{done.stderr[-2000:]}")
        if not out.exists():
            return Record(kind)
        record = Record(**json.loads(out.read_text()))
    record.library = kind
    return record


def run(program: Program, options: Options) -> Iterator[Record]:
    """Run a program once for each kind of run.

    The warm run finds the cold run's cache. The packed run has an empty one.
    """
    with tempfile.TemporaryDirectory(prefix="tfjit_programs_") as folder:
        cache = Path(folder) / "cache"
        if options.archives:
            archives.copy_own(cache)
        for kind in options.runs:
            if kind == PACKED:
                if not program.unpacked:
                    yield _run_packed(program, options, Path(folder))
                continue
            if kind == WARM and COLD not in options.runs:
                start(program, COLD, options, cache)
            yield start(program, kind, options, cache)


def _run_packed(program: Program, options: Options, folder: Path) -> Record:
    """Pack a program in one process and run it from the pack in another."""
    pack = str(folder / "program.tfjit")
    written = start(program, PACKED, options, folder / "packing", ("--write-pack", pack))
    if written.failure:
        return written
    return start(program, PACKED, options, folder / "no cache", ("--pack", pack))
