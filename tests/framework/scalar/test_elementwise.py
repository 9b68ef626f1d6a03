"""The elementwise table against TensorFlow: dtypes, arity, results of the NumPy references."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from tests import elementwise_cases as cases
from tfjit.framework.scalar.elementwise import TABLE, Elementwise, lookup
from tfjit.framework.types import dtypes as d

tf = pytest.importorskip("tensorflow")

ROWS = [pytest.param(row, id=row.op) for row in TABLE]
# what a row leaves out on purpose: no ordering of complex numbers is worth copying
LEFT_OUT = {"ClipByValue": {d.complex64, d.complex128}}


def _op_def(op: str):
    from tensorflow.python.framework import op_def_registry

    return op_def_registry.get(op)


def test_ops_are_unique():
    assert len({row.op for row in TABLE}) == len(TABLE)
    assert lookup("MatMul") is None
    assert lookup("AddV2") in TABLE


@pytest.mark.parametrize("row", ROWS)
def test_declaration_is_tensorflows(row: Elementwise):
    op_def = _op_def(row.op)
    assert op_def.is_commutative == row.commutative
    assert {a.name for a in op_def.attr} >= set(row.attrs)
    if row.arity < 0:
        assert op_def.input_arg[0].number_attr
    else:
        assert row.arity == len(op_def.input_arg)
        types = [a.type_attr or tf.dtypes.as_dtype(a.type).name for a in op_def.input_arg]
        assert [t if t == "bool" and row.dtypes != {d.bool} else "T" for t in types] == list(
            row.signature
        )


@pytest.mark.parametrize("row", ROWS)
def test_dtypes_are_tensorflows(row: Elementwise):
    from tensorflow.python.framework import kernels

    if row.op in ("Cast", "LogicalAnd", "LogicalOr", "LogicalNot"):
        return  # their kernels are registered without type constraints
    found = set()
    for kernel in kernels.get_registered_kernels_for_op(row.op).kernel:
        if kernel.device_type == "CPU":
            found |= {
                t for c in kernel.constraint if c.name == "T" for t in c.allowed_values.list.type
            }
    for attr in _op_def(row.op).attr:
        if attr.name == "T" and attr.HasField("allowed_values"):
            found &= set(attr.allowed_values.list.type)
    numbers = {d.as_dtype(t) for t in found}
    numbers = {t for t in numbers if t.is_numeric or t is d.bool}
    assert row.dtypes == numbers - LEFT_OUT.get(row.op, set())


@pytest.mark.parametrize("row", ROWS)
def test_reference_agrees_with_tensorflow(row: Elementwise):
    for dtype in cases.dtypes_of(row):
        inputs, attrs = cases.inputs_for(row, dtype), cases.attrs_for(row, dtype)
        expected = cases.tensorflow_answer(row, inputs, attrs)
        with np.errstate(all="ignore"):
            found = np.asarray(row.reference(*inputs, **{name: attrs[name] for name in row.attrs}))
        bad = cases.mismatches(row, found, expected)
        assert bad.size == 0, cases.describe(row, dtype, inputs, found, expected, bad)


@pytest.mark.filterwarnings("ignore:divide by zero")  # at lgamma's poles
@pytest.mark.parametrize("name", ["Erf", "Erfc", "Lgamma"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, d.bfloat16.as_numpy_dtype])
def test_special_functions_of_large_arrays_keep_their_temporaries_small(name: str, dtype: type):
    row = lookup(name)
    assert row is not None
    x = np.linspace(-5, 9, 500 * 201).reshape(500, 201).astype(dtype).T
    expected = np.stack([row.reference(line) for line in x])
    peaks = []
    tracemalloc.start()
    try:
        for _ in range(3):  # other threads allocate, too
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            found = row.reference(x)
            peaks.append(tracemalloc.get_traced_memory()[1] - before)
    finally:
        tracemalloc.stop()
    assert found.shape == x.shape
    assert found.dtype == x.dtype
    np.testing.assert_array_equal(found, expected)
    # the copy in order of rows, the result, and blocks of 64 KB
    assert min(peaks) < 2 * x.nbytes + 24 * 65536
