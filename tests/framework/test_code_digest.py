"""The digests of the code change with the modules, and are those of the installed ones."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tfjit.framework import code_digest
from tfjit.framework.code_digest import content_digest


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that stands for the installed packages."""
    folder = tmp_path / "tfjit"
    (folder / "runtime").mkdir(parents=True)
    (folder / "client").mkdir()
    (folder / "runtime" / "a.py").write_text("x = 1\n")
    (folder / "client" / "b.py").write_text("y = 1\n")
    monkeypatch.setattr(code_digest, "_folders", lambda: [str(folder)])
    yield folder


def digests() -> tuple[str, str]:
    code_digest.code_digest.cache_clear()
    content_digest.cache_clear()
    try:
        return code_digest.code_digest(), content_digest()
    finally:
        code_digest.code_digest.cache_clear()
        content_digest.cache_clear()


def test_a_changed_module_changes_both(modules: Path) -> None:
    before = digests()
    (modules / "runtime" / "a.py").write_text("x = 22\n")
    after = digests()
    assert before[0] != after[0] and before[1] != after[1]


def test_a_new_time_changes_the_digest_of_this_machine_alone(modules: Path) -> None:
    before = digests()
    os.utime(modules / "runtime" / "a.py", ns=(1, 1))
    after = digests()
    assert before[0] != after[0] and before[1] == after[1]


def test_the_front_end_does_not_count(modules: Path) -> None:
    before = digests()
    (modules / "client" / "b.py").write_text("y = 3\n")
    assert digests() == before


def test_the_record_of_a_wheel_stands_for_its_modules(modules: Path) -> None:
    before = digests()
    info = modules.parent / f"tfjit-{code_digest.__version__}.dist-info"
    info.mkdir()
    line = "tfjit/runtime/a.py,sha256={},6\n"
    (info / "RECORD").write_text(line.format("abc") + "tfjit/py.typed,sha256=zz,0\n")
    first = digests()
    (info / "RECORD").write_text(line.format("abc") + "tfjit/py.typed,sha256=yy,0\n")
    assert digests() == first != before
    (info / "RECORD").write_text(line.format("abd"))
    assert digests()[1] != first[1]


def test_all_layers_of_this_tree_count() -> None:
    names = {
        entry.path for folder in code_digest._folders() for entry in code_digest._modules(folder)
    }
    for module in ("passes/pipeline.py", "kernels/cpu/backend.py", "runtime/lowering/lowering.py"):
        assert any(name.endswith(module) for name in names)
