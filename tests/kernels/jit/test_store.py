"""The kernel store: memory, disk, compiler process, and what happens when any of them fails."""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.kernels.jit.processes import run_python
from tests.kernels.jit.scaling import check, scale_by
from tfjit.kernels.jit import cache_key as cache_key_module
from tfjit.kernels.jit import loader, stored_code, target
from tfjit.kernels.jit.archive import Archive, write_archive
from tfjit.kernels.jit.cache_key import cache_key, precompiled_key
from tfjit.kernels.jit.compiler import prune
from tfjit.kernels.jit.object_file import (
    DamagedObject,
    ObjectFile,
    undefined_symbols,
    write_atomically,
)
from tfjit.kernels.jit.store import CompileError, KernelStore
from tfjit.kernels.source import LAST_ATTEMPT, KernelSource


@pytest.fixture
def make(tmp_path: Path) -> Iterator[object]:
    """Makes stores over one directory, each as a process of its own would have it,
    and closes them.
    """
    made: list[KernelStore] = []

    def new(directory: Path = tmp_path) -> KernelStore:
        made.append(KernelStore(directory))
        return made[-1]

    yield new
    for store in made:
        store.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KernelStore]:
    """One store for tests that end with its worker as they found it: starting one takes longer
    than what they compile.
    """
    store = KernelStore(tmp_path_factory.mktemp("shared"))
    yield store
    store.close()


def test_cold_then_warm(make, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    source = scale_by(3)
    cold = make()
    assert cold.lookup(source) is None
    cold.compile([source])
    check(cold, source, 3)
    assert (cold.counters.hits, cold.counters.misses, cold.counters.compiled) == (0, 1, 1)
    folder = tmp_path / "kernels"
    assert folder.stat().st_mode & 0o777 == 0o700
    key = cache_key(source)
    assert {path.name for path in folder.iterdir()} == {f"{key}.py", f"{key}.o"}
    assert (folder / f"{key}.py").read_text() == source.text

    warm = make()
    assert warm.load([source])  # before it returns
    check(warm, source, 3)
    assert (warm.counters.hits, warm.counters.misses, warm.counters.compiled) == (1, 0, 0)


def test_title_opens_a_text_without_comment(shared: KernelStore) -> None:
    source = KernelSource("def kernel(args, chunk, nchunks):\n    return\n", title="nothing at all")
    shared.compile([source])
    text = (shared.directory / f"{cache_key(source)}.py").read_text()
    assert text.startswith("# nothing at all\n")


def test_entries_and_arity(shared: KernelStore) -> None:
    text = """# two entries of two arguments
from tfjit.kernels.codegen.intrinsics import store_word
from numba import njit


@njit
def twice(x):
    return x + x


def first(address, value):
    store_word(address, twice(value))


def second(address, value):
    store_word(address, value - 1)
"""
    source = KernelSource(text, entries=("first", "second"), arity=2)
    shared.compile([source])
    addresses = shared.lookup(source)
    assert set(addresses) == {"first", "second"}
    out = np.zeros(2, np.int64)
    for n, entry in enumerate(("first", "second")):
        ctypes.CFUNCTYPE(None, ctypes.c_ssize_t, ctypes.c_ssize_t)(addresses[entry])(
            out[n:].ctypes.data, 21
        )
    assert out.tolist() == [42, 20]


def test_key_follows_text_flags_and_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [cache_key(scale_by(2)), cache_key(scale_by(3)), cache_key(scale_by(2, interleave=4))]
    assert len(set(keys)) == 3
    assert cache_key(KernelSource(scale_by(2).text, title="another title")) == keys[0]
    monkeypatch.setattr(cache_key_module, "module_hash", lambda name: f"changed {name}")
    assert cache_key(scale_by(2)) != keys[0]


def test_imports_are_followed() -> None:
    text = (
        "from tfjit.kernels.codegen.intrinsics import (\n    ld,\n    st,\n)\nfrom "
        "tfjit.kernels import source as s\nimport os\n"
    )
    assert cache_key_module.imported(text) == {
        "tfjit.kernels.codegen.intrinsics",
        "tfjit.kernels.source",
    }
    assert cache_key_module.imported("from .source import KernelSource\n", "tfjit.kernels") == {
        "tfjit.kernels.source"
    }
    assert cache_key_module.imported("from .. import source\n", "tfjit.kernels.cpu") == {
        "tfjit.kernels.source"
    }
    # kernels are made of these too
    formulas = (
        "from tfjit.framework.scalar import special\nfrom tfjit.framework.types import dtypes\n"
    )
    assert cache_key_module.imported(formulas, "tfjit.kernels.vmath") == {
        "tfjit.framework.scalar.special"
    }


def test_damaged_files_are_replaced(make, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    damages: dict[str, Callable[[bytes], bytes]] = {
        "flip": lambda good: good[:-40] + bytes([good[-40] ^ 1]) + good[-39:],
        "truncate": lambda good: good[: len(good) // 2],
        "empty": lambda good: b"",
        "junk": lambda good: b"x" * 999,
    }
    sources = {damage: scale_by(n) for n, damage in enumerate(damages, 500)}
    paths = {
        damage: tmp_path / "kernels" / f"{cache_key(source)}.o"
        for damage, source in sources.items()
    }
    make().compile(list(sources.values()))
    for damage, path in paths.items():
        path.write_bytes(damages[damage](path.read_bytes()))
    store = make()  # one worker for all: its start is most of such a test's time
    for n, (damage, source) in enumerate(sources.items(), 1):
        store.compile([source])
        check(store, source, 499 + n)
        assert (store.counters.damaged, store.counters.compiled) == (n, n), damage
        ObjectFile.decode(paths[damage].read_bytes())


def test_read_only_directory_means_memory_only(
    make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "file").write_text("")
    source = scale_by(7)
    store = make(tmp_path / "file")  # no directory can be made below a file, not even by root
    assert store.directory is None
    store.compile([source])
    check(store, source, 7)


def test_directory_that_cannot_be_written(make, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    known, new = scale_by(8), scale_by(9)
    make().compile([known])
    folder = tmp_path / "kernels"
    folder.chmod(0o500)
    try:
        if os.access(folder, os.W_OK):
            # root writes anyway
            subprocess.run(["chattr", "+i", str(folder)], check=False, capture_output=True)
        store = make()
        store.compile([known, new])
        check(store, known, 8)
        check(store, new, 9)
        assert (store.counters.hits, store.counters.compiled) == (1, 1)
    finally:
        subprocess.run(["chattr", "-i", str(folder)], check=False, capture_output=True)
        folder.chmod(0o700)


def test_open_directory_is_closed_to_others(make, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels").chmod(0o777)
    assert make().directory == tmp_path / "kernels"
    assert (tmp_path / "kernels").stat().st_mode & 0o777 == 0o700


REFUSED = (
    ("def kernel(args, chunk, nchunks):\n    return args.missing\n", "missing"),
    (
        "def kernel(args, chunk, nchunks):\n    if args > 3:\n        raise ValueError('x')\n",
        "raise an exception",
    ),
    (
        "import numpy as np\ndef kernel(args, chunk, nchunks):\n    np.zeros(args)[0] = 1\n",
        "raise an exception or allocate",
    ),
    ("def kernel(args, chunk, nchunks)\n", "SyntaxError"),
    ("def other(args, chunk, nchunks):\n    return\n", "no function 'kernel'"),
    ("raise RuntimeError('at import')\n", "at import"),
)


def test_refused_kernels(shared: KernelStore, caplog: pytest.LogCaptureFixture) -> None:
    """One worker refuses them all and goes on after each."""
    store = shared
    for n, (text, reason) in enumerate(REFUSED):
        caplog.clear()
        source, good = KernelSource(text, title="a bad one"), scale_by(110 + n)
        with pytest.raises(CompileError, match="a bad one") as error:
            store.compile([source])
        assert reason in str(error.value)
        assert f"{cache_key(source)}.py" in str(error.value)
        assert store.refused(source) == str(error.value)
        assert store.lookup(source) is None
        store.request([source])  # is not tried again
        store.compile([good])
        check(store, good, 110 + n)
        warnings = [record for record in caplog.records if record.levelname == "WARNING"]
        assert len(warnings) == 1 and "a bad one" in warnings[0].getMessage()


@pytest.mark.parametrize("attempt", range(1, LAST_ATTEMPT + 1))
def test_other_ways_of_compiling(shared: KernelStore, attempt: int) -> None:
    """Each attempt has a key of its own, and code of its own that computes the same."""
    plain = scale_by(31)
    source = replace(plain, attempt=attempt)
    assert source.digest != plain.digest and cache_key(source) != cache_key(plain)
    shared.compile([plain, source])
    check(shared, source, 31)
    assert shared.lookup(source) != shared.lookup(plain)


def test_worker_death(make) -> None:  # type: ignore[no-untyped-def]
    deadly = KernelSource("import os\nos._exit(7)\n", title="deadly")
    others = [scale_by(n) for n in (12, 13, 14)]
    store = make()
    store.request([deadly, *others])
    store.compile(others)
    for n, source in zip((12, 13, 14), others, strict=True):
        check(store, source, n)
    with pytest.raises(CompileError, match=r"ended twice over it \(exit status 7\)"):
        store.compile([deadly])


def test_killed_worker_is_replaced(make) -> None:  # type: ignore[no-untyped-def]
    store = make()
    store.compile([scale_by(15)])
    (worker,) = store.compilations.queue.workers
    worker.process.send_signal(signal.SIGKILL)
    store.compile([scale_by(16)])
    check(store, scale_by(16), 16)


def test_worker_that_cannot_start(
    make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:  # type: ignore[no-untyped-def]
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "numba.py").write_text("raise ImportError('needs an older NumPy')\n")
    monkeypatch.setenv("PYTHONPATH", str(broken))
    store = make()
    with pytest.raises(CompileError, match="needs an older NumPy"):
        store.compile([scale_by(17), scale_by(18)])
    assert store.are_final([scale_by(17), scale_by(18)])
    assert len([record for record in caplog.records if record.levelname == "WARNING"]) == 1


def test_two_threads_request_the_same(shared: KernelStore) -> None:
    store, before = shared, shared.counters.compiled
    sources = [scale_by(n) for n in range(20, 24)]
    barrier, errors = threading.Barrier(4), []

    def work() -> None:
        try:
            barrier.wait()
            store.compile(sources)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert store.counters.compiled - before == len(sources)
    for n, source in enumerate(sources, 20):
        check(store, source, n)


def test_when_ready(shared: KernelStore) -> None:
    store = shared
    sources = [scale_by(n) for n in (30, 31)]
    called, happened = [], threading.Event()

    def ready() -> None:
        called.append([store.lookup(source) is not None for source in sources])
        happened.set()

    store.when_ready(sources, ready)
    assert happened.wait(60)
    assert called == [[True, True]]
    store.when_ready(sources, ready)  # at once
    assert len(called) == 2
    store.when_ready([], ready)
    assert len(called) == 3


def test_several_workers(make) -> None:  # type: ignore[no-untyped-def]
    store = make()
    sources = [scale_by(n) for n in range(40, 46)]
    store.compile(sources, workers=2)
    assert len(store.compilations.queue.workers) == 2
    for n, source in enumerate(sources, 40):
        check(store, source, n)


def test_off_never_starts_a_worker(make, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    known, new = scale_by(50), scale_by(51)
    make().compile([known])
    monkeypatch.setenv("TFJIT_JIT", "off")
    store = make()
    with pytest.raises(CompileError, match="TFJIT_JIT=off"):
        store.compile([known, new])
    check(store, known, 50)
    assert not store.compilations.queue.workers and store.refused(new) is None
    monkeypatch.setenv("TFJIT_JIT", "lazy")
    store.compile([new])
    check(store, new, 51)


WARM = """
    import sys
    sys.path.insert(0, {tests!r})
    from tests.kernels.jit.scaling import apply, check, scale_by
    from tfjit.kernels.jit.store import store
    import numpy as np
    sources = [scale_by(n) for n in range(60, 63)]
    store.compile(sources)
    for n, source in enumerate(sources, 60):
        check(store, source, n)
    print(store.counters.hits, store.counters.compiled, "numba" in sys.modules)
"""


def test_warm_process_needs_no_numba(tmp_path: Path, root: Path) -> None:
    code = WARM.format(tests=str(root))
    cold = run_python(code, tmp_path)
    assert (cold.returncode, cold.stderr, cold.stdout) == (0, "", "0 3 False\n")
    warm = run_python(code, tmp_path)
    assert (warm.returncode, warm.stderr, warm.stdout) == (0, "", "3 0 False\n")


def test_four_processes_share_a_directory(tmp_path: Path, root: Path) -> None:
    code = textwrap.dedent(WARM.format(tests=str(root)))
    environment = {**os.environ, "TFJIT_CACHE_DIR": str(tmp_path)}
    running = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    for process in running:
        out, err = process.communicate(timeout=120)
        assert (process.returncode, err) == (0, "")
        hits, compiled, _ = out.split()
        assert int(hits) + int(compiled) == 3
    files = sorted(path.suffix for path in (tmp_path / "kernels").iterdir())
    assert files == [".o"] * 3 + [".py"] * 3  # and no temporary file


def test_exit_while_compiling_is_quiet(tmp_path: Path, root: Path) -> None:
    code = f"""
        import sys, time
        sys.path.insert(0, {str(root)!r})
        from tests.kernels.jit.scaling import scale_by
        from tfjit.kernels.jit.store import store
        store.request([scale_by(n) for n in range(70, 90)])
        time.sleep(0.3)
    """
    done = run_python(code, tmp_path, PYTHONWARNINGS="default", PYTHONDEVMODE="1")
    assert (done.returncode, done.stderr) == (0, "")


def test_fork(tmp_path: Path, root: Path) -> None:
    code = f"""
        import os, sys
        sys.path.insert(0, {str(root)!r})
        from tests.kernels.jit.scaling import check, scale_by
        from tfjit.kernels.jit.store import store
        store.compile([scale_by(91)])
        store.request([scale_by(92)])
        child = os.fork()
        check(store, scale_by(91), 91)
        store.compile([scale_by(92), scale_by(93 if child else 94)])
        check(store, scale_by(92), 92)
        check(store, scale_by(93 if child else 94), 93 if child else 94)
        if child:
            assert os.waitpid(child, 0)[1] == 0
            print("parent")
    """
    # 3.12 warns of forking with threads
    done = run_python(code, tmp_path, PYTHONWARNINGS="ignore::DeprecationWarning")
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "parent\n")


def test_a_forked_child_goes_on_with_the_kernels_in_progress(tmp_path: Path, root: Path) -> None:
    """A look at other kernels loses no request, and a callback under way comes in the child."""
    code = f"""
        import os, sys, threading
        sys.path.insert(0, {str(root)!r})
        from tests.kernels.jit.scaling import check, scale_by
        from tfjit.kernels.jit.store import store
        store.compile([scale_by(91)])
        entered, go_on, called = threading.Event(), threading.Event(), threading.Event()
        def callback():
            called.set()
            entered.set()
            go_on.wait()
        store.when_ready([scale_by(92)], callback)
        assert entered.wait(60)
        store.request([scale_by(93)])
        called.clear()
        if os.fork() == 0:
            go_on.set()
            store.load_present([scale_by(94)])
            store.compile([scale_by(93)], timeout=60)
            check(store, scale_by(93), 93)
            assert called.wait(60)
            os._exit(0)
        go_on.set()
        print(os.wait()[1])
    """
    done = run_python(code, tmp_path, PYTHONWARNINGS="ignore::DeprecationWarning")
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "0\n")


def test_prune_drops_what_was_used_longest_ago(tmp_path: Path) -> None:
    now = time.time()
    for n in range(10):
        for suffix, size in ((".o", 1000), (".py", 10)):
            (tmp_path / f"k{n}{suffix}").write_bytes(b"x" * size)
            os.utime(tmp_path / f"k{n}{suffix}", (now, now - 86400 * (10 - n) if n < 9 else now))
    (tmp_path / ".left.tmp").write_bytes(b"")
    os.utime(tmp_path / ".left.tmp", (now, now - 7200))
    (tmp_path / ".fresh.tmp").write_bytes(b"")
    assert prune(tmp_path, 1 << 20) == 0
    assert not (tmp_path / ".left.tmp").exists() and (tmp_path / ".fresh.tmp").exists()
    assert prune(tmp_path, 8000) == 7
    assert {path.name for path in tmp_path.glob("k*")} == {
        f"k{n}{suffix}" for n in (7, 8, 9) for suffix in (".o", ".py")
    }
    assert prune(tmp_path, 100) == 2  # the newest was made just now
    assert prune(tmp_path / "missing", 0) == 0


def test_object_file_round_trip(tmp_path: Path) -> None:
    obj = ObjectFile({"kernel": "a.kernel"}, ("memcpy",), bytes(range(256)) * 3)
    assert ObjectFile.decode(obj.encode()) == obj
    for wrong in (b"", b"tfjit object 1\n", obj.encode()[:-1], obj.encode() + b"\0"):
        with pytest.raises(DamagedObject):
            ObjectFile.decode(wrong)
    assert undefined_symbols(b"not an object") is None
    with pytest.raises(FileNotFoundError):
        write_atomically(tmp_path / "missing" / "file", b"")
    write_atomically(tmp_path / "file", b"abc")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def archived(store: KernelStore, source: KernelSource, folder: Path) -> Path:
    """Write the code that a store has on disk for a kernel into an archive, and return its folder.

    The level is this CPU's; on a CPU without levels the test is skipped.
    """
    levels = target.levels_here()
    if not levels:
        pytest.skip("no archive is for this CPU")
    store.compile([source])
    assert store.directory is not None
    made = ObjectFile.decode((store.directory / f"{cache_key(source)}.o").read_bytes())
    write_archive(folder / f"{levels[-1]}.tfk", {precompiled_key(source, levels[-1]): made})
    return folder


def test_kernels_come_from_the_archive(shared: KernelStore, tmp_path: Path) -> None:
    source, other = scale_by(3), scale_by(60)
    folder = archived(shared, source, tmp_path)
    store = KernelStore(tmp_path / "cache", folder)
    assert not store.is_generic(source)
    assert store.load_present([source]) and not store.load_present([other])
    check(store, source, 3)
    counters = store.counters
    assert (counters.hits, counters.precompiled, counters.compiled) == (1, 1, 0)
    assert store.is_generic(source)
    assert store.name_of(source) == precompiled_key(source, target.levels_here()[-1])
    assert store.has_name(store.name_of(source)) and not store.has_name(cache_key(source))
    assert not store.compilations.queue.workers and not list(
        (tmp_path / "cache" / "kernels").iterdir()
    )


def test_the_disk_cache_goes_before_the_archive(shared: KernelStore, tmp_path: Path) -> None:
    source = scale_by(3)
    folder = archived(shared, source, tmp_path)
    assert shared.directory is not None
    store = KernelStore(shared.directory.parent, folder)
    assert store.load([source])
    assert (store.counters.hits, store.counters.precompiled) == (1, 0)
    assert not store.is_generic(source) and store.has_name(store.name_of(source))


def test_a_damaged_object_of_the_archive_is_compiled(
    shared: KernelStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = scale_by(3)
    folder = archived(shared, source, tmp_path)
    (path,) = folder.glob("*.tfk")
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    store = KernelStore(tmp_path / "cache", folder)
    monkeypatch.setenv("TFJIT_JIT", "off")  # it would be compiled now
    assert not store.load([source]) and not store.is_generic(source)
    assert (store.counters.hits, store.counters.misses) == (0, 1)


def test_an_added_archive_goes_first(
    shared: KernelStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that finds its kernels there has neither names of the disk cache nor a folder."""
    source, other = scale_by(3), scale_by(60)
    folder = archived(shared, source, tmp_path)
    store = KernelStore(tmp_path / "cache", tmp_path / "none")
    level = target.levels_here()[-1]
    store.add_archive(level, Archive(folder / f"{level}.tfk"))

    def fail(source: KernelSource) -> str:
        raise loader.NoCompiler("there is no compiler")

    monkeypatch.setattr(stored_code, "cache_key", fail)
    assert store.has_kernels() and store.load_present([source])
    check(store, source, 3)
    assert store.has_name(store.name_of(source)) and store.is_generic(source)
    assert not (tmp_path / "cache").exists()
    assert not store.load_present([other])


@pytest.mark.refuses_kernel
def test_without_a_compiler_missing_kernels_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(source: KernelSource) -> str:
        raise loader.NoCompiler("there is no compiler")

    monkeypatch.setattr(stored_code, "cache_key", fail)
    store = KernelStore(tmp_path / "cache", tmp_path / "none")
    with caplog.at_level(logging.WARNING):
        assert not store.load([scale_by(61), scale_by(62)])
    assert len(store.refusals()) == 2 and not store.compilations.queue.workers
    assert caplog.text.count("there is no compiler") == 1


def test_a_recording_store_loads_nothing(shared: KernelStore, tmp_path: Path) -> None:
    source = scale_by(3)
    store = KernelStore(tmp_path / "cache", archived(shared, source, tmp_path))
    store.record()
    assert not store.has_kernels() and not store.load_present([source])
    store.request([source, source])
    done = threading.Event()
    store.when_ready([source], done.set)
    assert done.wait(60) and store.are_final([source]) and store.lookup(source) is None
    assert store.recorded() == ([source], []) and not store.refusals()
    store.close()
