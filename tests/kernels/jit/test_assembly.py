"""LLVM assembly: compiled once, then loaded from the disk, under known names, from archives."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from tfjit.kernels.jit import loader, target
from tfjit.kernels.jit.archive import write_archive
from tfjit.kernels.jit.assembly import AssemblyLoader
from tfjit.kernels.jit.cache_key import precompiled_text_key
from tfjit.kernels.jit.precompiled import Archives, Precompiled
from tfjit.kernels.jit.store import KernelStore


def adds(count: int, name: str) -> str:
    return f"define i64 @{name}(i64 %x) {{\n  %y = add i64 %x, {count}\n  ret i64 %y\n}}\n"


def call(address: int, value: int) -> int:
    return int(ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address)(value))


def loader_at(folder: Path) -> AssemblyLoader:
    archives = folder / "archives"
    return AssemblyLoader(lambda: folder, Archives(), Precompiled(archives, lambda: None))


def test_it_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text, functions = adds(7, "tfjit_test_once"), ("tfjit_test_once",)
    first = loader_at(tmp_path)
    assert call(first.load(text, functions)[functions[0]], 35) == 42
    (key,) = first.keys
    assert [path.name for path in tmp_path.glob("*.o")] == [f"{key}.o"]
    monkeypatch.delattr(loader, "compile_ir")
    again = loader_at(tmp_path)
    assert call(again.load(text, functions)[functions[0]], 35) == 42
    assert again.names == first.names and again.keys == {key}


def test_an_expected_name_is_not_computed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text, functions = adds(8, "tfjit_test_expected"), ("tfjit_test_expected",)
    first = loader_at(tmp_path)
    first.load(text, functions)
    monkeypatch.setattr("tfjit.kernels.jit.assembly.text_key", None)  # importing llvmlite
    later = loader_at(tmp_path)
    later.expect(first.names)
    assert call(later.load(text, functions)[functions[0]], 34) == 42
    assert later.names == first.names


def test_a_damaged_object_is_compiled_again(tmp_path: Path) -> None:
    text, functions = adds(9, "tfjit_test_damaged"), ("tfjit_test_damaged",)
    loader_at(tmp_path).load(text, functions)
    (path,) = tmp_path.glob("*.o")
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    assert call(loader_at(tmp_path).load(text, functions)[functions[0]], 33) == 42
    assert path.read_bytes() == whole


def test_it_comes_from_the_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    levels = target.levels_here()
    if not levels:
        pytest.skip("no archive is for this CPU")
    text, functions = adds(5, "tfjit_test_archived"), ("tfjit_test_archived",)
    made = loader.compile_ir(text, functions)
    key = precompiled_text_key(text, functions, levels[0])
    write_archive(tmp_path / f"{levels[0]}.tfk", {key: made})
    monkeypatch.delattr(loader, "compile_ir")
    store = KernelStore(tmp_path / "cache", tmp_path)
    assert call(store.assembly.load(text, functions)[functions[0]], 37) == 42
    assert store.assembly.keys == {key} and store.has_name(key)


def test_texts_are_recorded(tmp_path: Path) -> None:
    text, functions = adds(6, "tfjit_test_recorded"), ["tfjit_test_recorded"]
    assembly = loader_at(tmp_path)
    assert assembly.recorded() == []
    assembly.record()
    assembly.load(text, functions)
    assert assembly.recorded() == [(text, tuple(functions))]
