"""A pack of a SavedModel runs in a process without Numba, compiled from the first step."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfjit
from tfjit.client.packing import packer
from tfjit.client.packing.packer import Packed, _content, _in_fresh_process, pack_model
from tfjit.client.packing.recorder import RunFailed, RunRequest, record
from tfjit.client.session.model_file import read_model
from tfjit.client.session.pack_file import PackFile, write_pack
from tfjit.kernels.jit import target

pytestmark = pytest.mark.host  # packs hold kernels of CPUs
X = np.linspace(-2.0, 2.0, 24).astype(np.float32)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SavedModel with a variable of each kind, a table from an asset, and three outputs."""
    folder = tmp_path_factory.mktemp("model")
    vocabulary = folder / "words.txt"
    vocabulary.write_text("a\nb\nc\n")
    with tfjit.Graph().as_default(), tfjit.Session() as session:
        x = tfjit.placeholder(tfjit.float32, [None], name="x")
        words = tfjit.placeholder(tfjit.string, [None], name="words")
        scale = tfjit.get_variable("scale", [], initializer=tfjit.constant_initializer(3.0))
        shift = tfjit.get_variable(
            "shift", [], initializer=tfjit.constant_initializer(0.5), use_resource=True
        )
        tfjit.tanh(x * scale + shift, name="y")
        z = tfjit.unique(x)[0]
        for _ in range(3):
            z = tfjit.tanh(z * scale + shift)
        tfjit.negative(z, name="z")
        asset = tfjit.constant(str(vocabulary), name="asset")
        index = tfjit.lookup.TextFileIndex
        table = tfjit.lookup.StaticHashTable(
            tfjit.lookup.TextFileInitializer(
                asset, tfjit.string, index.WHOLE_LINE, tfjit.int64, index.LINE_NUMBER
            ),
            -1,
        )
        ids = tfjit.identity(table.lookup(words), name="ids")
        session.run([tfjit.global_variables_initializer(), tfjit.tables_initializer()])
        builder = tfjit.saved_model.Builder(str(folder / "model"))
        signature = tfjit.saved_model.predict_signature_def({"w": words}, {"ids": ids})
        builder.add_meta_graph_and_variables(
            session,
            ["serve"],
            signature_def_map={"serving_default": signature},
            assets_collection=[asset],
            main_op=tfjit.tables_initializer(),
        )
        builder.save()
    vocabulary.unlink()
    return folder / "model"


@pytest.fixture(scope="module")
def packed(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Packed:
    """The pack of two runs: one is a step, the other one of stages."""
    if not target.levels_here():
        pytest.skip("packs are for x86-64")
    requests = [RunRequest({"x:0": X.shape}, ("y:0",)), RunRequest({"x:0": X}, ("z:0",))]
    out = tmp_path_factory.mktemp("pack") / "model.tfjit"
    levels = target.levels_here()[:1]
    return pack_model(read_model(model), requests, out, levels, processes=1)


@pytest.mark.parametrize(("attempts", "kernels"), [(1, 1), (3, 2)])
def test_groups_that_do_not_compile_are_divided(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attempts: int, kernels: int
) -> None:
    """The pack holds other kernels or those of the parts, and a plan that runs them."""
    if not target.levels_here():
        pytest.skip("packs are for x86-64")
    build, lacked = packer.build_archive, []

    def without_groups(folder: Path, level: str, n: int, sources: Any, *more: Any, **k: Any) -> Any:
        bad = [source for source in sources if "mul+" in source.title and source.attempt < attempts]
        lacked.extend(bad)
        return build(folder, level, n, [s for s in sources if s not in bad], *more, **k)

    monkeypatch.setattr(packer, "build_archive", without_groups)
    out = tmp_path / "model.tfjit"
    requests = [RunRequest({"x:0": X.shape}, ("y:0",))]
    made = pack_model(read_model(model), requests, out, target.levels_here()[:1], processes=1)
    assert lacked and made.checked is not None
    assert made.checked.loaded >= kernels and made.checked.missing == 0


@pytest.fixture
def plain(model: Path, tmp_path: Path) -> Path:
    """A pack of the model without kernels."""
    manifest, entries = _content(read_model(model))
    write_pack(tmp_path / "plain.tfjit", manifest, entries)
    return tmp_path / "plain.tfjit"


_ELSEWHERE = """
import json, sys
import numpy as np
import tfjit
from tfjit.kernels.jit.store import store
from tfjit.runtime.session.open_sessions import open_sessions

x = np.linspace(-2.0, 2.0, 24).astype(np.float32)
with tfjit.Session(graph=sys.argv[1]) as session:
    y = session.run("y:0", {"x:0": x})
    (compiled,) = [
        v.inline is not None for v in open_sessions()[0].variants() if "y:0" in v.plan.fetches
    ]
    ids = session.run("ids:0", {"words:0": ["c", "zz"]})
    for _ in range(4):
        z = session.run("z:0", {"x:0": x})
        session.wait_until_compiled(300)
    staged = [
        v.inline is not None for v in open_sessions()[0].variants() if "z:0" in v.plan.fetches
    ]
    counts = store.snapshot()
    variants = open_sessions()[0].variants()
imported = [name for name in ("numba", "llvmlite") if name in sys.modules]
values = [y.tolist(), ids.tolist(), z.tolist()]
(stored,) = [v.is_restored for v in variants if "y:0" in v.plan.fetches]
print(json.dumps([compiled, stored, staged, *values, counts.hits, counts.misses, imported]))
"""


def test_a_process_without_numba_runs_it(packed: Packed, root: Path, tmp_path: Path) -> None:
    """Importing Numba or llvmlite raises there, and no cache directory can be made."""
    for name in ("numba", "llvmlite"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"raise ImportError('{name} is hidden')\n")
    variables = {
        "PYTHONPATH": str(tmp_path),
        "TFJIT_CACHE_DIR": "/dev/null/cache",
        "TFJIT_STORED_PLANS": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", _ELSEWHERE, str(packed.path)],
        env={**os.environ, **variables},
        cwd=root,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and not done.stderr, done.stderr
    compiled, stored, staged, y, ids, z, hits, misses, imported = json.loads(done.stdout)
    assert compiled and stored and any(staged) and not imported
    np.testing.assert_allclose(y, np.tanh(X * 3 + 0.5), rtol=1e-6, atol=1e-7)
    expected = X
    for _ in range(3):
        expected = np.tanh(expected * 3 + 0.5)
    np.testing.assert_allclose(z, -expected, rtol=1e-5, atol=1e-6)
    assert ids == [2, -1]
    assert hits >= 2 and misses == 0


def test_the_pack_was_checked(packed: Packed) -> None:
    assert packed.checked is not None and packed.checked.missing == 0 < packed.checked.loaded
    assert packed.size_bytes == packed.path.stat().st_size
    manifest = PackFile(packed.path).manifest
    assert manifest == packed.manifest
    step, by_node = manifest.runs
    assert (step.feeds, step.fetches, step.dynamic_reason) == ({"x:0": (24,)}, ("y:0",), "")
    assert by_node.fetches == ("z:0",) and by_node.dynamic_reason
    (level,) = manifest.levels.values()
    assert len(level.plans) >= 3 and not level.refused


def test_variables_live_in_the_session(packed: Packed) -> None:
    for _ in range(2):  # the second session begins with the packed values
        with tfjit.Session(graph=packed.path) as session:
            assert session.run(["scale:0", "shift/Read/ReadVariableOp:0"]) == [3.0, 0.5]
            session.run("scale/Assign", {"scale/Initializer/Const:0": np.float32(5.0)})
            assert session.run("scale:0") == 5.0


def test_another_level_has_texts_of_its_own(plain: Path) -> None:
    """No code of that level runs while they are found."""
    requests = [RunRequest({"x:0": (24,)}, ("y:0",))]
    found = _in_fresh_process(record, plain, target.LEVELS[-1], requests)
    assert [feeds for feeds, _ in found.runs] == [{"x:0": (24,)}]
    assert found.sources and len(found.plans) == 1
    assert [functions for _, functions in found.texts] == [("tfjit_crc32c",)]


def test_a_run_that_does_not_work_is_named(plain: Path) -> None:
    with pytest.raises(
        RunFailed, match=r"^y:0 for x:0=\[2, 3\]: ValueError: .*x:0.* --feed NAME=SIZES"
    ):
        _in_fresh_process(record, plain, target.LEVELS[0], [RunRequest({"x:0": (2, 3)}, ("y:0",))])


def test_a_pack_without_kernels_is_a_model(plain: Path, caplog: pytest.LogCaptureFixture) -> None:
    with tfjit.Session(graph=str(plain)) as session:
        assert session.run("ids:0", {"words:0": ["b"]}) == [1]
    assert not caplog.records
