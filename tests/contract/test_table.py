"""The table in README.md is whole: its tests exist, no row is without one, and every test of this
folder is in it.
"""

from __future__ import annotations

from pathlib import Path

from tests.behaviour_tables import missing_tests, rows, unnamed_tests

HERE = Path(__file__).resolve().parent
TABLE = rows(HERE / "README.md")
SECTIONS = [f"2.{i}" for i in range(1, 14)] + ["6", "GPU:0"]


def test_every_section_has_rows_and_every_row_a_test() -> None:
    assert list(dict.fromkeys(row.section for row in TABLE)) == SECTIONS
    assert not [row.behaviour for row in TABLE if not row.tests]
    points = {int(row.behaviour.split()[0]) for row in TABLE if row.section == "6"}
    assert points == set(range(1, 34))


def test_every_named_test_exists() -> None:
    missing = missing_tests(TABLE)
    assert not missing, "\n".join(missing)


def test_every_test_of_this_folder_is_named() -> None:
    unnamed = unnamed_tests(TABLE, HERE, frozenset({"test_table.py"}))
    assert not unnamed, unnamed
