"""The TFJIT_* variables."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tfjit.framework import settings


def test_read_when_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TFJIT_JIT", raising=False)
    assert settings.text("TFJIT_JIT") == "lazy"
    monkeypatch.setenv("TFJIT_JIT", "eager")
    assert settings.text("TFJIT_JIT") == "eager"
    monkeypatch.setenv("TFJIT_JIT", "sometimes")
    with pytest.raises(ValueError, match="TFJIT_JIT='sometimes': expected one of off, lazy, eager"):
        settings.text("TFJIT_JIT")


READ = re.compile(r'(?:text|flag|integer|names|path|get|is_set)\("(TFJIT_[A-Z_]+)"')


def test_every_setting_is_read_and_every_one_that_is_read_is_listed(root: Path) -> None:
    """Nothing is promised that has no effect, in the list or in the documents."""
    listed = {setting.name for setting in settings.SETTINGS}
    folders = [root / name for name in ("tfjit", "kernels", "passes")]
    sources = [p for folder in folders for p in folder.rglob("*.py")]
    read = {name for p in sources for name in READ.findall(p.read_text("utf-8"))}
    assert read <= listed
    assert listed - read <= {"TFJIT_COMPARE"}  # its implementation comes with another change
    for document in ("README.md", "ARCHITECTURE.md"):
        named = re.findall(r"\bTFJIT_[A-Z]+(?:_[A-Z]+)*\b", (root / document).read_text("utf-8"))
        assert set(named) <= listed


def test_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFJIT_VERIFY", "1")
    monkeypatch.setenv("TFJIT_COMPARE", "off")
    monkeypatch.setenv("TFJIT_THREADS", "3")
    monkeypatch.setenv("TFJIT_DISABLE", "fuse, simplify,")
    monkeypatch.setenv("TFJIT_DUMP", "/tmp/somewhere")
    assert settings.flag("TFJIT_VERIFY") and not settings.flag("TFJIT_COMPARE")
    assert settings.integer("TFJIT_THREADS") == 3
    assert settings.names("TFJIT_DISABLE") == {"fuse", "simplify"}
    assert settings.path("TFJIT_DUMP") == Path("/tmp/somewhere")
    monkeypatch.delenv("TFJIT_DUMP")
    assert settings.path("TFJIT_DUMP") is None
    monkeypatch.setenv("TFJIT_THREADS", "many")
    with pytest.raises(ValueError, match="TFJIT_THREADS='many': expected a number"):
        settings.integer("TFJIT_THREADS")
    with pytest.raises(KeyError):
        settings.text("TFJIT_UNKNOWN")


def test_cache_dir(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFJIT_CACHE_DIR", "/a/b")
    assert settings.cache_dir() == Path("/a/b")
    monkeypatch.delenv("TFJIT_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "/c")
    assert settings.cache_dir() == Path("/c/tfjit")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert settings.cache_dir() == Path.home() / ".cache" / "tfjit"


def test_description_names_all() -> None:
    text = settings.describe()
    assert all(setting.name in text for setting in settings.SETTINGS)
