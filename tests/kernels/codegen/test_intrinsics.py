"""The building blocks of generated text, each against NumPy, and the promises that keep loops
vectorised.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.kernels.codegen.element_wise import IMPORT, element_wise
from tfjit.kernels.jit import target
from tfjit.kernels.jit.store import store
from tfjit.kernels.source import KernelSource

KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_ssize_t, ctypes.c_ssize_t, ctypes.c_ssize_t)
POINTERS = {
    "ptr_f32": np.float32,
    "ptr_f64": np.float64,
    "ptr_i8": np.int8,
    "ptr_i16": np.int16,
    "ptr_i32": np.int32,
    "ptr_i64": np.int64,
    "ptr_u8": np.uint8,
    "ptr_u16": np.uint16,
    "ptr_u32": np.uint32,
    "ptr_u64": np.uint64,
    "ptr_b8": np.bool_,
    "ptr_c64": np.complex64,
    "ptr_c128": np.complex128,
}


CASES = {  # name: (inputs, output, value)
    **{f"copy_{kind}": ([kind], kind, "x") for kind in POINTERS},
    "fma32": (["ptr_f32"] * 3, "ptr_f32", "fma(x, y, z)"),
    "max32": (["ptr_f32"] * 2, "ptr_f32", "maximum(x, y)"),
    "min64": (["ptr_f64"] * 2, "ptr_f64", "minimum(x, y)"),
    "rint32": (["ptr_f32"], "ptr_f32", "rint(x)"),
    "floor32": (["ptr_f32"], "ptr_f32", "floor(x)"),
    "ceil64": (["ptr_f64"], "ptr_f64", "ceil(x)"),
    "trunc32": (["ptr_f32"], "ptr_f32", "trunc(x)"),
    "sqrt32": (["ptr_f32"], "ptr_f32", "sqrt(x)"),
    "fabs32": (["ptr_f32"], "ptr_f32", "fabs(x)"),
    "copysign64": (["ptr_f64"] * 2, "ptr_f64", "copysign(x, y)"),
    "select32": (["ptr_b8", "ptr_f32", "ptr_f32"], "ptr_f32", "select(x, y, z)"),
    "bits32": (["ptr_f32"], "ptr_i32", "f32_bits(x)"),
    "float32_of": (["ptr_i32"], "ptr_f32", "bits_f32(x)"),
    "bits64": (["ptr_f64"], "ptr_i64", "f64_bits(x)"),
    "float64_of": (["ptr_i64"], "ptr_f64", "bits_f64(x)"),
    "iadd32": (["ptr_i32"] * 2, "ptr_i64", "iadd(x, y)"),
    "isub32": (["ptr_i32"] * 2, "ptr_i64", "isub(x, y)"),
    "imul32": (["ptr_i32"] * 2, "ptr_i64", "imul(x, y)"),
    "iadd_literal": (["ptr_i8"], "ptr_i64", "iadd(x, 100)"),
    "ixor8": (["ptr_i8"] * 2, "ptr_i64", "ixor(x, y)"),
    "iand8": (["ptr_u8"] * 2, "ptr_i64", "iand(x, y)"),
    "ior8": (["ptr_u8"] * 2, "ptr_i64", "ior(x, y)"),
    "ishl32": (["ptr_u32"], "ptr_i64", "ishl(x, 5)"),
    "ishr32": (["ptr_i32"], "ptr_i64", "ishr(x, 5)"),
    "ishr_unsigned": (["ptr_u32"], "ptr_i64", "ishr(x, 5)"),
    "idiv32": (["ptr_i32"] * 2, "ptr_i64", "idiv(x, y)"),
    "irem32": (["ptr_i32"] * 2, "ptr_i64", "irem(x, y)"),
    "mulhi": (["ptr_u32"] * 2, "ptr_u32", "mulhi_u32(x, y)"),
    "ones": (["ptr_u32"], "ptr_u32", "popcount(x)"),
    "wraps": (["ptr_i64"], "ptr_i32", "x"),
    "to_bool": (["ptr_i32"], "ptr_b8", "x > 3"),
    "narrow": (["ptr_f64"], "ptr_f32", "x"),
}
OTHERS = """
def strided(args, chunk, nchunks):
    x = ptr_f32(word(args, 3))
    o = ptr_f32(word(args, 4))
    for i in range(word(args, 2)):
        st_at(o, i * word(args, 6), ld_at(x, i * word(args, 5)))


def offsets(args, chunk, nchunks):
    x = offset_by(ptr_f32(word(args, 3)), 8)
    o = ptr_f32(word(args, 4))
    for i in range(word(args, 2) - 2):
        st_any_at(o, 4 * i, ld_any_at(x, 4 * i) + ld_any(x, i))


def two_outputs(args, chunk, nchunks):
    x = ptr_f32(word(args, 3))
    o = ptr_f32(word(args, 4))
    b = ptr_b8(word(args, 5))
    for i in range(word(args, 2)):
        v = ld(x, i)
        st_out(o, i, v * v, 0)
        st_out(b, i, v > float32(0), 1)


def running_sum(args, chunk, nchunks):
    x = ptr_f32(word(args, 3))
    o = ptr_f32(word(args, 4))
    st_out(o, 0, ld(x, 0), 3)
    for i in range(1, word(args, 2)):
        st_out(o, i, ld_out(o, i - 1, 3) + ld(x, i), 3)


def immediates(args, chunk, nchunks):
    o = ptr_f64(word(args, 4))
    st(o, 0, f32_word(args, 2))
    st(o, 1, f64_word(args, 3))


def memory(args, chunk, nchunks):
    copy_bytes(word(args, 4), word(args, 3), word(args, 2))
    fill_bytes(word(args, 5), 255, word(args, 2))
    move_bytes(word(args, 3) + 1, word(args, 3), word(args, 2) - 1)


def atomics(args, chunk, nchunks):
    p = word(args, 3)
    atomic_add(p, 5)
    store_word(p + 8, atomic_add(p, 1))
    store_word(p + 16, atomic_xchg(p, 77))
    atomic_store(p + 24, atomic_load(p) + load_word(p + 8))


def fails(args, chunk, nchunks):
    fail(args, 5, 1234)


def called(a, b, c):
    store_word(a, b - c)


def calls(args, chunk, nchunks):
    call(word(args, 2), word(args, 3), 100, chunk)
    call(word(args, 2), word(args, 3) + 8, int32(7), nchunks)
"""
OTHER_ENTRIES = (
    "strided",
    "offsets",
    "two_outputs",
    "running_sum",
    "immediates",
    "memory",
    "atomics",
    "fails",
    "called",
    "calls",
)
SOURCE = KernelSource(
    "# every intrinsic\n"
    + IMPORT
    + "\n\n".join(element_wise(name, *case) for name, case in CASES.items())
    + "\n"
    + OTHERS,
    entries=(*CASES, *OTHER_ENTRIES),
    title="intrinsics",
)
N = 259


@pytest.fixture(scope="module")
def code() -> dict[str, int]:
    store.compile([SOURCE])
    found = store.lookup(SOURCE)
    assert found is not None
    return found


def launch(address: int, *words: int | np.ndarray, chunk: int = 0, nchunks: int = 1) -> np.ndarray:
    args = np.array(
        [0, 0, *(w.ctypes.data if isinstance(w, np.ndarray) else w for w in words)], np.int64
    )
    KERNEL(address)(args.ctypes.data, chunk, nchunks)
    return args


def values(dtype: type, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return rng.random(N) < 0.5
    if kind.kind in "iu":
        return rng.integers(np.iinfo(kind).min, np.iinfo(kind).max, N, kind, endpoint=True)
    with np.errstate(over="ignore"):
        x = (rng.standard_normal(N) * 10.0 ** rng.integers(-3, 9, N)).astype(kind)
    x[:7] = [np.nan, np.inf, -np.inf, 0.0, -0.0, 0.5, 2.5]
    if kind.kind == "c":
        x[5:] += 1j * rng.standard_normal(N - 5)
    return x


def run(code: dict[str, int], name: str, *inputs: np.ndarray) -> np.ndarray:
    out = np.zeros(N, POINTERS[CASES[name][1]])
    launch(code[name], N, *inputs, out)
    return out


def bits(array: np.ndarray) -> np.ndarray:
    return array.view(np.uint8).reshape(array.size, -1)


@pytest.mark.parametrize("kind", POINTERS)
def test_load_and_store_every_dtype(code: dict[str, int], kind: str) -> None:
    x = values(POINTERS[kind], 1)
    np.testing.assert_array_equal(bits(run(code, f"copy_{kind}", x)), bits(x))


def test_float_functions(code: dict[str, int]) -> None:
    x, y, z = (values(np.float32, seed) for seed in (1, 2, 3))
    y[:7] = y[7:14]
    a, b = x.astype(np.float64), y.astype(np.float64)
    b[2] = np.nan
    equal = np.testing.assert_array_equal
    with np.errstate(all="ignore"):
        small = (v % np.float32(4096) for v in (x, y, z))
        p, q, r = (np.rint(v).astype(np.float32) for v in small)
        equal(run(code, "fma32", p, q, r), p.astype(np.float64) * q + r)
        equal(run(code, "max32", x, y), np.maximum(x, y))
        equal(run(code, "min64", a, b), np.minimum(a, b))
        equal(run(code, "rint32", x), np.rint(x))
        equal(run(code, "floor32", x), np.floor(x))
        equal(run(code, "ceil64", a), np.ceil(a))
        equal(run(code, "trunc32", x), np.trunc(x))
        equal(run(code, "sqrt32", x), np.sqrt(x))
        equal(bits(run(code, "fabs32", x)), bits(np.abs(x)))
        equal(bits(run(code, "copysign64", a, b)), bits(np.copysign(a, b)))
        equal(run(code, "narrow", a), a.astype(np.float32))
    condition = values(np.bool_, 4)
    equal(run(code, "select32", condition, x, y), np.where(condition, x, y))


def test_bits(code: dict[str, int]) -> None:
    x, a = values(np.float32, 1), values(np.float64, 2)
    np.testing.assert_array_equal(run(code, "bits32", x), x.view(np.int32))
    np.testing.assert_array_equal(run(code, "float32_of", x.view(np.int32)), x)
    np.testing.assert_array_equal(run(code, "bits64", a), a.view(np.int64))
    np.testing.assert_array_equal(run(code, "float64_of", a.view(np.int64)), a)


def test_integer_functions(code: dict[str, int]) -> None:
    """Results are stored as int64: they must have wrapped before."""
    x, y = values(np.int32, 1), values(np.int32, 2)
    equal = np.testing.assert_array_equal
    with np.errstate(over="ignore"):
        equal(run(code, "iadd32", x, y), x + y)
        equal(run(code, "isub32", x, y), x - y)
        equal(run(code, "imul32", x, y), x * y)
        b, c = values(np.int8, 3), values(np.int8, 4)
        equal(run(code, "iadd_literal", b), b + np.int8(100))
    equal(run(code, "ixor8", b, c), b ^ c)
    u, v = values(np.uint8, 5), values(np.uint8, 6)
    equal(run(code, "iand8", u, v), u & v)
    equal(run(code, "ior8", u, v), u | v)
    w, z = values(np.uint32, 7), values(np.uint32, 8)
    equal(run(code, "ishl32", w), w << np.uint32(5))
    equal(run(code, "ishr32", x), x >> 5)
    equal(run(code, "ishr_unsigned", w), w >> np.uint32(5))
    d = np.where(np.abs(y.astype(np.int64)) < 2, 3, y).astype(np.int32)
    quotient = np.trunc(x.astype(np.float64) / d).astype(np.int64)
    equal(run(code, "idiv32", x, d), quotient)
    equal(run(code, "irem32", x, d), x - quotient * d)
    equal(
        run(code, "mulhi", w, z),
        (w.astype(np.uint64) * z.astype(np.uint64) >> np.uint64(32)).astype(np.uint32),
    )
    equal(run(code, "ones", w), [int(n).bit_count() for n in w])
    wide = values(np.int64, 9)
    equal(run(code, "wraps", wide), wide.astype(np.int32))
    equal(run(code, "to_bool", x), x > 3)


def test_addressing(code: dict[str, int]) -> None:
    x = values(np.float32, 1)
    out = np.zeros((N, 3), np.float32)
    launch(code["strided"], 50, x, out, 20, 12)  # every fifth input, every third output
    np.testing.assert_array_equal(out[:50, 0], x[: 50 * 5 : 5])
    assert not out[:, 1:].any() and not out[50:].any()
    launch(code["strided"], 50, x[245:], out, -20, 12)  # backwards
    np.testing.assert_array_equal(out[:50, 0], x[245::-5][:50])
    result = np.zeros(N, np.float32)
    launch(code["offsets"], N, x, result)
    np.testing.assert_array_equal(result[: N - 2], 2 * x[2:])
    mask = np.zeros(N, np.bool_)
    with np.errstate(over="ignore"):
        launch(code["two_outputs"], N, x, result, mask)
        np.testing.assert_array_equal(result, x * x)
    np.testing.assert_array_equal(mask, x > 0)
    ones = np.ones(N, np.float32)
    launch(code["running_sum"], N, ones, result)
    np.testing.assert_array_equal(result, np.arange(1, N + 1))


def test_in_place(code: dict[str, int]) -> None:
    x = values(np.float32, 1)
    out = x.copy()
    mask = np.zeros(N, np.bool_)
    with np.errstate(over="ignore"):
        launch(code["two_outputs"], N, out, out, mask)
        np.testing.assert_array_equal(out, x * x)
    np.testing.assert_array_equal(mask, x > 0)


def test_immediates_memory_and_atomics(code: dict[str, int]) -> None:
    out = np.zeros(2)
    launch(
        code["immediates"],
        int(np.float32(-1.1).view(np.int32)),
        int(np.float64(np.pi).view(np.int64)),
        out,
    )
    assert out.tolist() == [float(np.float32(-1.1)), np.pi]
    x = np.arange(100, dtype=np.uint8)
    y, z = np.zeros(101, np.uint8), np.zeros(101, np.uint8)
    launch(code["memory"], 100, x, y, z)
    assert y.tolist() == [*range(100), 0] and z.tolist() == [255] * 100 + [0]
    assert x.tolist() == [0, *range(99)]
    words = np.array([10, 0, 0, 0], np.int64)
    launch(code["atomics"], 0, words)
    assert words.tolist() == [77, 15, 16, 92]


def test_fail_and_call(code: dict[str, int]) -> None:
    assert launch(code["fails"])[:2].tolist() == [5, 1234]
    out = np.zeros(2, np.int64)
    launch(code["calls"], code["called"], out, chunk=3, nchunks=8)
    assert out.tolist() == [97, -1]


def test_loops_are_vectorised_without_overlap_checks(tmp_path: Path) -> None:
    """Three arrays, nothing known of how they lie: with the promises of ld and st no check stands
    before the vector loop.
    """
    script = """if True:
        import re
        from tfjit.kernels.jit import compiler, loader
        from tests.kernels.codegen.element_wise import IMPORT, element_wise
        seen = []
        emit = loader.emit
        loader.emit = lambda module, machine, symbols: (seen.append(str(module)), emit(module, machine, symbols))[1]
        promised = element_wise("kernel", ["ptr_f32"] * 2, "ptr_f32", "select(x < y, x * y, y)")
        for text in (promised, promised.replace("ld(", "ld_any(").replace("st(", "st_any(")):
            compiler.compile_text(IMPORT + text, ("kernel",), 3, 0, "<test>", f"t{len(seen)}")
            widths = {int(width) for width in re.findall(r"store <(\\d+) x float>", seen[-1])}
            print(max(widths, default=1), "vector.memcheck" in seen[-1])
    """
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parents[3]),
            "TFJIT_CACHE_DIR": str(tmp_path),
        },
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    promised, unpromised = (line.split() for line in done.stdout.splitlines())
    assert int(promised[0]) >= min(8, target.host().lanes(4)) and promised[1] == "False"
    assert unpromised[1] == "True"
