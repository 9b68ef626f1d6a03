"""Kernels of another device in the store: keys, requests, loading and interpretation."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernels.jit.processes import run_python
from tests.kernels.jit.scaling import check, scale_by
from tfjit.framework import errors
from tfjit.kernels.jit import cache_key as cache_key_module
from tfjit.kernels.jit import loader, targets
from tfjit.kernels.jit.cache_key import cache_key
from tfjit.kernels.jit.object_file import ObjectFile
from tfjit.kernels.jit.store import CompileError, KernelStore
from tfjit.kernels.source import KernelSource


class HostTwin(targets.Target):
    """A target whose kernels are those of the host, so that they run everywhere."""

    compiler = "tests.kernels.jit.twin_compiler"

    def __init__(self) -> None:
        self.loaded: list[ObjectFile] = []
        self.version = "1"
        self.missing = ""

    def architecture(self) -> str:
        return "twin-7"

    def environment(self) -> str:
        if self.missing:
            raise loader.NoCompiler(self.missing)
        return self.version

    def load(self, obj: ObjectFile) -> dict[str, int]:
        self.loaded.append(obj)
        return loader.load(obj)


def for_twin(factor: int) -> KernelSource:
    return scale_by(factor, target="twin")


@pytest.fixture
def twin(monkeypatch: pytest.MonkeyPatch) -> Iterator[HostTwin]:
    made = HostTwin()
    found = targets.find_target

    def find(name: str) -> targets.Target:
        return made if name == "twin" else found(name)

    for module in ("store", "stored_code", "compilations", "cache_key"):
        monkeypatch.setattr(f"tfjit.kernels.jit.{module}.find_target", find)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    yield made


def test_an_unknown_target() -> None:
    with pytest.raises(errors.NotFoundError, match="'abacus'"):
        targets.find_target("abacus")


def test_cold_then_warm(twin: HostTwin, tmp_path: Path) -> None:
    """The target's own compiler gets the architecture, and the store keeps what it makes."""
    source = for_twin(3)
    cold = KernelStore(tmp_path)
    cold.compile([source])
    check(cold, source, 3)
    assert twin.loaded[0].needs == ()
    assert (cold.counters.hits, cold.counters.compiled) == (0, 1)
    key = cache_key(source)
    assert {path.name for path in (tmp_path / "kernels").iterdir()} == {f"{key}.py", f"{key}.o"}
    cold.close()
    warm = KernelStore(tmp_path)
    assert warm.load([source])
    assert (warm.counters.hits, warm.counters.compiled) == (1, 0)
    assert warm.name_of(source) == key and warm.has_name(key)
    check(warm, source, 3)


def test_keys_follow_the_target(twin: HostTwin) -> None:
    host, other = scale_by(3), for_twin(3)
    of_host, of_twin = cache_key(host), cache_key(other)
    assert of_host != of_twin
    twin.version = "2"
    assert cache_key(host) == of_host
    assert cache_key(other) != of_twin


def test_keys_of_the_host_know_no_device() -> None:
    """An edit below kernels/cuda compiles no host kernel again."""
    seen: set[str] = set()
    waiting = {"tfjit.kernels.jit.compiler", "tfjit.kernels.codegen.intrinsics"}
    while waiting:
        name = waiting.pop()
        seen.add(name)
        file = cache_key_module._module_file(name)
        assert file is not None
        package = name if file.name == "__init__.py" else name.rpartition(".")[0]
        waiting |= cache_key_module.imported(file.read_text("utf-8"), package) - seen
    assert "tfjit.kernels.jit.object_file" in seen
    assert not {name for name in seen if "cuda" in name or name.endswith(".targets")}


@pytest.mark.refuses_kernel
def test_a_missing_compiler_leaves_the_host_alone(twin: HostTwin, tmp_path: Path) -> None:
    twin.missing = "there is no compiler: install the twin"
    store = KernelStore(tmp_path)
    with pytest.raises(CompileError, match="install the twin"):
        store.compile([for_twin(5)])
    store.compile([scale_by(5)])
    check(store, scale_by(5), 5)
    store.close()


@pytest.mark.refuses_kernel
def test_the_compiler_refuses(twin: HostTwin, tmp_path: Path) -> None:
    source = KernelSource("refuse = True\n", target="twin", title="bad text")
    store = KernelStore(tmp_path)
    with pytest.raises(CompileError, match="'bad text'.*twin-7 has no such kernel"):
        store.compile([source])
    store.close()


@pytest.mark.refuses_kernel
def test_code_that_does_not_load(
    twin: HostTwin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(obj: ObjectFile) -> dict[str, int]:
        raise loader.LoadError("it is for twin-6")

    monkeypatch.setattr(twin, "load", load)
    store = KernelStore(tmp_path)
    with pytest.raises(CompileError, match="does not load: it is for twin-6"):
        store.compile([for_twin(6)])
    store.close()


def test_archives_and_records_are_the_hosts(twin: HostTwin, tmp_path: Path) -> None:
    store = KernelStore(tmp_path)
    store.record()
    store.load([for_twin(3), scale_by(3)])
    assert store.recorded()[0] == [scale_by(3)]
    assert store.are_final([for_twin(3)])
    assert store.stored.packs.key(for_twin(3)) == "" == store.stored.precompiled.key(for_twin(3))


def test_interpreted_kernels_need_neither_disk_nor_process(
    twin: HostTwin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    function = ctypes.CFUNCTYPE(None)(lambda: None)
    address = ctypes.cast(function, ctypes.c_void_p).value or 0
    monkeypatch.setattr(twin, "interprets", True)
    monkeypatch.setattr(twin, "interpret", lambda source: {"kernel": address}, raising=False)
    store = KernelStore(tmp_path)
    first, second, third = (for_twin(n) for n in (1, 2, 3))
    assert store.load_present([first])
    store.load_named([(second, "a name of another process")], {})
    store.compile([third])
    for source in (first, second, third):
        assert store.lookup(source) == {"kernel": address}
    assert store.busy_workers() == 0 and not store.compilations.queue.workers
    assert not list((tmp_path / "kernels").glob("*.o"))


def test_a_target_that_compiles_interprets_nothing() -> None:
    with pytest.raises(errors.InternalError, match="twin are compiled"):
        HostTwin().interpret(for_twin(1))


def test_no_target_is_imported_for_the_host(tmp_path: Path) -> None:
    done = run_python(
        """
        import sys
        from tests.kernels.jit.scaling import check, scale_by
        from tfjit.kernels.jit.store import store
        store.compile([scale_by(2)])
        check(store, scale_by(2), 2)
        print([name for name in sys.modules if "kernels.cuda" in name or "numba.cuda" in name])
        """,
        tmp_path,
        PYTHONPATH=str(Path(__file__).parents[3]),
    )
    assert done.stdout.strip() == "[]", done.stderr
