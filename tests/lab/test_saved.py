"""Saved benches: files, and changes that are called or not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tfjit.lab.bench_cases import Bench
from tfjit.lab.measure.machine import this_machine
from tfjit.lab.saved import bench_folder, change_of, changes_since, load_bench, save_bench

MACHINE = this_machine()


def measured(scale: float = 1.0, case: str = "all", seed: int = 0) -> Bench:
    times = scale * 100 * np.exp(np.random.default_rng(seed).normal(0, 0.01, (4, 20)))
    return Bench(
        *("m.pb", "digest", ("y:0",), 20, 4),
        machine=MACHINE,
        yardstick_us={case: 50.0},
        round_us={case: {"default": times.tolist()}},
    )


def test_a_bench_is_saved_and_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save_bench(measured(), "before", tmp_path / "new")
    assert path == tmp_path / "new" / "before.json" and [path] == list(path.parent.iterdir())
    assert load_bench("before", tmp_path / "new")["round_us"] == measured().round_us
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert bench_folder() == tmp_path / "tfjit" / "bench"


def test_names_and_files_that_cannot_be(tmp_path: Path) -> None:
    for name in ("", "../x", "a/b", ".hidden"):
        with pytest.raises(ValueError, match="is named by letters"):
            save_bench(measured(), name, tmp_path)
    save_bench(measured(), "here", tmp_path)
    with pytest.raises(ValueError, match=r"no saved bench 'there' in .*: it has here"):
        load_bench("there", tmp_path)
    for text in ("{", "[]", "{}", '{"version": 99}'):
        (tmp_path / "bad.json").write_text(text)
        with pytest.raises(ValueError, match="is no saved bench"):
            load_bench("bad", tmp_path)


def test_equal_code_has_no_difference_in_twenty_of_twenty(tmp_path: Path) -> None:
    save_bench(measured(), "one", tmp_path)
    saved = load_bench("one", tmp_path)
    for seed in range(1, 21):
        (row,) = changes_since(measured(seed=seed), saved, "one").rows
        assert row.verdict == "no difference" and row.noise >= 0.03


@pytest.mark.parametrize(("scale", "verdict"), [(1.15, "slower"), (0.85, "faster")])
def test_a_change_is_called(tmp_path: Path, scale: float, verdict: str) -> None:
    save_bench(measured(), "one", tmp_path)
    changes = changes_since(measured(scale, seed=1), load_bench("one", tmp_path), "one")
    assert changes.rows[0].verdict == verdict and verdict in str(changes)
    assert changes.rows[0].ratio == pytest.approx(scale, rel=0.02)
    assert "<table>" in changes._repr_html_() and changes.as_json()["rows"]


def test_a_slower_machine_is_no_change_of_the_code() -> None:
    then, now = measured().round_us["all"]["default"], measured(1.2).round_us["all"]["default"]
    assert change_of("all", "default", now, then, 1.2).verdict == "no difference"
    assert change_of("all", "default", now, then, 1.0).verdict == "slower"


def test_other_machines_models_and_cases(tmp_path: Path) -> None:
    save_bench(measured(), "one", tmp_path)
    saved = load_bench("one", tmp_path)
    elsewhere = replace(measured(), machine=replace(MACHINE, cpu="another"))
    with pytest.raises(ValueError, match="measured on another machine"):
        changes_since(elsewhere, saved, "one")
    with pytest.raises(ValueError, match="nothing to compare"):
        changes_since(measured(case="x.0=4"), saved, "one")
    versions = {**MACHINE.versions, "numpy": "0.1"}
    other = replace(measured(), digest="new", machine=replace(MACHINE, versions=versions))
    notes = "\n".join(changes_since(other, saved, "one").notes)
    assert "the graph is not that of 'one'" in notes and "numpy is 0.1, and was" in notes
