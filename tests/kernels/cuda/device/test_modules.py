"""CUDA kernels in the store: names, the compiler process, loading from disk."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernels.cuda.fake_driver import FakeDriver, install
from tests.kernels.cuda.texts import need_numba_cuda, scale_by
from tests.kernels.jit.processes import run_python
from tfjit.kernels.cuda.device import architecture, driver, modules
from tfjit.kernels.jit import targets
from tfjit.kernels.jit.cache_key import cache_key
from tfjit.kernels.jit.loader import LoadError, NoCompiler
from tfjit.kernels.jit.object_file import ObjectFile
from tfjit.kernels.jit.store import CompileError, KernelStore


def forget() -> None:
    architecture.architecture.cache_clear()
    driver.properties.cache_clear()
    modules.compiler_versions.cache_clear()
    modules.CudaTarget.environment.cache_clear()


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    monkeypatch.delenv("TFJIT_CUDA_ARCH", raising=False)
    forget()
    yield install(monkeypatch, FakeDriver())
    forget()


def test_the_target_is_registered() -> None:
    assert isinstance(targets.find_target("cuda"), modules.CudaTarget)


def test_cold_then_warm(fake: FakeDriver, tmp_path: Path) -> None:
    need_numba_cuda()
    source = scale_by(3)
    cold = KernelStore(tmp_path)
    cold.compile([source])
    handles = cold.lookup(source)
    assert handles is not None and set(handles) == {"kernel"}
    key = cache_key(source)
    obj = ObjectFile.decode((tmp_path / "kernels" / f"{key}.o").read_bytes())
    assert obj.needs == ("sm_90",) and obj.code[:4] == b"\x7fELF"
    assert tuple(call[0] for call in fake.calls[-1:]) == ("cuLibraryGetKernel",)
    cold.close()
    warm = KernelStore(tmp_path)
    assert warm.load([source])
    assert (warm.counters.hits, warm.counters.compiled) == (1, 0)


@pytest.mark.refuses_kernel
def test_a_refusal_names_the_line(fake: FakeDriver, tmp_path: Path) -> None:
    need_numba_cuda()
    good = scale_by(3)
    bad = type(good)(
        good.text.replace("= source[i]", "= undefined"), arity=3, target="cuda", title="wrong"
    )
    store = KernelStore(tmp_path)
    with pytest.raises(CompileError, match=r"line \d+: shared\[cuda.threadIdx.x\] = undefined"):
        store.compile([bad])
    store.close()


def test_keys_follow_architecture_and_versions(
    fake: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_numba_cuda()
    source = scale_by(3)
    first = cache_key(source)
    versions = modules.compiler_versions()
    assert {name.split("-")[0] for name in versions} >= {"numba", "numba_cuda"}
    fake.attributes[75] = 8
    forget()
    second = cache_key(source)
    with monkeypatch.context() as patched:
        patched.setattr(modules, "compiler_versions", lambda: (*versions[:-1], "other-1"))
        modules.CudaTarget.environment.cache_clear()
        assert len({first, second, cache_key(source)}) == 3


@pytest.mark.refuses_kernel
def test_without_numba_cuda(
    fake: FakeDriver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "numba_cuda" else found(name)
    )
    with pytest.raises(NoCompiler, match=r"numba_cuda is missing\): install tfjit\[gpu\]"):
        modules.compiler_versions()
    store = KernelStore(tmp_path)
    with pytest.raises(CompileError, match=r"install tfjit\[gpu\]"):
        store.compile([scale_by(4)])
    store.close()


def test_a_cubin_of_another_gpu_does_not_load(fake: FakeDriver) -> None:
    with pytest.raises(LoadError, match="it is for sm_80, and this GPU is sm_90"):
        modules.CudaTarget().load(ObjectFile({"kernel": "k"}, ("sm_80",), b""))
    fake.failing["cuLibraryLoadData"] = 209
    with pytest.raises(LoadError, match="CUDA_ERROR_NO_BINARY_FOR_GPU"):
        modules.CudaTarget().load(ObjectFile({"kernel": "k"}, ("sm_90",), b""))


def test_a_cached_kernel_imports_no_compiler(fake: FakeDriver, tmp_path: Path) -> None:
    need_numba_cuda()
    KernelStore(tmp_path).compile([scale_by(5)])
    done = run_python(
        """
        import sys
        import pytest
        from tests.kernels.cuda.fake_driver import FakeDriver, install
        from tests.kernels.cuda.texts import scale_by
        from tfjit.kernels.jit.store import store

        install(pytest.MonkeyPatch(), FakeDriver())
        assert store.load([scale_by(5)])
        print(sorted({"numba", "numba_cuda", "llvmlite", "cuda", "nvidia"} & set(sys.modules)))
        """,
        tmp_path,
        PYTHONPATH=str(Path(__file__).parents[3]),
    )
    assert done.stdout.strip() == "[]", done.stderr
