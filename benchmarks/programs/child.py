"""`python -m benchmarks.programs.child NAME LIBRARY`: run one program in this process.

Writes a `Record` as JSON to the file that --out names. `benchmarks.programs.runner` starts it.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import gc
import json
import os
import resource
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.programs import packed
from benchmarks.programs.catalogue import BY_NAME, LENGTHS, Program
from benchmarks.programs.profile import Profile
from benchmarks.programs.record import Record, Recorder

LIBRARIES: Final = ("tensorflow", "tfjit")
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_COMPILE_S: Final = 60.0
"""Time to wait for kernels after the last step, at most."""


def _status_mb(pid: int | str, name: str) -> float:
    """Return a process's memory figure, in MiB; 0 without the process."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(name)), 0.0)


def _descendants() -> list[tuple[int, float]]:
    """Return (process, its processor seconds) of the living processes below this one."""
    parents, seconds = {}, {}
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            fields = Path(entry.path, "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(entry.name)
        parents[pid] = int(fields[1])
        seconds[pid] = sum(map(int, fields[11:15])) / _TICKS
    found: list[tuple[int, float]] = []
    family = {os.getpid()}
    while True:
        new = {pid for pid, parent in parents.items() if parent in family} - family
        if not new:
            return found
        family |= new
        found += [(pid, seconds[pid]) for pid in sorted(new)]


def _helper_cpu_s() -> float:
    """Return processor seconds of this process's children, living and gone."""
    gone = resource.getrusage(resource.RUSAGE_CHILDREN)
    return gone.ru_utime + gone.ru_stime + sum(seconds for _, seconds in _descendants())


def _machine_cpu_s() -> float:
    """Return the processor seconds that all programs of the machine have used."""
    figures = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    user, nice, system, _, _, irq, soft_irq, steal = map(int, figures[:8])
    return (user + nice + system + irq + soft_irq + steal) / _TICKS


def _seeded(library: str) -> Any:
    """Return TensorFlow's module of version 1, with sessions of the library."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow.compat.v1 as tf

    if library == "tfjit":
        import tfjit

        tfjit.patch_tensorflow()
    tf.logging.set_verbosity(tf.logging.ERROR)
    tf.disable_v2_behavior()
    return tf


def run(
    program: Program,
    library: str,
    tf: Any,
    length: str,
    threads: int,
    limit_s: float,
    profiled_s: float = 0.0,
    pack: Path | None = None,
) -> Record:
    """Run a program in a new default graph.

    A failure is kept in the record. profiled_s: the time since the session was made in which
    threads are sampled. pack: the pack that the session is made from.
    """
    record = Record(library)
    recorder = Recorder(program.length(length), limit_s)
    marks: dict[str, float] = {}
    begin = time.perf_counter()

    def started() -> None:
        gc.collect()
        record.built_s = time.perf_counter() - begin
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
        record.built_rss_mb = _status_mb("self", "VmRSS")
        marks.update(cpu=time.process_time(), helpers=_helper_cpu_s())
        marks.update(machine=_machine_cpu_s(), at=time.perf_counter())
        if profile is not None:
            profile.start()

    def ended() -> None:
        if profile is not None:
            profile.stop()
            record.step_wall, record.stage_cpu = dict(profile.step_wall), dict(profile.cpu)
            record.stage_cpu["compiler process, whole run"] = _helper_cpu_s() - marks["helpers"]
        wall = time.perf_counter() - marks["at"]
        record.helper_cpu_s = _helper_cpu_s() - marks["helpers"]
        record.total_cpu_s = time.process_time() - marks["cpu"] + record.helper_cpu_s
        machine = _machine_cpu_s() - marks["machine"]
        record.others = max(0.0, (machine - record.total_cpu_s) / wall)
        record.peak_rss_mb = _status_mb("self", "VmHWM")
        record.helper_rss_mb = max(
            (_status_mb(pid, "VmHWM") for pid, _ in _descendants()), default=0
        )
        # A run that is over before its kernels are compiled must not leave half a cache.
        wait = getattr(recorder.session, "wait_until_compiled", None)
        if wait is not None:
            wait(_COMPILE_S)

    profile = Profile(profiled_s) if profiled_s else None
    recorder.on_start, recorder.on_end = started, ended
    recorder.open = packed.opener(pack)
    with tf.Graph().as_default():
        tf.set_random_seed(1234)
        try:
            program.run(tf, recorder, threads, **program.options(length))
        except Exception:  # a failed program must not lose the other programs' figures
            record.failure = traceback.format_exc()
    recorder.fill(record)
    used = {kind.__module__.partition(".")[0] for kind in type(recorder.session).__mro__}
    if not record.failure and library not in used:
        record.failure = f"the session was not {library}'s: {type(recorder.session)}"
    return record


def write_pack(program: Program, tf: Any, length: str, threads: int, out: Path) -> None:
    """Run the beginning of a program, and pack it."""
    steps = min(program.length(length), packed.PACKING_STEPS)
    with tempfile.TemporaryDirectory() as folder, tf.Graph().as_default():
        tf.set_random_seed(1234)
        recorder = Recorder(steps, packed.PACKING_S)
        made: list[packed.PackingSession] = []

        def open_session(tf: Any, config: Any) -> packed.PackingSession:
            made.append(packed.PackingSession(tf, config, Path(folder) / "model"))
            return made[0]

        recorder.open = open_session
        program.run(tf, recorder, threads, **program.options(length))
        packed.write(made[0], Path(folder) / "model", out)


def main(argv: Sequence[str] | None = None) -> int:
    """The command. Returns 1 when the program failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.programs.child")
    parser.add_argument("name", choices=list(BY_NAME))
    parser.add_argument("library", choices=LIBRARIES)
    parser.add_argument("--length", choices=LENGTHS, default="quick")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--limit", type=float, default=float("inf"), metavar="SECONDS")
    parser.add_argument("--profile", type=float, default=0.0, metavar="SECONDS")
    parser.add_argument("--out", type=Path, metavar="FILE")
    parser.add_argument("--write-pack", type=Path, metavar="FILE", help="pack the program only")
    parser.add_argument("--pack", type=Path, metavar="FILE", help="run it from this pack")
    args = parser.parse_args(argv)
    if args.threads < len(os.sched_getaffinity(0)):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.threads])
    tf = _seeded(args.library)
    if args.write_pack is not None:
        write_pack(BY_NAME[args.name], tf, args.length, args.threads, args.write_pack)
        return 0
    record = run(
        BY_NAME[args.name],
        args.library,
        tf,
        args.length,
        args.threads,
        args.limit,
        args.profile,
        args.pack,
    )
    if args.out:
        args.out.write_text(json.dumps(dataclasses.asdict(record)))
    if record.failure:
        print(record.failure, file=sys.stderr)
    return 1 if record.failure else 0


if __name__ == "__main__":
    sys.exit(main())
