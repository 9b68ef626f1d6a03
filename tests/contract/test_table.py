"""The table in README.md is whole: its tests exist, no row is without one, and every test of this
folder is in it.
"""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
HERE = Path(__file__).resolve().parent
SECTIONS = [f"2.{i}" for i in range(1, 14)] + ["6"]


@functools.cache
def functions(path: Path) -> frozenset[str]:
    """Names of the test functions of a file."""
    tree = ast.parse(path.read_text())
    return frozenset(
        n.name
        for n in ast.walk(tree)
        if isinstance(n, ast.FunctionDef) and n.name.startswith("test_")
    )


def rows() -> list[tuple[str, str, list[str]]]:
    """(section, behaviour, tests) of every row."""
    found: list[tuple[str, str, list[str]]] = []
    section = ""
    for line in (HERE / "README.md").read_text().splitlines():
        if line.startswith("## "):
            section = line.split()[1]
        elif line.startswith("| ") and not line.startswith("| behaviour"):
            _, behaviour, tests, _ = re.split(r"(?<!\\)\|", line)
            found.append((section, behaviour.strip(), re.findall(r"`([^`]+)`", tests)))
    return found


def test_every_section_has_rows_and_every_row_a_test() -> None:
    table = rows()
    assert list(dict.fromkeys(section for section, _, _ in table)) == SECTIONS
    assert not [behaviour for _, behaviour, tests in table if not tests]
    points = {int(behaviour.split()[0]) for section, behaviour, _ in table if section == "6"}
    assert points == set(range(1, 34))


def test_every_named_test_exists() -> None:
    missing = []
    for _, behaviour, tests in rows():
        for test in tests:
            path, _, name = test.partition("::")
            file = TESTS / path
            if not file.exists() or (name and name not in functions(file)) or not functions(file):
                missing.append(f"{behaviour}: {test}")
    assert not missing, "\n".join(missing)


def test_every_test_of_this_folder_is_named() -> None:
    named = {test for _, _, tests in rows() for test in tests}
    here = {
        f"contract/{file.name}::{name}"
        for file in HERE.glob("test_*.py")
        if file.name != "test_table.py"
        for name in functions(file)
    }
    assert not here - named, sorted(here - named)
