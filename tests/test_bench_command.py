"""`tfjit bench` on the digits model and on scripts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfjit.cli import main

DIGITS = Path(__file__).resolve().parent.parent / "tfjit" / "demo" / "digits_cnn.pb"
QUICK = ["--fetch", "probs", "--rounds", "4", "--sessions", "2"]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFJIT_JIT", "off")
    monkeypatch.setattr("tfjit.lab.bench_cases.CANDIDATES", ("default", "default without fuse"))


def test_sweep_save_and_compare(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = [
        str(DIGITS),
        *QUICK,
        "--sweep",
        "images.0=1,3",
        "--threads",
        "1",
        "--dir",
        str(tmp_path),
    ]
    assert main(["bench", *common, "--save", "one"]) == 0
    captured = capsys.readouterr()
    assert "images.0=3" in captured.out and "one.json" in captured.err
    assert main(["bench", *common, "--compare", "one"]) == 0
    assert "since 'one'" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (
            [str(DIGITS), *QUICK, "--sweep", "images=1"],
            2,
            "--sweep: sweep 'images=1': expected NAM",
        ),
        ([str(DIGITS), *QUICK, "--sweep", "images.7=1"], 1, "the feed has 4 axes"),
        ([str(DIGITS), *QUICK, "--threads", "1,x"], 2, "--threads 1,x: expected positive numbers"),
        ([str(DIGITS), *QUICK, "--save", "a/b"], 2, "is named by letters"),
        ([str(DIGITS), *QUICK, "--compare", "nothing", "--dir", "/nowhere"], 2, "no saved bench"),
        ([str(DIGITS), "x", *QUICK], 2, "x: for a script only"),
        (["none.py"], 2, "there is no script none.py"),
        (["none.py", "--sweep", "x.0=1"], 2, "--sweep: for a model only"),
    ],
)
def test_command_lines_that_cannot_be(
    arguments: list[str], code: int, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", *arguments]) == code
    assert text in capsys.readouterr().err


def test_a_script_that_fails_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tfjit.lab.bench_processes import WAYS

    monkeypatch.setitem(WAYS, "default", ((), {}))
    monkeypatch.setitem(WAYS, "default without fuse", ((), {"FAIL": "1"}))
    script = tmp_path / "program.py"
    script.write_text(
        "import os, sys\nsys.exit('no ' + sys.argv[1] if 'FAIL' in os.environ else 0)\n"
    )
    assert main(["bench", str(script), "--", "argument"]) == 1
    out = capsys.readouterr().out
    assert "default without fuse ended with status 1, " in out and "no argument" in out
