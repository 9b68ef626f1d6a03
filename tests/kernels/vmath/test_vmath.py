"""Compiled expressions of the elementwise table against TensorFlow, and the vector math against
float64.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
import pytest

from tests import elementwise_cases as cases
from tfjit.framework.scalar.elementwise import TABLE, Elementwise
from tfjit.framework.types import dtypes as d
from tfjit.framework.types.dtypes import DType
from tfjit.kernels.codegen import expressions
from tfjit.kernels.cpu.elementwise.loop import MAX_OUTPUTS
from tfjit.kernels.ir.scalar_program import Program, ScalarOp
from tfjit.kernels.jit import compiler, loader
from tfjit.kernels.registry import Unsupported
from tfjit.kernels.source import Source

pytest.importorskip("numba")

PER_KERNEL = 12


_SHORT = {"uint8": "u8", "int8": "i8", "float32": "f32", "float64": "f64", "complex64": "c64", "complex128": "c128",
          **{f"{u}int{n}": f"{u[:1] or 'i'}{n}" for u in ("u", "") for n in (16, 32, 64)}}  # fmt: skip
_numbers = itertools.count()


def kernel_text(program: Program) -> str:
    """A launch kernel: its words are the addresses of inputs and outputs, the status, the length."""
    source = Source()
    for line in expressions.IMPORTS:
        source.line(line)
    source.line("from tfjit.kernels.codegen.intrinsics import *")
    values = [*program.inputs, *(op.dtype for op in program.ops)]
    kinds = [*program.inputs, *(values[k] for k in program.outputs)]
    inputs = len(program.inputs)
    with source.block("def kernel(args, chunk, nchunks):"):
        for k, dtype in enumerate(kinds):
            source.line(f"p{k} = ptr_{_SHORT[expressions.memory_type(dtype)]}(word(args, {k}))")
        source.line("failed = int64(0)")
        with source.block(f"for i in range(word(args, {len(kinds) + 1})):"):
            for k, dtype in enumerate(program.inputs):
                source.line(f"a_x{k} = {expressions.loaded(dtype, f'ld(p{k}, i)')}")
            results = expressions.emit_program(
                source, program, [f"a_x{k}" for k in range(inputs)], "failed"
            )
            for k, (result, dtype) in enumerate(zip(results, kinds[inputs:])):
                stored = expressions.stored(dtype, result)
                store, promise = ("st_out", f", {k}") if k < MAX_OUTPUTS else ("st_any", "")
                source.line(f"{store}(p{inputs + k}, i, {stored}{promise})")
        source.line(f"store_word(word(args, {len(kinds)}), failed)")
    return source.text()


def run_program(program: Program, inputs: Sequence[Any]) -> tuple[list[Any], int]:
    """(outputs, status) of a program over flat arrays, compiled as a kernel is."""
    values = [*program.inputs, *(op.dtype for op in program.ops)]
    size = len(inputs[0])
    arrays = [np.ascontiguousarray(x) for x in inputs]
    for x, dtype in zip(arrays, program.inputs, strict=True):
        assert x.shape == (size,) and x.dtype == np.dtype(dtype.as_numpy_dtype)
    outputs = [np.empty(size, np.dtype(values[k].as_numpy_dtype)) for k in program.outputs]
    unique = f"vmath_test_{next(_numbers)}"
    obj = compiler.compile_text(kernel_text(program), ("kernel",), 3, 0, f"<{unique}>", unique)
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 3)(loader.load(obj)["kernel"])
    status = ctypes.c_int64(-1)
    words = [*(x.ctypes.data for x in (*arrays, *outputs)), ctypes.addressof(status), size]
    block = (ctypes.c_int64 * len(words))(*words)
    function(ctypes.addressof(block), 0, 1)
    return outputs, status.value


def input_dtypes(row: Elementwise, dtype: DType) -> tuple[DType, ...]:
    """Dtypes of the inputs `elementwise_cases.inputs_for` makes."""
    signature = row.signature if row.arity >= 0 else ("T", "T", "T")
    return tuple(d.bool if entry == "bool" else dtype for entry in signature)


def batches() -> list[Any]:
    """Cases of one dtype in groups that share a kernel, since each compilation costs tens of
    milliseconds.
    """
    params = []
    by_dtype = sorted(cases.cases(), key=lambda case: case[1].as_datatype_enum)
    for dtype, group in groupby(by_dtype, key=lambda case: case[1]):
        rows = [row for row, _ in group]
        for k in range(0, len(rows), PER_KERNEL):
            params.append(
                pytest.param(rows[k : k + PER_KERNEL], dtype, id=f"{dtype.name}-{rows[k].op}")
            )
    return params


@pytest.mark.parametrize(("rows", "dtype"), batches())
def test_expression_agrees_with_tensorflow(rows: list[Elementwise], dtype: DType):
    pytest.importorskip("tensorflow")
    inputs = [cases.inputs_for(row, dtype) for row in rows]
    attrs = [cases.attrs_for(row, dtype) for row in rows]
    in_dtypes = [input_dtypes(row, dtype) for row in rows]
    flat = [t for types in in_dtypes for t in types]
    ops, first = [], 0
    for row, types, values in zip(rows, in_dtypes, attrs):
        args = tuple(range(first, first + len(types)))
        ops.append(
            ScalarOp(
                row.op,
                args,
                row.result_dtype(dtype, values),
                tuple((name, values[name]) for name in row.attrs),
            )
        )
        first += len(types)
    program = Program(tuple(flat), tuple(ops), tuple(range(len(flat), len(flat) + len(ops))))
    outputs, status = run_program(program, [x for arrays in inputs for x in arrays])
    assert status == 0
    problems = []
    for row, arrays, values, found in zip(rows, inputs, attrs, outputs):
        expected = cases.tensorflow_answer(row, arrays, values)
        bad = cases.mismatches(row, found, expected)
        if bad.size:
            problems.append(cases.describe(row, dtype, arrays, found, expected, bad))
    assert not problems, "\n".join(problems)


SMALL = ("float8", "float4", "int4", "uint4", "int2", "uint2")
CASTABLE = [t for t in d.ALL if t is d.bool or (t.is_numeric and not t.name.startswith(SMALL))]


@pytest.mark.parametrize("source", CASTABLE, ids=lambda t: t.name)
def test_cast_agrees_with_tensorflow(source: DType):
    tf = pytest.importorskip("tensorflow")
    row = next(row for row in TABLE if row.op == "Cast")
    rng = np.random.default_rng(source.as_datatype_enum)
    x = cases.random_values(source, rng)
    if source.is_floating or source.is_complex:
        # in range everywhere: out of range TensorFlow's packet and scalar code disagree
        x = np.where(np.abs(x) > 100, np.ones_like(x), x)
        x = np.where(np.isnan(x), np.ones_like(x), np.abs(x))
    ops = tuple(
        ScalarOp("Cast", (0,), target, (("DstT", target), ("Truncate", False)))
        for target in CASTABLE
    )
    outputs, _ = run_program(Program((source,), ops, tuple(range(1, 1 + len(ops)))), [x])
    for target, found in zip(CASTABLE, outputs):
        expected = tf.raw_ops.Cast(x=tf.constant(x), DstT=tf.dtypes.as_dtype(target.name)).numpy()
        reference = np.asarray(row.reference(x, DstT=target))
        for name, answer in (("compiled", found), ("reference", reference)):
            bad = cases.mismatches(row, answer, expected)
            assert bad.size == 0, f"{name} -> {target.name}\n" + cases.describe(
                row, source, (x,), answer, expected, bad
            )


@pytest.mark.parametrize(
    "source", [d.float32, d.float64, d.bfloat16, d.float16], ids=lambda t: t.name
)
def test_cast_out_of_range_is_the_scalar_result(source: DType):
    tf = pytest.importorskip("tensorflow")
    row = next(row for row in TABLE if row.op == "Cast")
    targets = [d.int32, d.int64, d.uint32, d.uint64, d.int8, d.int16, d.uint8, d.uint16]
    large = [1e9, -1e9, 3e9, 2147483648, -2147483648, 1e10, -1e10, 9.3e18, -9.3e18, 1.9e19]
    with np.errstate(over="ignore"):
        x = np.array([np.nan, np.inf, -np.inf, *large, 300, -200, 4e4, -4e4, -1.5, 255.9]).astype(
            source.as_numpy_dtype
        )
    ops = tuple(
        ScalarOp("Cast", (0,), target, (("DstT", target), ("Truncate", False)))
        for target in targets
    )
    outputs, _ = run_program(Program((source,), ops, tuple(range(1, 1 + len(ops)))), [x])
    for target, found in zip(targets, outputs):
        assert np.array_equal(found, row.reference(x, DstT=target)), target
        # one at a time: the packets that longer arrays go through saturate narrow integers
        one_by_one = [
            tf.raw_ops.Cast(
                x=tf.constant(x[k : k + 1]), DstT=tf.dtypes.as_dtype(target.name)
            ).numpy()
            for k in range(x.size)
        ]
        expected = np.concatenate(one_by_one)
        bad = cases.mismatches(row, found, expected)
        assert bad.size == 0, f"-> {target.name}\n" + cases.describe(
            row, source, (x,), found, expected, bad
        )


@pytest.mark.parametrize("source", [d.float16, d.float32, d.float64], ids=lambda t: t.name)
def test_truncating_cast_agrees_with_tensorflow(source: DType):
    tf = pytest.importorskip("tensorflow")
    row = next(row for row in TABLE if row.op == "Cast")
    targets = [d.bfloat16, d.float16, d.float32, d.int32]
    with np.errstate(over="ignore"):
        x = (cases.random_values(d.float64, np.random.default_rng(3)) * 1.001).astype(
            source.as_numpy_dtype
        )
        ops = tuple(
            ScalarOp("Cast", (0,), target, (("DstT", target), ("Truncate", True)))
            for target in targets
        )
        outputs, _ = run_program(Program((source,), ops, tuple(range(1, 1 + len(ops)))), [x])
        for target, found in zip(targets, outputs):
            expected = tf.raw_ops.Cast(
                x=tf.constant(x), DstT=tf.dtypes.as_dtype(target.name), Truncate=True
            ).numpy()
            for answer in (found, row.reference(x, DstT=target, Truncate=True)):
                bad = cases.mismatches(row, answer, expected)
                assert bad.size == 0, f"-> {target.name}\n" + cases.describe(
                    row, source, (x,), answer, expected, bad
                )


def test_integer_division_reports_zero():
    ops = (ScalarOp("FloorDiv", (0, 1), d.int32), ScalarOp("AddV2", (2, 0), d.int32))
    program = Program((d.int32, d.int32), ops, (3,))
    assert expressions.program_errors(program) == {
        1: ("InvalidArgumentError", "Integer division by zero")
    }
    x, y = np.arange(10, dtype=np.int32), np.ones(10, np.int32)
    assert run_program(program, [x, y])[1] == 0
    y[7] = 0
    assert run_program(program, [x, y])[1] == 1
    with pytest.raises(ValueError, match="FloorDiv may fail"):
        expressions.emit_program(Source(), program, ["x", "y"])


@pytest.mark.parametrize("dtype", [d.int8, d.uint8], ids=lambda t: t.name)
def test_every_pair_of_bytes(dtype: DType):
    """All 65536 pairs through every binary row, against the reference, and the divisions against
    Python's own.
    """
    limits = np.iinfo(dtype.as_numpy_dtype)
    x, y = (
        v.ravel().astype(dtype.as_numpy_dtype)
        for v in np.meshgrid(*[np.arange(limits.min, limits.max + 1)] * 2)
    )
    rows = [row for row in TABLE if dtype in row.dtypes and row.signature == ("T", "T")]
    ops = tuple(ScalarOp(row.op, (0, 1), row.result_dtype(dtype, {})) for row in rows)
    outputs, _ = run_program(Program((dtype, dtype), ops, tuple(range(2, 2 + len(ops)))), [x, y])
    valid = y > 0
    for row, found in zip(rows, outputs):
        fine = valid if row.op == "Pow" else np.ones_like(valid)
        assert np.array_equal(found[fine], row.reference(x, y)[fine]), row.op
    by_op = dict(zip((row.op for row in rows), outputs))
    wide = np.iinfo(dtype.as_numpy_dtype).bits
    for op, exact in (
        ("FloorDiv", lambda a, b: a // b),
        ("FloorMod", lambda a, b: a % b),
        ("TruncateDiv", lambda a, b: int(a / b)),
    ):
        for k in range(0, x.size, 37):
            if y[k] != 0:
                assert int(by_op[op][k]) % (1 << wide) == exact(int(x[k]), int(y[k])) % (
                    1 << wide
                ), (op, x[k], y[k])


def test_negative_integer_power_reports():
    program = Program((d.int64, d.int64), (ScalarOp("Pow", (0, 1), d.int64),), (2,))
    (found,), status = run_program(program, [np.array([2, 3, -3]), np.array([10, 4, 3])])
    assert status == 0
    assert found.tolist() == [1024, 81, -27]
    assert run_program(program, [np.array([2]), np.array([-1])])[1] == 2


def test_float_division_cannot_fail():
    program = Program((d.float32, d.float32), (ScalarOp("FloorDiv", (0, 1), d.float32),), (2,))
    assert expressions.program_errors(program) == {}


def test_unsupported_is_said():
    with pytest.raises(Unsupported, match="MatMul"):
        expressions.emit_op("MatMul", ["x", "y"], [d.float32, d.float32], d.float32)
    with pytest.raises(Unsupported, match="string"):
        expressions.emit_op("AddV2", ["x", "y"], [d.string, d.string], d.string)
    with pytest.raises(ValueError, match="alpha"):
        expressions.emit_op("LeakyRelu", ["x"], [d.float32], d.float32)


def test_no_contraction_across_ops():
    x, y, z = (np.random.default_rng(k).standard_normal(1000).astype(np.float32) for k in range(3))
    ops = (ScalarOp("Mul", (0, 1), d.float32), ScalarOp("AddV2", (3, 2), d.float32))
    (found,), _ = run_program(Program((d.float32,) * 3, ops, (4,)), [x, y, z])
    assert np.array_equal(found, x * y + z)


@pytest.mark.parametrize("dtype", [d.float16, d.bfloat16], ids=lambda t: t.name)
def test_narrow_floats_convert_exactly(dtype: DType):
    bits = np.arange(1 << 16, dtype=np.uint16).view(dtype.as_numpy_dtype)
    program = Program(
        (dtype,),
        (ScalarOp("Cast", (0,), d.float32, (("DstT", d.float32), ("Truncate", False))),),
        (0, 1),
    )
    (same, wide), _ = run_program(program, [bits])
    expected = bits.astype(np.float32)
    numbers = ~np.isnan(expected)
    assert np.array_equal(same.view(np.uint16)[numbers], bits.view(np.uint16)[numbers])
    assert np.array_equal(wide[numbers], expected[numbers])
    assert np.isnan(wide[~numbers]).all()


def test_narrow_rounding_is_to_nearest_even():
    import ml_dtypes

    bits = np.random.default_rng(0).integers(0, 1 << 32, 1 << 18, dtype=np.uint32)
    x = bits.view(np.float32)
    with np.errstate(over="ignore"):
        for dtype, numpy_dtype in ((d.bfloat16, ml_dtypes.bfloat16), (d.float16, np.float16)):
            program = Program(
                (d.float32,),
                (ScalarOp("Cast", (0,), dtype, (("DstT", dtype), ("Truncate", False))),),
                (1,),
            )
            (found,), _ = run_program(program, [x])
            expected = x.astype(numpy_dtype)
            numbers = ~np.isnan(x)
            assert np.array_equal(found.view(np.uint16)[numbers], expected.view(np.uint16)[numbers])
            assert np.isnan(found[~numbers].astype(np.float32)).all()


def test_half_conversion_without_instructions(monkeypatch: pytest.MonkeyPatch):
    from tfjit.kernels.vmath import bits as bit_functions

    monkeypatch.setattr(bit_functions, "_converts_half", lambda: False)
    test_narrow_floats_convert_exactly(d.float16)
    test_narrow_rounding_is_to_nearest_even()


def test_loops_vectorise(monkeypatch: pytest.MonkeyPatch):
    """No call is left in a loop of common functions, and it works on vectors."""
    seen: list[str] = []
    emit = loader.emit

    def listen(linked: Any, machine: Any, symbols: Any) -> Any:
        seen.append(str(linked))
        return emit(linked, machine, symbols)

    monkeypatch.setattr(loader, "emit", listen)
    names = [
        "Exp",
        "Log",
        "Tanh",
        "Sigmoid",
        "Erf",
        "Softplus",
        "Sin",
        "Rsqrt",
        "Relu",
        "Elu",
        "Expm1",
        "Log1p",
    ]
    for name in names:
        program = Program((d.float32,), (ScalarOp(name, (0,), d.float32),), (1,))
        run_program(program, [np.ones(64, np.float32)])
        assert " x float>" in seen.pop(), name


def _gate_program(*ops: tuple[str, tuple[int, ...]], outputs: tuple[int, ...]) -> Program:
    return Program(
        (d.float32, d.float32), tuple(ScalarOp(op, args, d.float32) for op, args in ops), outputs
    )


GATE = _gate_program(("Sigmoid", (0,)), ("Mul", (2, 1)), outputs=(3,))
TANH_GATE = _gate_program(("Tanh", (1,)), ("Sigmoid", (0,)), ("Mul", (2, 3)), outputs=(4,))


@pytest.mark.parametrize(
    ("program", "bound"),
    [(GATE, 2.6), (TANH_GATE, 7.0)],
    ids=["sigmoid(x) y", "sigmoid(x) tanh(y)"],
)
def test_gates_are_as_exact_as_their_factors(program: Program, bound: float):
    rng = np.random.default_rng(1)
    x = np.concatenate(
        [rng.uniform(-60, 100, 200_000), rng.standard_normal(200_000), [0.0, -0.0]]
    ).astype("f4")
    y = np.concatenate(
        [rng.standard_normal(200_000), rng.uniform(-20, 20, 200_000), [-0.0, 1e-20]]
    ).astype("f4")
    (found,), _ = run_program(program, [x, y])
    wide, other = x.astype("f8"), y.astype("f8")
    expected = (np.tanh(other) if program is TANH_GATE else other) / (1.0 + np.exp(-wide))
    kept = (np.abs(expected) > 1e-33) | (expected == 0.0)
    error = np.abs(found - expected) / np.spacing(np.abs(expected).astype("f4"))
    assert error[kept].max() < bound
    np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


@pytest.mark.parametrize("program", [GATE, TANH_GATE], ids=["sigmoid(x) y", "sigmoid(x) tanh(y)"])
def test_gates_of_special_values(program: Program):
    special = np.array(
        [0.0, -0.0, 1.0, -3.0, 87.0, 89.0, -87.0, -90.0, 1e30, -1e30, np.inf, -np.inf, np.nan], "f4"
    )
    x, y = (a.ravel().copy() for a in np.meshgrid(special, special))
    (found,), _ = run_program(program, [x, y])
    with np.errstate(all="ignore"):
        gate = (1.0 / (1.0 + np.exp(-x.astype("f8")))).astype("f4")
        gate[np.abs(gate) < np.finfo("f4").tiny] = 0.0
        expected = gate * (np.tanh(y) if program is TANH_GATE else y)
    np.testing.assert_allclose(found, expected, 1e-6, 1e-33)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))


def test_a_gate_that_is_needed_itself_stays():
    program = _gate_program(("Sigmoid", (0,)), ("Mul", (2, 1)), ("Mul", (2, 2)), outputs=(3, 2, 4))
    source = Source()
    expressions.emit_program(source, program, ["a", "b"])
    assert "gated" not in source.text()
    source = Source()
    expressions.emit_program(source, TANH_GATE, ["a", "b"])
    assert "gated_tanh_f32(a, b)" in source.text()
    assert "sigmoid" not in source.text()
