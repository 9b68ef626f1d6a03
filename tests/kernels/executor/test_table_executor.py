"""The step walker: patches, order, jumps, stops, trace, GIL, floating-point control word."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from tests.waiting import wait_until
from tfjit.kernels.executor import (
    arch_ir,
    python_abi,
    table_executor,
    table_executor_ir,
    thread_pool,
)
from tfjit.kernels.executor.table_executor import StepTable
from tfjit.kernels.jit import target as cpu_features
from tfjit.kernels.jit.store import store
from tfjit.kernels.source import KernelSource

SOURCE = KernelSource(
    """# kernels for the walker's tests
from numba import float32
from tfjit.kernels.codegen.intrinsics import atomic_add, atomic_load, fail, ld, ld_any, load_word, ptr_f32, st, st_any, store_word, word


def add(args, chunk, nchunks):
    x = ptr_f32(word(args, 2))
    y = ptr_f32(word(args, 3))
    o = ptr_f32(word(args, 4))
    for i in range(word(args, 5)):
        st(o, i, ld(x, i) + ld(y, i))


def fail_at(args, chunk, nchunks):
    if load_word(word(args, 2)) == word(args, 3):
        fail(args, 7, word(args, 3) * 10)


def count(args, chunk, nchunks):
    store_word(args + 8 * (3 + chunk), nchunks)
    atomic_add(args + 16, 1)


def spin(args, chunk, nchunks):
    x = 1
    for i in range(word(args, 2)):
        x = x * 6364136223846793005 + 1442695040888963407
    store_word(args + 24, x)


def halve(args, chunk, nchunks):
    p = ptr_f32(args + 16)
    st_any(p, 0, ld_any(p, 0) * float32(0.5))


def wait_for(args, chunk, nchunks):
    for i in range(word(args, 3)):
        if atomic_load(word(args, 2)) != 0:
            store_word(args + 32, 1)
            return


def cancel(args, chunk, nchunks):
    store_word(word(args, 2), 1)


def cancel_in(args, chunk, nchunks):
    atomic_add(args + 32, 1)
    if chunk == word(args, 3):
        store_word(word(args, 2), 1)


def decrement(args, chunk, nchunks):
    store_word(word(args, 2), load_word(word(args, 2)) - 1)


def put(args, chunk, nchunks):
    store_word(word(args, 2), word(args, 3))
""",
    entries=(
        "add",
        "fail_at",
        "count",
        "spin",
        "halve",
        "cancel",
        "cancel_in",
        "wait_for",
        "decrement",
        "put",
    ),
    title="walker tests",
)


@pytest.fixture(scope="module")
def code() -> dict[str, int]:
    store.compile([SOURCE])
    found = store.lookup(SOURCE)
    assert found is not None
    return found


def block(*words: int, size: int = 16) -> np.ndarray:
    """An argument block: status, detail, then words."""
    made = np.zeros(size, np.int64)
    made[2 : 2 + len(words)] = words
    return made


def at(array: np.ndarray, word: int = 0) -> int:
    return int(array.ctypes.data) + 8 * word


def fallback() -> table_executor.RunTable:
    table = table_executor_ir.load()["tfjit_walk_table"]
    return table_executor._fallback(
        ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_size_t)(table),
        ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_size_t)(table),
    )


@pytest.fixture(params=["builtin", "fallback"])
def walk(request: pytest.FixtureRequest) -> table_executor.RunTable:
    return table_executor.get() if request.param == "builtin" else fallback()


def test_is_a_builtin() -> None:
    assert type(table_executor.get()) is type(len)
    assert table_executor.ready()


def test_patches(walk: table_executor.RunTable, code: dict[str, int]) -> None:
    out = np.zeros(6, np.float32)
    args = block(0, 0, at(out), 6)
    table = StepTable(
        2,
        [(code["add"], at(args), 1)],
        [(0, at(args, 2), 4), (1, at(args, 3), 0), (1, at(args, 8), 12)],
    )
    for seed in range(3):  # other arrays each time: addresses must not stick
        x, y = np.random.default_rng(seed).random((2, 40), np.float32)
        y = y[3:]
        assert walk(table.words, x, y) == 0
        np.testing.assert_array_equal(out, x[1:7] + y[:6])
        assert args[8] == y.ctypes.data + 12


def test_chain_runs_in_order(walk: table_executor.RunTable, code: dict[str, int]) -> None:
    n = 280
    ones, buffers = np.ones(16, np.float32), np.zeros((n + 1, 16), np.float32)
    blocks = np.zeros((n, 8), np.int64)
    for i in range(n):
        blocks[i, 2:6] = buffers[i].ctypes.data, ones.ctypes.data, buffers[i + 1].ctypes.data, 16
    table = StepTable(0, [(code["add"], int(row.ctypes.data), 1) for row in blocks])
    assert table.instruction_count == n
    assert walk(table.words) == 0
    assert (buffers == np.arange(n + 1, dtype=np.float32)[:, None]).all()


def test_empty_and_many_arrays(walk: table_executor.RunTable) -> None:
    assert walk(StepTable(0, []).words) == 0
    arrays = [np.zeros(n % 3, np.int8) for n in range(100)]
    found = np.zeros(100, np.int64)
    table = StepTable(100, [], [(n, at(found, n), -n) for n in range(100)])
    assert walk(table.words, *arrays) == 0
    assert found.tolist() == [array.ctypes.data - n for n, array in enumerate(arrays)]


@pytest.mark.parametrize("failing", [0, 2, 4, 5])
def test_status_stops(walk: table_executor.RunTable, code: dict[str, int], failing: int) -> None:
    position = np.array([failing], np.int64)
    failers = [block(at(position), n) for n in range(5)]
    counters = [block() for _ in range(5)]
    instructions = []
    for n in range(5):
        instructions += [(code["fail_at"], at(failers[n]), 1), (code["count"], at(counters[n]), 1)]
    result = walk(StepTable(0, instructions).words)
    if failing == 5:
        assert result == 0
    else:
        assert result == 1 + 2 * failing
        assert failers[failing][:2].tolist() == [7, 10 * failing]
    assert [int(counter[2]) for counter in counters] == [1] * failing + [0] * (5 - failing)


def test_chunks_without_pool(walk: table_executor.RunTable, code: dict[str, int]) -> None:
    args = block()
    assert walk(StepTable(0, [(code["count"], at(args), 5)]).words) == 0
    assert args[2:9].tolist() == [5, 5, 5, 5, 5, 5, 0]
    assert walk(StepTable(0, [(code["count"], at(args), 0)]).words) == 0  # no chunks: nothing to do
    assert args[2] == 5


def test_trace(walk: table_executor.RunTable, code: dict[str, int]) -> None:
    blocks = [block(n) for n in (0, 200_000, 0, 400_000)]
    table = StepTable(0, [(code["spin"], at(args), 1) for args in blocks])
    stamps = np.zeros(9, np.int64)
    table.set_trace(at(stamps))
    assert walk(table.words) == 0
    assert walk(table.words) == 0
    ticks = stamps[1::2]
    assert stamps[0] and (ticks >= 0).all()  # which took how long is up to the machine
    assert ticks[1] > 0 and ticks[3] > 0 and table_executor.ticks_per_second() > 0
    assert stamps[2::2].tolist() == [2, 2, 2, 2]
    table.set_trace(0)
    stamps[:] = 0
    assert walk(table.words) == 0
    assert not stamps.any()


def test_cancel(walk: table_executor.RunTable, code: dict[str, int]) -> None:
    flag = np.zeros(1, np.int64)
    counters = [block() for _ in range(4)]
    setter = block(at(flag))
    instructions = [(code["count"], at(args), 1) for args in counters]
    table = StepTable(
        0, [*instructions[:2], (code["cancel"], at(setter), 1), *instructions[2:]], cancel=at(flag)
    )
    assert walk(table.words) == -4
    assert [int(args[2]) for args in counters] == [1, 1, 0, 0]
    assert walk(table.words) == -1
    flag[0] = 0
    table.set_cancel(0)
    assert walk(table.words) == 0
    assert [int(args[2]) for args in counters] == [2, 2, 1, 1]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("cancellable", [False, True])
def test_cancel_between_chunks(
    walk: table_executor.RunTable, code: dict[str, int], cancellable: bool, threads: int
) -> None:
    """What may be cut ends there; anything else is whole, and what follows does not run."""
    flag, behind, chunks = np.zeros(1, np.int64), block(), 1000
    args = block(at(flag), 2)
    pool = thread_pool.get_pool(threads) if threads > 1 else None
    table = StepTable(
        0,
        [(code["cancel_in"], at(args), chunks), (code["count"], at(behind), 1)],
        costs=[10**9, 1],
        cancellable=[cancellable, False],
        cancel=at(flag),
        pool=pool.state_address if pool is not None else 0,
    )
    assert walk(table.words) == (-1 if cancellable else -2)
    assert behind[2] == 0
    if not cancellable:
        assert args[4] == chunks
    elif pool is None:
        assert args[4] == 3
    else:
        assert 3 <= args[4] <= chunks
    flag[0] = args[4] = 0
    args[3] = -1
    assert walk(table.words) == 0
    assert (args[4], behind[2]) == (chunks, 1)


@pytest.mark.parametrize("cancellable", [False, True])
def test_the_last_instruction_is_cut(
    walk: table_executor.RunTable, code: dict[str, int], cancellable: bool
) -> None:
    """A walk that left something undone says so, though nothing follows."""
    flag = np.zeros(1, np.int64)
    args = block(at(flag), 0)
    table = StepTable(
        0, [(code["cancel_in"], at(args), 4)], cancellable=[cancellable], cancel=at(flag)
    )
    assert walk(table.words) == (-1 if cancellable else 0)
    assert args[4] == (1 if cancellable else 4)


def counted_loop(
    code: dict[str, int],
    kept: list[np.ndarray],
    count: np.ndarray,
    body: list[tuple[int, int, int]],
    first: int,
) -> list:
    """Instructions from number `first` on: the body as often as `count` says, which is an int64
    counted down.
    """
    test = block(at(count), -1, 0, 0)  # the count is 0: over
    less = block(at(count))
    kept += [test, less]
    end = first + len(body) + 3
    return [
        (end, at(test), table_executor.TEST_INT64),
        *body,
        (code["decrement"], at(less), 1),
        (first, 0, table_executor.JUMP),
    ]


@pytest.mark.parametrize("trips", [0, 1, 7])
def test_loop(walk: table_executor.RunTable, code: dict[str, int], trips: int) -> None:
    kept: list[np.ndarray] = []
    left, before, inside, after = np.array([trips]), block(), block(), block()
    loop = counted_loop(code, kept, left, [(code["count"], at(inside), 1)], 1)
    table = StepTable(0, [(code["count"], at(before), 1), *loop, (code["count"], at(after), 1)])
    trace = np.zeros(1 + 2 * table.instruction_count, np.int64)
    table.set_trace(at(trace))
    assert walk(table.words) == 0
    assert (before[2], inside[2], after[2], left[0]) == (1, trips, 1, 0)
    assert trace[2::2].tolist() == [1, trips + 1, trips, trips, trips, 1]
    assert (trace[1::2] >= 0).all()


def test_nested_loops(walk: table_executor.RunTable, code: dict[str, int]) -> None:
    kept: list[np.ndarray] = []
    outer, inner, args = np.array([5]), np.array([0]), block()
    refill = block(at(inner), 3)
    body = counted_loop(code, kept, inner, [(code["count"], at(args), 1)], 2)
    table = StepTable(0, counted_loop(code, kept, outer, [(code["put"], at(refill), 1), *body], 0))
    assert walk(table.words) == 0
    assert args[2] == 15


@pytest.mark.parametrize(
    ("kind", "dtype", "mask", "wanted", "invert", "jumps"),
    [
        (table_executor.TEST_BYTE, np.int8, -1, 0, 0, {0}),
        (table_executor.TEST_BYTE, np.int8, -1, 0, 1, {-3, 1, 2}),
        (table_executor.TEST_INT32, np.int32, -1, 2, 1, {-3, 0, 1}),
        (table_executor.TEST_INT32, np.int32, 1, 1, 0, {-3, 1}),
        (table_executor.TEST_INT64, np.int64, -1, -3, 0, {-3}),
    ],
)
def test_branches(
    walk: table_executor.RunTable,
    code: dict[str, int],
    kind: int,
    dtype: type,
    mask: int,
    wanted: int,
    invert: int,
    jumps: set[int],
) -> None:
    for value in (-3, 0, 1, 2):
        scalar = np.full(9, 77, dtype)
        scalar[3] = value
        test = block(0, mask, wanted, invert)
        skipped, taken = block(), block()
        rows = [
            (3, at(test), kind),
            (code["count"], at(skipped), 1),
            (4, 0, table_executor.JUMP),
            (code["count"], at(taken), 1),
        ]
        table = StepTable(1, rows, [(0, at(test, 2), 3 * scalar.itemsize)])
        assert walk(table.words, scalar) == 0
        assert (int(skipped[2]), int(taken[2])) == ((0, 1) if value in jumps else (1, 0))


def test_status_in_a_loop(walk: table_executor.RunTable, code: dict[str, int]) -> None:
    kept: list[np.ndarray] = []
    left, inside = np.array([10]), block()
    failing = block(at(left), 4)
    loop = counted_loop(
        code, kept, left, [(code["fail_at"], at(failing), 1), (code["count"], at(inside), 1)], 0
    )
    assert walk(StepTable(0, loop).words) == 2
    assert (int(left[0]), int(inside[2])) == (4, 6)
    assert failing[:2].tolist() == [7, 40]


@pytest.mark.parametrize("empty", [False, True])
def test_an_endless_loop_is_cancelled(
    walk: table_executor.RunTable, code: dict[str, int], empty: bool
) -> None:
    flag, args = np.zeros(1, np.int64), block()
    loop = (
        [(0, 0, table_executor.JUMP)]
        if empty
        else [(code["count"], at(args), 1), (0, 0, table_executor.JUMP)]
    )
    table = StepTable(0, loop, release_gil=True, cancel=at(flag))

    def cancel() -> None:
        wait_until(lambda: args[2] > 0 or empty)
        flag.fill(1)

    thread = threading.Thread(target=cancel)
    thread.start()
    assert walk(table.words) < 0
    thread.join()


@pytest.mark.parametrize("release", [False, True])
def test_gil(walk: table_executor.RunTable, code: dict[str, int], release: bool) -> None:
    """The step waits for a word that another Python thread sets: it comes only if the GIL is
    released.
    """
    word = np.zeros(1, np.int64)
    args = block(at(word), 10**10 if release else 10**8)
    table = StepTable(0, [(code["wait_for"], at(args), 1)])
    table.set_release_gil(release)

    def set_soon() -> None:
        time.sleep(0.02)
        word[0] = 1

    before = sys.getswitchinterval()
    sys.setswitchinterval(100)  # only a thread that releases the GIL loses it
    try:
        thread = threading.Thread(target=set_soon)
        thread.start()
        assert walk(table.words) == 0
        assert args[4] == int(release)
        thread.join()
    finally:
        sys.setswitchinterval(before)


def test_denormals_are_flushed_and_the_control_word_restored(
    walk: table_executor.RunTable, code: dict[str, int]
) -> None:
    if cpu_features.host().isa == "generic" and arch_ir.architecture(os.uname().machine) == "other":
        return  # no control word is known there
    control = ctypes.PYFUNCTYPE(ctypes.c_int64)(table_executor_ir.load()["tfjit_control_word"])
    args = block()
    value = args[2:3].view(np.float32)
    for start in (1e-39, 1.5e-38):  # a subnormal operand; a subnormal result
        value[0] = start
        assert value[0] != 0
        table = StepTable(0, [(code["halve"], at(args), 1)])
        before = control()  # with the sticky exception flags of the lines above
        assert walk(table.words) == 0
        assert control() == before
        assert value[0] == 0
        assert np.float32(1.5e-38) * np.float32(0.5) != 0


def test_wrong_arguments(walk: table_executor.RunTable) -> None:
    table = StepTable(1, []).words
    x = np.zeros(3)
    assert walk(table, x) == 0
    with pytest.raises(TypeError, match="number of arrays"):
        walk(table)
    with pytest.raises(TypeError, match="number of arrays"):
        walk(table, x, x)


def test_wrong_types() -> None:
    walk = table_executor.get()
    table = StepTable(1, []).words
    for wrong in (None, 3, [1.0], memoryview(b"abc"), np.float32(1), np.zeros(3).view(np.recarray)):
        with pytest.raises(TypeError, match=r"not a numpy\.ndarray"):
            walk(table, wrong)
    with pytest.raises(TypeError):
        walk()


def test_references_are_kept_right(code: dict[str, int]) -> None:
    walk = table_executor.get()
    x, table = np.zeros(3), StepTable(1, []).words
    before = sys.getrefcount(x), sys.getrefcount(table)
    for _ in range(1000):
        walk(table, x)
    assert (sys.getrefcount(x), sys.getrefcount(table)) == before


def test_bad_tables() -> None:
    with pytest.raises(ValueError, match="a patch names"):
        StepTable(1, [], [(1, 8, 0)])
    with pytest.raises(ValueError, match="an instruction"):
        StepTable(0, [(0, 8, 1)])
    for jump in (
        (2, 8, table_executor.JUMP),
        (-1, 8, table_executor.JUMP),
        (0, 0, table_executor.TEST_BYTE),
        (0, 8, -5),
    ):
        with pytest.raises(ValueError, match="a jump"):
            StepTable(0, [jump])


def test_different_tables_on_many_threads(code: dict[str, int]) -> None:
    walk = table_executor.get()
    failures = []

    def work(release: bool) -> None:
        args = block()
        table = StepTable(0, [(code["count"], at(args), 1)] * 50, release_gil=release)
        for _ in range(500):
            if walk(table.words):
                failures.append("stopped")
        if args[2] != 25_000:
            failures.append(f"ran {args[2]} times")

    threads = [threading.Thread(target=work, args=(bool(n % 2),)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_offsets_of_arrays() -> None:
    offsets = python_abi.array_offsets()
    assert offsets is not None
    x = np.arange(5)
    assert ctypes.c_size_t.from_address(id(x) + offsets[0]).value == id(np.ndarray)
    assert ctypes.c_size_t.from_address(id(x) + offsets[1]).value == x.ctypes.data


def test_every_architecture_parses() -> None:
    """The text for other machines is at least well-formed LLVM assembly."""
    import llvmlite.binding as llvm

    for machine in ("x86_64", "aarch64", "riscv64"):
        for offsets in ((8, 16), None):
            llvm.parse_assembly(table_executor_ir.module_text(machine, offsets)).verify()


def test_aarch64_compiles() -> None:
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    try:
        target = llvm.Target.from_triple("aarch64-unknown-linux-gnu")
    except RuntimeError:
        return  # this llvmlite can only write code for its own machine
    module = llvm.parse_assembly(table_executor_ir.module_text("aarch64", (8, 16)))
    module.triple = "aarch64-unknown-linux-gnu"
    assembly = target.create_target_machine(opt=2).emit_assembly(module)
    assert "fpcr" in assembly.lower() and "cntvct" in assembly.lower()


def test_walker_needs_no_numba(tmp_path: Path) -> None:
    code = """if True:
        import sys
        import numpy as np
        from tfjit.kernels.executor import table_executor
        while not table_executor.ready():
            pass
        print(table_executor.get()(table_executor.StepTable(1, []).words, np.zeros(3)), "numba" in sys.modules)
    """
    for _ in range(2):  # cold, warm
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "TFJIT_CACHE_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (done.returncode, done.stderr, done.stdout) == (0, "", "0 False\n")


def test_cpu_features(tmp_path: Path) -> None:
    host = cpu_features.host()
    assert cpu_features.code_target().name and host.lanes(4) * 4 == host.vector_bytes
    assert host.l1_bytes >= 8 << 10 and host.l2_bytes >= host.l1_bytes
    assert cpu_features.classify("x86_64", frozenset({"avx512f", "avx512vl", "avx2", "fma"})) == (
        "avx512",
        64,
        32,
    )
    assert cpu_features.classify("x86_64", frozenset({"avx512f", "avx2", "fma"})) == (
        "avx2",
        32,
        16,
    )
    assert cpu_features.classify("x86_64", frozenset({"sse4.2"})) == ("generic", 16, 16)
    assert cpu_features.classify("aarch64", frozenset()) == ("neon", 16, 32)
    assert cpu_features.cache_sizes(tmp_path) == (32 << 10, 512 << 10, 8 << 20)
    for n, (kind, level, size) in enumerate(
        [("Data", "1", "48K"), ("Instruction", "1", "32K"), ("Unified", "2", "2M")]
    ):
        entry = tmp_path / f"index{n}"
        entry.mkdir()
        for name, value in (("type", kind), ("level", level), ("size", size)):
            (entry / name).write_text(value + "\n")
    assert cpu_features.cache_sizes(tmp_path) == (48 << 10, 2 << 20, 0)
