"""The table in README.md is whole, as that of tests/contract."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from tests.behaviour_tables import Row, missing_tests, rows, unnamed_tests
from tests.distributed.session.promises import CLASSES, DIFFERENCES, PROMISES, WORDS

HERE: Final = Path(__file__).resolve().parent
_PROMISE: Final = "distributed/session/test_grpc_session_promises.py::test_promises["
TABLE: Final = [
    Row(section, behaviour, [re.sub(r"^P\[", _PROMISE, test) for test in tests])
    for section, behaviour, tests in rows(HERE / "README.md")
]


def test_every_row_has_tests_that_exist() -> None:
    assert not [row.behaviour for row in TABLE if not row.tests]
    missing = missing_tests(TABLE)
    assert not missing, "\n".join(missing)


def test_every_promise_has_one_row() -> None:
    named = [test for row in TABLE for test in row.tests if test.startswith(_PROMISE)]
    assert sorted(named) == sorted(f"{_PROMISE}{name}]" for name in PROMISES)


def test_every_test_of_this_folder_is_named() -> None:
    unnamed = unnamed_tests(TABLE, HERE, frozenset({"test_session_table.py"}))
    assert not unnamed, unnamed


def test_rows_tell_the_exceptions() -> None:
    """The last column of a promise's row is empty where its answers are the same, words included."""
    other = {name for name, _ in DIFFERENCES}
    words = {*WORDS, *CLASSES}
    for line in (HERE / "README.md").read_text().splitlines():
        for name in re.findall(r"`P\[(\w+)\]`", line) if line.startswith("| ") else ():
            differs = line.split("|")[-2].strip()
            assert bool(differs) == (name in other | words), name
            assert differs.startswith("words") == (name in words), name
    assert other | words <= set(PROMISES)
