"""The examples of README.md run as they stand there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.forked_processes import Processes

ROOT = Path(__file__).parent.parent
EXAMPLES = re.findall(
    r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL
)
PRINTED = (
    ["[[0.013839", "0.0563865"],
    ["[1.", "2.523188", "2.928055"],
    ["dense/BiasAdd:0", "conv/kernel:0", "batch_normalization/gamma:0", "dense/bias:0"],
    ["1.4166667", "array([4, 5, 1, 2])"],
    ["1.880797", "array([[1, 2, 1, 2]]"],
    ["[1., 2., 3.]", "0.16666667", "-0.00925926"],
    [
        "[1.",
        "1.76159",
        "is a product",
        "3 elementwise nodes in one loop",
        "a run of the step",
    ],
    ["True", "plans that wait for their fastest form: 0"],
    ["lowered feeds=1", "all kernels", "MemoryAnalysis(argument_bytes=4800", "0.05"],
)


def test_each_example_is_looked_at() -> None:
    assert len(EXAMPLES) == len(PRINTED)


@pytest.mark.parametrize("index", range(len(PRINTED)))
def test_example(index: int, tmp_path: Path, library: Processes) -> None:
    script = tmp_path / "example.py"
    script.write_text(EXAMPLES[index])
    run = library.run(script, cwd=ROOT)
    assert run.returncode == 0, run.stderr
    for text in PRINTED[index]:
        assert text in run.stdout, run.stdout
