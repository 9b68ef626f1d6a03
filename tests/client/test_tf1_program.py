"""A whole TensorFlow 1 program, unmodified, prints the same under tfjit as under TensorFlow."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_an_unmodified_program(data_dir: Path, tmp_path: Path) -> None:
    program = str(data_dir / "tf1_program.py")
    runs = [
        subprocess.Popen([sys.executable, *how, program, str(tmp_path / who)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for who, how in (("tensorflow", []), ("tfjit", ["-m", "tfjit"]))
    ]
    printed = []
    for who, run in zip(("tensorflow", "tfjit"), runs, strict=True):
        out, err = run.communicate(timeout=120)
        assert run.returncode == 0, err
        assert f"sessions of {who}" in err
        printed.append(out)
    assert printed[1] == printed[0]
    assert len(printed[0].splitlines()) == 10
