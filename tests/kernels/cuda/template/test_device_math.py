"""Scalar functions of CUDA kernels: every row of the table compiles, and computes as on the host."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from tests import elementwise_cases as cases
from tests.kernels.cuda.harness import compile_ptx, launch
from tfjit.framework.scalar.elementwise import ANY, Elementwise
from tfjit.framework.types import dtypes as d
from tfjit.framework.types.dtypes import DType
from tfjit.kernels.codegen import expressions
from tfjit.kernels.cuda.template import element_kinds
from tfjit.kernels.source import Source

SIMULATED = (d.float32, d.float16, d.bfloat16, d.int32, d.uint8, d.complex64, d.bool)
ESTIMATE = "rcp.approx.ftz.f32"
EXACT = ("Div", "DivNoNan", "Inv", "RealDiv", "Reciprocal", "Rsqrt", "Sqrt")
BRANCHFREE = ("Erf", "Log1p", "Sigmoid", "Tanh")
"""Ops whose division in float32 tests no operands."""
SUBNORMALS = (1e-40, -1e-40, 1e-45)


def operands(row: Elementwise, dtype: DType) -> list[DType]:
    signature = row.signature if row.arity >= 0 else ("T", "T", "T")
    return [d.bool if entry == "bool" else dtype for entry in signature]


def write_row(
    source: Source, row: Elementwise, dtype: DType, prefix: str, inputs: list[str], output: str
) -> None:
    """Append a thread's element. inputs, output: variables with addresses."""
    attrs, types = cases.attrs_for(row, dtype), operands(row, dtype)
    result = row.result_dtype(dtype, attrs)
    names = [f"{prefix}x{k}" for k in range(len(types))]
    for name, t, address in zip(names, types, inputs):
        element = f"ld({element_kinds.pointer(t, address)}, unit())"
        source.line(f"{name} = {expressions.loaded(t, element)}")
    value = expressions.emit_op(row.op, names, types, result, attrs)
    target = element_kinds.pointer(result, output)
    source.line(f"st({target}, unit(), {expressions.stored(result, value)})")


def text_of(row: Elementwise, dtype: DType) -> str:
    """A kernel of one element a thread."""
    addresses = [f"a{k}" for k in range(len(operands(row, dtype)) + 1)]
    source = Source()
    for line in element_kinds.HEADER:
        source.line(line)
    with source.block(f"def kernel({', '.join(addresses)}):"):
        write_row(source, row, dtype, "", addresses[:-1], addresses[-1])
    return source.text()


def rows() -> list[tuple[Elementwise, DType]]:
    return [(r, t) for r, t in cases.cases() if r.op not in element_kinds.HOST_ONLY]


def text_of_all(typed: list[tuple[Elementwise, DType]]) -> str:
    """A kernel with all types of an op: a kernel for each would take three times as long."""
    source = Source()
    for line in element_kinds.HEADER:
        source.line(line)
    with source.block("def kernel(a0, a1):"):
        for n, (row, dtype) in enumerate(typed):
            write_row(source, row, dtype, f"t{n}_", ["a0"] * 4, "a1")
    return source.text()


def test_every_row_compiles_for_a_gpu() -> None:
    pytest.importorskip("numba.cuda.extending")
    by_op: dict[str, list[tuple[Elementwise, DType]]] = {}
    for row, dtype in rows():
        by_op.setdefault(row.op, []).append((row, dtype))
    assert sum(map(len, by_op.values())) > 700
    found = compile_ptx([(text_of_all(typed), 2) for typed in by_op.values()])
    for op, ptx in zip(by_op, found, strict=True):
        # divisions and roots are exact; libdevice's fmod corrects its estimates itself, and so does
        # `Value.over`
        estimates = set(re.findall(r"\w+\.approx\S*", ptx))
        allowed = set() if op in EXACT else {ESTIMATE}
        assert estimates <= allowed or op.endswith("Mod"), op


def test_functions_divide_without_a_branch() -> None:
    pytest.importorskip("numba.cuda.extending")
    found = {r.op: text_of(r, t) for r, t in rows() if t is d.float32 and r.op in BRANCHFREE}
    assert len(found) == len(BRANCHFREE)
    for op, ptx in zip(found, compile_ptx([(text, 2) for text in found.values()]), strict=True):
        assert ESTIMATE in ptx and "div." not in ptx, op


def test_every_cast_compiles_for_a_gpu() -> None:
    pytest.importorskip("numba.cuda.extending")
    kinds = sorted(ANY, key=lambda t: t.as_datatype_enum)
    lines = []
    for k, source in enumerate(kinds):
        element = f"ld({element_kinds.pointer(source, 'a')}, {k})"
        lines.append(f"x = {expressions.loaded(source, element)}")
        for n, target in enumerate(kinds):
            attrs = {"DstT": target, "Truncate": True}
            value = expressions.emit_op("Cast", ["x"], [source], target, attrs)
            place = f"{element_kinds.pointer(target, 'b')}, {100 * k + n}"
            lines.append(f"st({place}, {expressions.stored(target, value)})")
        # a name has one type in a kernel
        lines = [re.sub(r"\bx\b", f"x{k}", line) for line in lines]
    body = "".join(f"    {line}\n" for line in lines)
    text = "\n".join(element_kinds.HEADER) + f"def kernel(a, b):\n{body}"
    (ptx,) = compile_ptx([(text, 2)])
    assert "cvt.rn.f16.f32" in ptx


def some_inputs(row: Elementwise, dtype: DType) -> tuple[Any, ...]:
    """About thirty of the cases of TensorFlow's tests, and subnormal numbers."""
    picked = np.r_[0:16, cases.SIZE - 24 : cases.SIZE]
    inputs = [x[picked].copy() for x in cases.inputs_for(row, dtype)]
    if dtype is d.float32 and row.op not in cases.SPECIAL:
        for x in inputs:
            if x.dtype == np.float32:
                x[-len(SUBNORMALS) :] = SUBNORMALS
    return tuple(inputs)


@pytest.mark.parametrize("dtype", SIMULATED, ids=lambda t: t.name)
def test_values_are_those_of_the_reference(dtype: DType) -> None:
    """Bounds: `elementwise_cases.ULPS`. Subnormal numbers are no zeros, as they are on the host."""
    problems = []
    for row, t in rows():
        if t is not dtype:
            continue
        inputs, attrs = some_inputs(row, dtype), cases.attrs_for(row, dtype)
        with np.errstate(all="ignore"):
            named = {name: attrs[name] for name in row.attrs}
            wanted = np.asarray(row.reference(*inputs, **named))
        found = np.empty_like(wanted)
        launch(text_of(row, dtype), [*inputs, found], threads=len(found))
        bad = cases.mismatches(row, found, wanted)
        if bad.size:
            problems.append(cases.describe(row, dtype, inputs, found, wanted, bad))
    assert not problems, "\n".join(problems)


def test_subnormal_numbers_are_kept() -> None:
    row = next(r for r, t in rows() if r.op == "Mul" and t is d.float32)
    x, y = np.array([1e-40], np.float32), np.array([0.5], np.float32)
    found = np.zeros(1, np.float32)
    launch(text_of(row, d.float32), [x, y, found])
    assert found[0] == x[0] * y[0] != 0
