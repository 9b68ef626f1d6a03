"""A process that finds a plan's kernels on disk serves its first run by them; one that does not, by
references.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfjit
from tests.forked_processes import Processes
from tfjit.runtime.plan import first_run
from tfjit.runtime.plan.variant import QUICK_NODES
from tfjit.runtime.stored_plans import plan_warm_start
from tfjit.runtime.stored_plans.plan_warm_start import PlanRecord

_PROCESS = """
import json, sys
import numpy as np
import tfjit
from tfjit.kernels.jit.store import store
with tfjit.Graph().as_default() as graph:
    x = tfjit.placeholder(tfjit.float32, [None, 6], name="x")
    y = tfjit.tanh(x) * 0.5
    for n in range(int(sys.argv[1])):
        y = tfjit.cumsum(y * 0.5, name=f"c{n}")
    tfjit.matmul(y, tfjit.constant(np.eye(6, dtype="f4")), name="out")
with tfjit.Session(graph=graph) as session:
    feed = {"x:0": np.linspace(-1, 1, 24, dtype="f4").reshape(4, 6)}
    first = session.run("out:0", feed)
    (plan,) = session._runtime_session.plan_cache.plans()
    (variant,) = plan.variants.values()
    found = {"compiled": variant.inline is not None, "native": variant.step is not None and variant.step.native}
    variant.upgrade()
    assert variant.compile_done.wait(300) and variant.failure is None
    found |= {"later": variant.inline is not None, "requests": store.counters.misses, "damaged": store.counters.damaged}
    np.testing.assert_allclose(session.run("out:0", feed), first, 1e-5, 1e-6)
print(json.dumps(found | {"values": first.tolist()}))
"""


def run(library: Processes, cache: Path, length: int = 2, jit: str = "lazy") -> dict[str, Any]:
    """What a process of its own with that cache directory says of its first run. length: of a chain
    in its graph.
    """
    done = library.run(
        "-c",
        _PROCESS,
        str(length),
        env={"TFJIT_CACHE_DIR": str(cache), "TFJIT_JIT": jit},
        timeout=250,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def cold(
    library: Processes, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[str, Any]]:
    """A cache directory that was empty, and the answer of its first process."""
    folder = tmp_path_factory.mktemp("cache")
    return folder, run(library, folder)


def test_a_warm_cache_serves_the_first_run(
    library: Processes, cold: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    first = cold[1]
    cache = shutil.copytree(cold[0], tmp_path / "cache")
    assert (first["compiled"], first["native"], first["later"]) == (False, False, True)
    warm = run(library, cache)
    assert (warm["compiled"], warm["native"], warm["requests"]) == (True, True, 0)
    np.testing.assert_allclose(warm["values"], first["values"], 1e-5, 1e-6)
    off = run(library, cache, jit="off")
    assert not off["native"]

    (record,) = (cache / "kernels").glob("*.plan")
    kernels = [
        cache / "kernels" / f"{name}.o" for name in json.loads(record.read_text())["kernels"]
    ]
    assert all(path.is_file() for path in kernels)
    whole = kernels[0].read_bytes()
    kernels[0].write_bytes(whole[: len(whole) // 2])
    damaged = run(library, cache)
    assert (damaged["compiled"], damaged["later"]) == (False, True)
    assert damaged["damaged"] >= 1
    np.testing.assert_allclose(damaged["values"], first["values"], 1e-5, 1e-6)
    assert run(library, cache)["compiled"]  # it was compiled again

    kernels[0].unlink()
    missing = run(library, cache)
    assert (missing["compiled"], missing["native"], missing["later"]) == (False, False, True)
    record.write_text("{")
    assert not run(library, cache)["compiled"]
    assert run(library, cache)["compiled"]


def test_a_large_graph_waits_only_where_that_pays_soon() -> None:
    assert first_run.record_pays(PlanRecord((), compiled_ms=100.0, slow_ms=20.0))
    assert not first_run.record_pays(PlanRecord((), compiled_ms=1000.0, slow_ms=10.0))


def test_a_large_graph_starts_compiled_when_its_record_says_so(
    library: Processes, cold: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    """Its kernels are those of a short chain: the disk has them, and no record of this graph."""
    cache = shutil.copytree(cold[0], tmp_path / "cache")
    (short,) = (cache / "kernels").glob("*.plan")
    short.unlink()
    assert not run(library, cache, QUICK_NODES // 2)["compiled"]
    (path,) = (cache / "kernels").glob("*.plan")
    said = json.loads(path.read_text())
    for slow_ms, compiled in ((0.0, False), (1e9, True)):
        path.write_text(json.dumps(said | {"slow_ms": slow_ms}))
        assert run(library, cache, QUICK_NODES // 2)["compiled"] is compiled


def test_fingerprints_tell_signatures_apart() -> None:
    seen = set()
    for size, op in ((3, tfjit.tanh), (4, tfjit.tanh), (3, tfjit.sigmoid)):
        with tfjit.Graph().as_default() as graph:
            x = tfjit.placeholder(tfjit.float32, [size], name="x")
            op(op(x, name="y"), name="z")
        with tfjit.Session(graph=graph) as session:
            for fetch in ("y:0", "z:0"):
                session.run(fetch, {"x:0": np.zeros(size, "f4")})
            for plan in session._runtime_session.plan_cache.plans():
                (shapes,) = plan.variants
                seen.add(session._runtime_session.survey(plan.spec(shapes))[1])
    assert len(seen) == 6
    assert "" not in seen
    assert plan_warm_start.read(seen.pop()[::-1]) is None


def test_a_pack_brings_plans_and_their_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_warm_start, "_packed", {})
    monkeypatch.setattr(plan_warm_start, "_recorded", None)
    plan_warm_start.record()
    plan_warm_start.read("a plan")
    plan_warm_start.write_splits("another", [{"b", "a"}, ["c"]])
    plan_warm_start.read("another")
    found = plan_warm_start.recorded()
    assert found == {"a plan": (), "another": (("a", "b"), ("c",))}
    plan_warm_start.add_packed(found)
    record = plan_warm_start.read("a plan")
    assert record is not None and first_run.record_pays(record)
    assert plan_warm_start.read_splits("another") == [["a", "b"], ["c"]]
    assert plan_warm_start.read_splits("a plan") == []
