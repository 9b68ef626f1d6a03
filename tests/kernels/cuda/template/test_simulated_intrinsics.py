"""The names of the simulator's intrinsics, and threads that wait for one another."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from tests.kernels.cuda.harness import compile_ptx, launch
from tfjit.framework import errors
from tfjit.kernels.cuda.template import element_kinds, simulated_intrinsics
from tfjit.kernels.cuda.template.intrinsic_names import NAMES


def kernel(*lines: str, arguments: str = "a, b") -> str:
    body = "".join(f"    {line}\n" for line in lines)
    return "\n".join(element_kinds.HEADER) + f"def kernel({arguments}):\n{body}"


def run(text: str, *arrays: np.ndarray, blocks: int = 1, threads: int = 1) -> None:
    launch(text, arrays, blocks, threads)


def test_the_device_and_the_simulator_have_the_same_names() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert set(NAMES) == set(simulated_intrinsics.__all__)
    assert all(hasattr(simulated_intrinsics, name) for name in NAMES)
    pytest.importorskip("numba.cuda.extending")
    code = (
        "from tfjit.kernels.cuda.template import intrinsics\n"
        "print(all(hasattr(intrinsics, n) for n in intrinsics.__all__), len(intrinsics.__all__))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", str(len(NAMES))]


def test_threads_know_their_place() -> None:
    text = kernel(
        "st(ptr_i64(a), unit(), 100 * block() + 10 * threads() + thread())", arguments="a"
    )
    found = np.zeros(6, np.int64)
    run(text, found, blocks=2, threads=3)
    assert found.tolist() == [30, 31, 32, 130, 131, 132]


def test_shared_memory_and_barriers() -> None:
    text = kernel(
        "tile = shared_f32(8)",
        "st_shared(tile, thread(), ld(ptr_f32(a), unit()))",
        "sync_threads()",
        "st(ptr_f32(b), unit(), ld_shared(tile, threads() - 1 - thread()))",
    )
    x, found = np.arange(16, dtype=np.float32), np.zeros(16, np.float32)
    run(text, x, found, blocks=2, threads=8)
    assert found.tolist() == x.reshape(2, 8)[:, ::-1].ravel().tolist()
    (ptx,) = compile_ptx([(text, 2)])
    assert "ld.shared" in ptx and "st.shared" in ptx and "bar.sync" in ptx


def test_shuffles_stay_in_the_warp() -> None:
    text = kernel(
        "x = ld(ptr_i64(a), thread())",
        "x += shuffle_xor(x, 1)",
        "st(ptr_i64(b), thread(), shuffle_down(x, 30))",
    )
    x, found = np.arange(64), np.zeros(64, np.int64)
    run(text, x, found, threads=64)
    pairs = x // 2 * 4 + 1
    wanted = [pairs[i + 30] if i % 32 < 2 else pairs[i] for i in range(64)]
    assert found.tolist() == wanted
    (ptx,) = compile_ptx([(text, 2)])
    assert ptx.count("shfl.sync.bfly") == 2 and ptx.count("shfl.sync.down") == 2


def test_shuffles_of_every_type_compile() -> None:
    kinds = ("f32", "f64", "i8", "u16", "i32", "u64", "b8", "c64", "c128")
    texts = [(kernel(f"st(ptr_{k}(b), 0, shuffle_xor(ld(ptr_{k}(a), 0), 4))"), 2) for k in kinds]
    assert all("shfl.sync.bfly" in ptx for ptx in compile_ptx(texts))


def test_vectors_are_one_access() -> None:
    kinds = {"f32": 4, "f64": 2, "i32": 4, "u16": 8, "u8": 16, "i64": 2}
    texts = []
    for kind, n in kinds.items():
        values = ", ".join(f"v[{k}]" for k in range(n))
        text = kernel(
            f"v = ld_ro_vec{n}(ptr_{kind}(a), thread() * {n})",
            f"st_vec{n}(ptr_{kind}(b), thread() * {n}, {values})",
        )
        texts.append((text, 2))
    for ptx in compile_ptx(texts):
        assert ptx.count("ld.global.nc.v") == 1 and ptx.count("st.global.v") == 1, ptx
        assert "ld.global.u" not in ptx and "st.global.u" not in ptx


@pytest.mark.simulator
def test_an_unaligned_vector_is_refused() -> None:
    x = np.zeros(64, np.float32)
    start = (-x.ctypes.data % 16) // 4
    text = kernel("ld_vec4(ptr_f32(a), 0)", arguments="a")
    run(text, x[start:])
    with pytest.raises(errors.InternalError, match="a load of 16 bytes"):
        run(text, x[start + 1 :])


@pytest.mark.parametrize("kind", ["f32", "f64", "i32", "i64", "u32"])
def test_atomics(kind: str) -> None:
    text = kernel(
        f"p, x = ptr_{kind}(b), ld(ptr_{kind}(a), unit())",
        "atomic_add(p, 0, x)",
        "atomic_max(p, 1, x)",
        "atomic_min(p, 2, x)",
    )
    dtype = simulated_intrinsics._DTYPES[kind]
    x, found = np.arange(1, 9).astype(dtype), np.array([0, 3, 3], dtype)
    run(text, x, found, blocks=2, threads=4)
    assert found.tolist() == [36, 8, 1]
    (ptx,) = compile_ptx([(text, 2)])
    assert "atom" in ptx or "red." in ptx


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_products_are_not_contracted(kind: str) -> None:
    text = kernel(
        f"x = ld(ptr_{kind}(a), 0)",
        "y = x * x + x",
        "y *= x",
        f"st(ptr_{kind}(b), 0, y - x)",
        f"st(ptr_{kind}(b), 1, fma(x, y, x))",
    )
    (ptx,) = compile_ptx([(text, 2)])
    assert ptx.count("mul.rn") == 2 and ptx.count("fma.rn") == 1


@pytest.mark.simulator
def test_an_error_in_one_thread_ends_the_launch() -> None:
    text = kernel("if thread() == 1:", "    div_u32(1, 0)", "sync_threads()", arguments="a")
    with pytest.raises(errors.InternalError, match="div_u32"):
        run(text, np.zeros(1), threads=4)


def test_integers_wrap_as_on_the_device() -> None:
    assert simulated_intrinsics.int8(300) == 44 and simulated_intrinsics.uint8(-1) == 255
    assert simulated_intrinsics.int32(2**31) == -(2**31)
    assert simulated_intrinsics.iadd(np.int32(1), np.int32(2)).dtype == np.int32
