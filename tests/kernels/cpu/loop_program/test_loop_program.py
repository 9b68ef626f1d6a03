"""Kernels of loop programs in each of their forms, against the program run by NumPy."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tests.kernels.loop_program_cases import Maker, escape
from tests.kernels.native_runner import NativeRunner
from tfjit.framework.errors import InvalidArgumentError
from tfjit.framework.types import dtypes as d
from tfjit.kernels.cpu.loop_program.builder import program_call
from tfjit.kernels.cpu.loop_program.text import CANCELLED, is_tileable
from tfjit.kernels.ir.loop_program import LoopProgram
from tfjit.kernels.registry import Unsupported

FORMS = ("whole", "tiled", "lanes")


@pytest.mark.parametrize(
    ("form", "size"),
    [(f, n) for f, n in itertools.product(FORMS, (0, 2, 64, 65, 5000)) if f != "lanes" or n >= 64],
)
def test_forms_agree(form: Any, size: int) -> None:
    program = escape(size)
    assert is_tileable(program)
    inputs = [np.linspace(-2, 0.5, size, dtype=np.float32), np.int32(7)]
    wanted = program.run(inputs)
    runner = NativeRunner(program_call(program, form), inputs, program.output_specs)
    for chunks in (1, None):
        for got, want in zip(runner.run(chunks, threads=chunks is None), wanted, strict=True):
            np.testing.assert_array_equal(got, want)


def totals(size: int, dtype: Any) -> LoopProgram:
    """Every iteration adds the sum, the greatest and the mean of a vector to its elements, until
    the sum is large.
    """
    m = Maker()
    x = m.value(dtype, size)
    limit, zero = m.constant(dtype.as_numpy_dtype(1000)), m.constant(dtype.as_numpy_dtype(0))

    def body(x: int, total: int, top: int) -> list[int]:
        found = m.op("Sum", x, shape=())
        raised = m.op(
            "AddV2", m.op("AddV2", x, m.op("Max", x, shape=())), m.op("Mean", x, shape=())
        )
        return [raised, found, m.op("Min", m.op("Sub", raised, x), shape=())]

    results = m.loop(
        [x, zero, zero],
        [(size,), (), ()],
        lambda x, t, k: m.op("Less", t, limit, dtype=d.bool),
        body,
    )
    return m.program([x], list(results))


@pytest.mark.parametrize("dtype", [d.float32, d.float64, d.int32, d.int64])
@pytest.mark.parametrize("size", [3, 4097, 10_000])
def test_reductions(dtype: Any, size: int) -> None:
    program = totals(size, dtype)
    assert not is_tileable(program)
    x = np.linspace(0.0, 4.0, size).astype(dtype.as_numpy_dtype)
    wanted = program.run([x])
    runner = NativeRunner(program_call(program), [x], program.output_specs)
    tolerance = 0 if dtype.is_integer else 1e-5 if dtype is d.float32 else 1e-13
    for got, want in zip(runner.run(), wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=tolerance)


def test_cancelled() -> None:
    m = Maker()
    x, one = m.constant(np.int64(0)), m.constant(np.int64(1))
    (result,) = m.loop(
        [x],
        [()],
        lambda k: m.op("GreaterEqual", m.op("Mul", k, k), x, dtype=d.bool),
        lambda k: m.op("AddV2", k, one),
    )
    program = m.program([], [result])
    call = program_call(program)
    runner = NativeRunner(call, [], program.output_specs)
    runner.cancel[0] = 1
    runner.functions[0](runner.blocks[0].ctypes.data, 0, 1)
    assert runner.blocks[0][0] == CANCELLED
    assert call.launches[0].errors[CANCELLED][0] == "CancelledError"


def test_failure_is_named() -> None:
    m = Maker()
    k, one, zero = m.value(d.int32), m.constant(np.int32(1)), m.constant(np.int32(0))

    def body(k: int, total: int) -> list[int]:
        return [m.op("Sub", k, one), m.op("AddV2", total, m.op("FloorDiv", one, k))]

    results = m.loop(
        [k, zero], [(), ()], lambda k, t: m.op("GreaterEqual", k, zero, dtype=d.bool), body
    )
    program = m.program([k], list(results))
    with pytest.raises(InvalidArgumentError, match="Integer division by zero"):
        program.run([np.int32(3)])
    call = program_call(program)
    runner = NativeRunner(call, [np.int32(3)], program.output_specs)
    runner.functions[0](runner.blocks[0].ctypes.data, 0, 1)
    assert "{{{{node floordiv}}}}" in call.launches[0].errors[int(runner.blocks[0][0])][1]


def test_too_many_arrays() -> None:
    m = Maker()
    xs = [m.value(d.float32, 3) for _ in range(20)]
    i, one = m.constant(np.float32(0)), m.constant(np.float32(1))
    results = m.loop(
        [i, *xs],
        [(), *[(3,)] * 20],
        lambda i, *x: m.op("Less", i, one, dtype=d.bool),
        lambda i, *x: [m.op("AddV2", v, one) for v in (i, *x)],
    )
    with pytest.raises(Unsupported, match="arrays are written"):
        program_call(m.program(xs, list(results)))


def test_going_on_with_a_loop() -> None:
    program = escape(10)
    inputs = [np.linspace(-2, 0.5, 10, dtype=np.float32), np.int32(9)]
    seen: list[Any] = []
    wanted = program.run(inputs, lambda step, carried: seen.append((step, carried)))
    loop, carried = seen[4]
    assert carried[0] == 4
    rest = program.resumed(loop)
    assert [spec.shape for spec in rest.input_specs] == [np.shape(x) for x in (*carried, *inputs)]
    for got, want in zip(rest.run([*carried, *inputs]), wanted, strict=True):
        np.testing.assert_array_equal(got, want)
