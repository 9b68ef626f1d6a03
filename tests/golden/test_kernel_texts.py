"""One kernel a template against its text in tests/golden."""

from __future__ import annotations

from pathlib import Path

import pytest

import tfjit.kernels.cpu  # noqa: F401  (registers every kernel)
from tests.golden.templates import loop, loop_program, reduction, rows, tiled_loop, transpose

GOLDEN = Path(__file__).resolve().parent


@pytest.mark.parametrize(
    "make", [loop, loop_program, tiled_loop, reduction, rows, transpose], ids=lambda f: f.__name__
)
def test_text_of_a_template(make, update_golden: bool) -> None:  # type: ignore[no-untyped-def]
    (source,) = make().sources()
    path = GOLDEN / f"{make.__name__}.txt"
    if update_golden:
        path.write_text(source.text, encoding="utf-8")
    assert source.text == path.read_text(encoding="utf-8"), "pytest --update-golden writes it again"
