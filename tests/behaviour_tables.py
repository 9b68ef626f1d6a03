"""Tables of behaviours and the tests that hold them, in READMEs beside tests."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).resolve().parent


class Row(NamedTuple):
    """A row of a table; tests: "path::function", from the folder of all tests."""

    section: str
    behaviour: str
    tests: list[str]


@functools.cache
def functions(path: Path) -> frozenset[str]:
    """Return the names of the test functions of a file."""
    tree = ast.parse(path.read_text())
    return frozenset(
        n.name
        for n in ast.walk(tree)
        if isinstance(n, ast.FunctionDef) and n.name.startswith("test_")
    )


def rows(readme: Path) -> list[Row]:
    """Return the rows of all tables of a file; a section is the first word of its heading."""
    found: list[Row] = []
    section = ""
    for line in readme.read_text().splitlines():
        if line.startswith("## "):
            section = line.split()[1]
        elif line.startswith("| ") and not line.startswith("| behaviour"):
            _, behaviour, tests, *_ = re.split(r"(?<!\\)\|", line)
            found.append(Row(section, behaviour.strip(), re.findall(r"`([^`]+)`", tests)))
    return found


def missing_tests(table: list[Row]) -> list[str]:
    """Return the named tests that do not exist, each with its behaviour."""
    missing = []
    for row in table:
        for test in row.tests:
            path, _, name = test.partition("::")
            file, name = TESTS / path, name.partition("[")[0]
            if not file.exists() or (name and name not in functions(file)) or not functions(file):
                missing.append(f"{row.behaviour}: {test}")
    return missing


def unnamed_tests(table: list[Row], folder: Path, but: frozenset[str] = frozenset()) -> list[str]:
    """Return the tests of a folder that no row names. but: files left out."""
    named = {test.partition("[")[0] for row in table for test in row.tests}
    here = {
        f"{file.relative_to(TESTS).as_posix()}::{name}"
        for file in folder.glob("test_*.py")
        if file.name not in but
        for name in functions(file)
    }
    return sorted(here - named)
