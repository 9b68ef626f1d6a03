"""One process of `python -m benchmarks gpu`: workloads by one candidate, a line of JSON each.

A line is written before and after each workload, so that the parent knows which one takes too long
or has ended the process.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.gpu.workloads import workloads
from benchmarks.workload import Workload
from tfjit.lab.peers.presence import Absent

OURS = ("tfjit", "kernels", "unfused")
WITHOUT_LIBRARIES = ("kernels",)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.child", description=__doc__)
    parser.add_argument("candidate")
    parser.add_argument("folder", type=Path, help="of graphs, expected outputs and records")
    parser.add_argument("names", nargs="*", help="of workloads")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--simulated", action="store_true", help="simulate the GPU")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Measure; the status is always 0, since each record tells of its failure."""
    args = _parser().parse_args(argv)
    if args.simulated:
        os.environ["NUMBA_ENABLE_CUDASIM"] = "1"
    # other libraries keep float32, too; outputs are compared with those of the host
    os.environ.setdefault("TFJIT_TF32", "0")
    if args.candidate in WITHOUT_LIBRARIES:
        os.environ["TFJIT_CUDA_LIBRARIES"] = "0"
    chosen = {workload.name: workload for workload in workloads(args.tiny)}
    with (args.folder / f"{args.candidate}.jsonl").open("a", encoding="utf-8") as lines:

        def write(record: dict[str, Any]) -> None:
            lines.write(json.dumps({"candidate": args.candidate} | record) + "\n")
            lines.flush()

        for name in args.names:
            write({"workload": name, "started": True})
            began = time.perf_counter()
            try:
                found = _measured(args.candidate, chosen.get(name), args.folder, args.tiny)
            except Absent as why:
                found = {"absent": str(why)}
            # one workload's failure must not lose the others' figures
            except Exception as error:
                reason = " ".join(f"{type(error).__name__}: {error}".split())[:400]
                found = {"error": reason, "traceback": traceback.format_exc()[-3000:]}
            write({"workload": name, "seconds": time.perf_counter() - began} | found)
    return 0


def _measured(
    candidate: str, workload: Workload | None, folder: Path, tiny: bool
) -> dict[str, Any]:
    if candidate == "limits":
        from benchmarks.gpu.limits import measure_card
        from tfjit.kernels.cuda.device import devices

        return dataclasses.asdict(measure_card(devices.open_device(0), tiny))
    assert workload is not None
    feeds = workload.feeds(np.random.default_rng(0))
    stem = folder / "".join(c if c.isalnum() else "_" for c in workload.name)
    if candidate in (*OURS, "sessions"):
        from benchmarks.gpu import ours
        from benchmarks.gpu.graphs import graph_of

        data = graph_of(workload)
        if candidate == "sessions":
            return ours.memory_of_sessions(workload, data, feeds)
        expected = _read(stem)
        if expected is None:
            expected = ours.on_host(workload, data, feeds)
            stem.with_suffix(".pb").write_bytes(data)
            _write(stem, expected)
        return ours.measure(workload, data, feeds, candidate != "unfused", expected)
    from benchmarks.gpu import peers

    expected = _read(stem)
    if expected is None:
        raise Absent("the host's session has given no outputs to compare with")
    return peers.measure(candidate, workload, stem.with_suffix(".pb").read_bytes(), feeds, expected)


def _write(stem: Path, expected: list[list[np.ndarray]]) -> None:
    arrays = {f"{step}_{i}": v for step, run in enumerate(expected) for i, v in enumerate(run)}
    np.savez(stem.with_suffix(".npz"), **arrays)  # type: ignore[arg-type]


def _read(stem: Path) -> list[list[np.ndarray]] | None:
    path = stem.with_suffix(".npz")
    if not path.is_file():
        return None
    found: dict[int, list[np.ndarray]] = {}
    with np.load(path) as file:
        for name in sorted(file.files, key=lambda name: [int(n) for n in name.split("_")]):
            found.setdefault(int(name.split("_")[0]), []).append(file[name])
    return list(found.values())


if __name__ == "__main__":
    raise SystemExit(main())
