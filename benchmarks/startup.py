"""Measure process start to first result and to compiled speed.

`python -m benchmarks.startup [--runs N]`. MobileNetV2 in fresh processes: with an empty kernel
cache, with a full one, and from a pack, there without a cache, Numba and llvmlite. Times count from
the start of the process, imports included. The first process only writes Python's bytecode, as an
installation does, and is not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

DATA = Path(__file__).resolve().parents[1] / "tests" / "data"
MODEL = DATA / "mobilenet_v2.pb"

_PROCESS = """
import json, os, sys, time
def since_start():
    ticks = float(open("/proc/self/stat").read().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
before = time.perf_counter()
import numpy as np
numpy_s = time.perf_counter() - before
before = time.perf_counter()
import tfjit
tfjit.Session
import_s = time.perf_counter() - before
data = np.load(sys.argv[1] + "/mobilenet_v2.npz")
feed, fetch, image = str(data["feed"]), str(data["fetch"]), data["images"][:1]
session = tfjit.Session(graph=sys.argv[3])
first = session.run(fetch, {feed: image})
first_s, cpu_s = since_start(), time.process_time()
assert np.allclose(first, data["outputs"][:1], 1e-4, 1e-6)
best = None
while since_start() < float(sys.argv[2]):
    before = time.perf_counter()
    session.run(fetch, {feed: image})
    elapsed = time.perf_counter() - before
    if best is None and elapsed < 0.002:
        best = since_start()
        break
session.wait_until_compiled(60)
assert np.allclose(session.run(fetch, {feed: image}), data["outputs"][:1], 1e-4, 1e-6)
times = {"numpy": numpy_s, "tfjit": import_s, "first": first_s, "cpu": cpu_s, "compiled": best}
print(json.dumps(times))
"""


def _run(
    cache: Path, limit_s: float, graph: Path = MODEL, hidden: Path | None = None
) -> dict[str, float]:
    """Return the seconds of a fresh process. hidden: a folder of modules that hide others."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | {
        "TFJIT_CACHE_DIR": str(cache)
    }
    if hidden is not None:
        environment["PYTHONPATH"] = str(hidden)
    done = subprocess.run(
        [sys.executable, "-c", _PROCESS, str(DATA), str(limit_s), str(graph)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def _pack(out: Path) -> None:
    """Pack MobileNetV2 for one image and this CPU."""
    from tfjit.client.packing.packer import RunRequest, pack_model
    from tfjit.client.session.model_file import read_model
    from tfjit.kernels.jit import target

    data = np.load(DATA / "mobilenet_v2.npz")
    feeds = {f"{data['feed']}": data["images"][:1].shape}
    request = RunRequest(feeds, (f"{data['fetch']}",))
    pack_model(read_model(MODEL), [request], out, target.levels_here()[:1])


def _hide(folder: Path) -> Path:
    """Make modules in place of Numba and llvmlite that cannot be imported."""
    for name in ("numba", "llvmlite"):
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text(f"raise ImportError('{name} is hidden')\n")
    return folder


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.startup", description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="processes for each figure (default 5)")
    args = parser.parse_args()
    rows: dict[str, list[dict[str, float]]] = {"cold": [], "warm": [], "packed": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        warm, pack, hidden = folder / "warm", folder / "mobilenet.tfjit", _hide(folder / "hidden")
        _run(warm, 60)
        _pack(pack)
        for n in range(args.runs):
            rows["cold"].append(_run(folder / f"cold{n}", 60))
            rows["warm"].append(_run(warm, 60))
            rows["packed"].append(_run(Path("/dev/null/cache"), 60, pack, hidden))
    print(
        "seconds, medians; first, its processor time and compiled (a run under 2 ms) count from "
        "the start of the process"
    )
    for kind, results in rows.items():
        figures = {
            name: statistics.median(
                r[name] if r[name] is not None else float("inf") for r in results
            )
            for name in results[0]
        }
        print(f"{kind:6}" + "".join(f"  {name} {value:.3f}" for name, value in figures.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
