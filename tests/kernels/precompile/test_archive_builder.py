"""Archives are made for levels above this CPU's, and a kernel that does not compile is named."""

from __future__ import annotations

import platform
import re
from concurrent.futures import Future
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.kernels.jit.scaling import scale_by
from tfjit.kernels.jit.archive import Archive
from tfjit.kernels.jit.cache_key import precompiled_key, precompiled_text_key
from tfjit.kernels.precompile import archive_builder
from tfjit.kernels.precompile.archive_builder import Failed, _compile, build_archive
from tfjit.kernels.precompile.generic_kernels import machine_texts
from tfjit.kernels.source import KernelSource

LEVEL = "x86-64-v4"
pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="levels are x86-64's")


def test_an_archive_of_two_kernels(tmp_path: Path) -> None:
    sources = (scale_by(3), scale_by(4))
    seen: list[tuple[int, int]] = []
    built = build_archive(
        tmp_path / "new", LEVEL, 1, sources, lambda done, total: seen.append((done, total))
    )
    assert built.path == tmp_path / "new" / f"{LEVEL}.tfk" and seen[-1] == (2, 2)
    archive = Archive(built.path)
    texts = machine_texts()
    assert len(archive) == built.kernels == len(sources) + len(texts)
    assert built.file_bytes == built.path.stat().st_size
    for source in sources:
        kernel = archive.read(precompiled_key(source, LEVEL))
        assert kernel is not None and set(kernel.symbols) == {"kernel"}
        # a product of 16 floats, as AVX-512 alone has it
        assert re.search(rb"\x62[\x00-\xff]\x7c\x48\x59", kernel.code)
    for text, functions in texts:
        assert precompiled_text_key(text, functions, LEVEL) in archive
    assert built.path.stat().st_mode & 0o777 == 0o644


def test_a_kernel_that_does_not_compile_is_named() -> None:
    bad = KernelSource("def kernel(args, chunk, nchunks):\n    return no\n", title="bad one")
    objects, refused, _ = _compile(LEVEL, [bad])
    (reason,) = refused
    assert not objects and re.search(r"(?s)bad one for x86-64-v4: TypingError: .*NameError", reason)


@pytest.mark.parametrize("strict", [True, False])
def test_an_archive_lacks_refused_kernels_where_it_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, strict: bool
) -> None:
    """Its processes are not started: the compiler's answers are given."""

    class Pool:
        def submit(self, function: object, *arguments: object) -> Future[object]:
            future: Future[object] = Future()
            future.set_result(({}, [], 0.0))
            return future

        def map(self, function: object, blocks: list[object]) -> list[object]:
            return [({}, ["the reason"], 0.0) for _ in blocks]

    monkeypatch.setattr(archive_builder, "compilers", lambda level, count: nullcontext(Pool()))
    source = KernelSource("def kernel(args, chunk, nchunks):\n    return\n")
    if strict:
        with pytest.raises(Failed, match="the reason"):
            build_archive(tmp_path, LEVEL, 1, [source])
        assert not list(tmp_path.iterdir())
    else:
        assert build_archive(tmp_path, LEVEL, 1, [source], strict=False).refused == ("the reason",)
