"""The examples of docs/ run as they stand there, and print what is written below them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ports import free_ports

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8")
EXPERIMENTS = (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8")
PORTS = ("22322", "22323")
EXAMPLES = re.findall(r"^```python\n(.*?)^```\n\nIt prints(.*?)\n\n(?=\S)", TEXT, re.M | re.S)


def printed(text: str) -> list[str]:
    """Return the lines that a text says an example prints."""
    once = re.match(r" `(.*)` twice\.$", text)
    return [once[1]] * 2 if once else [line.strip() for line in text.strip().splitlines()]


def test_each_example_is_looked_at() -> None:
    assert len(EXAMPLES) == TEXT.count("```python") == 4


@pytest.mark.parametrize("index", range(4))
def test_example(index: int, tmp_path: Path) -> None:
    example, said = EXAMPLES[index]
    ports = dict(zip(PORTS, map(str, free_ports(len(PORTS)))))
    for old, new in ports.items():
        example, said = example.replace(old, new), said.replace(old, new)
    script = tmp_path / "example.py"
    script.write_text(example)
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=120, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == printed(said)


def test_the_guide_to_experiments(tmp_path: Path) -> None:
    """Its examples follow one another, and each prints what is written below it."""
    found = re.findall(
        r"^```python\n(.*?)^```\n\nIt prints(?: `([^\n]*)`\.\n|\n\n((?:    [^\n]*\n)+))",
        EXPERIMENTS,
        re.M | re.S,
    )
    assert len(found) == EXPERIMENTS.count("```python") > 3
    script = tmp_path / "experiments.py"
    script.write_text('print("----")\n'.join(example for example, *_ in found))
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=300, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    expected = [
        [line.strip() for line in (one or several).splitlines()] for _, one, several in found
    ]
    printed_parts = [part.splitlines() for part in done.stdout.split("----\n")]
    assert printed_parts == expected
