"""Object code is read from folders that only their owner may write to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tfjit.kernels.jit.cache_directory import private_directory


def test_a_folder_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    assert private_directory(tmp_path / "cache", "kernels", make=False)[0] is None
    folder, reason = private_directory(tmp_path / "cache", "kernels")
    assert folder == tmp_path / "cache" / "kernels" and reason == ""
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o777)
    assert private_directory(tmp_path / "cache", "kernels", make=False)[0] == folder
    assert folder.stat().st_mode & 0o777 == 0o700


def test_another_user_s_folder_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    (tmp_path / "kernels").mkdir()
    if (tmp_path / "kernels").stat().st_uid == 0:
        assert private_directory(tmp_path, "kernels")[0] is not None  # root's: a shared cache
        (tmp_path / "kernels").chmod(0o777)
        assert "can be written by others" in private_directory(tmp_path, "kernels")[1]
    else:
        assert "belongs to another user" in private_directory(tmp_path, "kernels")[1]


def test_a_file_in_its_place_is_a_reason(tmp_path: Path) -> None:
    (tmp_path / "kernels").write_text("")
    folder, reason = private_directory(tmp_path, "kernels")
    assert folder is None and "kernels" in reason
