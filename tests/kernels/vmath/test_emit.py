"""Functions as a GPU computes them, on the host: device code with an estimate of a reciprocal."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from llvmlite import binding, ir

from tfjit.kernels.vmath import emit

_PARTS = """
declare float @llvm.fma.f32(float, float, float)
declare float @llvm.fabs.f32(float)
define float @product(float %x, float %y) {{
  %z = fmul float %x, %y
  ret float %z
}}
define float @estimate(float %x) {{
  %size = call float @llvm.fabs.f32(float %x)
  %flushed = fcmp ogt float %size, {most}
  %exact = fdiv float 1.0, %x
  %bits = bitcast float %exact to i32
  %beside = add i32 %bits, {ulp}
  %near = bitcast i32 %beside to float
  %found = select i1 %flushed, float 0.0, float %near
  ret float %found
}}
"""
"""Parts of a GPU: products, and reciprocals that are wrong by a unit in the last place."""
_HOST = {
    '@"llvm.nvvm.mul.rn.f"': "@product",
    '@"__nv_fmaf"': "@llvm.fma.f32",
    '@"__nv_fabsf"': "@llvm.fabs.f32",
    f'asm  "{emit.RECIPROCAL}", "=f,f"': "@estimate",
}
"""Their names in code for a GPU."""
_engines: list[Any] = []


def on_device(name: str, ulp: int) -> Callable[..., np.ndarray]:
    """Return a function of float32 arrays, whose code is that for a GPU."""
    found = emit.find(name)
    assert found is not None
    described, kind = found
    count = len(described.args)
    module = ir.Module(name)
    module.triple = "nvptx64-nvidia-cuda"
    function = ir.Function(module, ir.FunctionType(emit.F32, [emit.F32] * count), "f")
    builder = ir.IRBuilder(function.append_basic_block())
    given = [emit.Value(builder, argument, kind) for argument in function.args]
    builder.ret(described.emitter(*given).llvm)
    text = str(module).replace(module.triple, binding.get_default_triple())
    for theirs, ours in _HOST.items():
        text = text.replace(theirs, ours)
    lines = [line for line in text.splitlines() if not line.startswith("declare")]
    head = next(n for n, line in enumerate(lines) if line.startswith("define"))
    most = float(np.float32(2.0**126))
    parts = _PARTS.format(most=f"0x{np.float64(most).view(np.uint64):016x}", ulp=ulp)
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    parsed = binding.parse_assembly("\n".join([*lines[:head], parts, *lines[head:]]))
    machine = binding.Target.from_default_triple().create_target_machine()
    engine = binding.create_mcjit_compiler(parsed, machine)
    engine.finalize_object()
    _engines.append(engine)
    scalar = ctypes.CFUNCTYPE(ctypes.c_float, *[ctypes.c_float] * count)(
        engine.get_function_address("f")
    )

    def vector(*arrays: np.ndarray) -> np.ndarray:
        return np.array([scalar(*map(float, values)) for values in zip(*arrays)], np.float32)

    return vector


def worst(found: np.ndarray, wanted: np.ndarray) -> float:
    """Return the largest error in units in the last place, of normal results."""
    normal = np.abs(wanted) >= np.finfo(np.float32).tiny
    unit = np.spacing(np.abs(wanted[normal]).astype(np.float32)).astype(np.float64)
    return float((np.abs(found[normal] - wanted[normal]) / unit).max())


def points(low: float, high: float) -> np.ndarray:
    drawn = np.random.default_rng(0).uniform(low, high, 2000)
    return np.concatenate([drawn, np.geomspace(1e-30, min(high, -low), 200)]).astype(np.float32)


@pytest.mark.parametrize("ulp", [-1, 0, 1])
def test_functions_of_a_gpu_keep_their_bounds(ulp: int) -> None:
    x, y = points(-86, 86), points(-9, 9)[::-1].copy()
    wide, other = x.astype(np.float64), y.astype(np.float64)
    gate = 1 / (1 + np.exp(-wide))
    assert worst(on_device("sigmoid_f32", ulp)(x), gate) <= 2
    assert worst(on_device("gated_f32", ulp)(x, y), gate * other) <= 3
    assert worst(on_device("tanh_f32", ulp)(y), np.tanh(other)) <= 4.5
    inner = np.maximum(x, np.float32(-70))
    gate = 1 / (1 + np.exp(-inner.astype(np.float64)))
    assert worst(on_device("gated_tanh_f32", ulp)(inner, y), gate * np.tanh(other)) <= 6
    small = points(-4, 4)
    exact = np.array([math.erf(v) for v in small.tolist()])
    assert worst(on_device("erf_f32", ulp)(small), exact) <= 5.2
    above = points(-0.9, 0.9) + np.float32(0.5)
    assert worst(on_device("log1p_f32", ulp)(above), np.log1p(above.astype(np.float64))) <= 2


def test_special_values_of_a_gpu() -> None:
    inf, nan = np.inf, np.nan

    def answers(name: str, *columns: list[float]) -> list[float]:
        arrays = [np.array(column, np.float32) for column in columns]
        found: list[float] = on_device(name, 1)(*arrays).tolist()
        return found

    np.testing.assert_array_equal(
        answers("sigmoid_f32", [-inf, -100, -88, inf, nan]), [0, 0, 0, 1, nan]
    )
    np.testing.assert_array_equal(
        answers("gated_f32", [-inf, -inf, 0, -200, inf, nan, 1], [1, inf, inf, 1e30, 2, 1, nan]),
        [0, nan, inf, 0, 2, nan, nan],
    )
    np.testing.assert_array_equal(
        answers(
            "gated_tanh_f32", [-inf, -80, -76, inf, nan, -80, 50], [1, 2, -2, 20, 1, nan, -inf]
        ),
        [0, 0, 0, 1, nan, nan, -1],
    )
    np.testing.assert_array_equal(answers("tanh_f32", [-inf, inf, nan, 0]), [-1, 1, nan, 0])
    np.testing.assert_array_equal(
        answers("log1p_f32", [inf, -1, -2, nan, 0]), [inf, -inf, nan, nan, 0]
    )
    assert answers("tanh_f32", [1e-40])[0] == np.float32(1e-40)
