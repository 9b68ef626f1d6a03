"""DType against TensorFlow's, type by type."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

from tfjit.framework.types import dtypes

NUMBERS = [*range(1, 34), *range(101, 134)]
FACTS = (
    "name",
    "as_datatype_enum",
    "size",
    "is_floating",
    "is_integer",
    "is_unsigned",
    "is_complex",
    "is_bool",
    "is_quantized",
    "is_numpy_compatible",
    "_is_ref_dtype",
)


def outcome(action: Any) -> Any:
    """The value, or the kind of exception."""
    try:
        return action()
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("number", NUMBERS)
def test_facts_are_tensorflows(number: int) -> None:
    ours, theirs = dtypes.as_dtype(number), tf.as_dtype(number)
    for fact in FACTS:
        assert getattr(ours, fact) == getattr(theirs, fact), fact
    assert repr(ours) == repr(theirs)
    assert str(ours) == str(theirs)
    for related in ("base_dtype", "real_dtype", "_as_ref"):
        assert getattr(ours, related).name == getattr(theirs, related).name, related
    for value in ("as_numpy_dtype", "limits"):
        if number < 100:  # TensorFlow knows no NumPy form of reference types
            assert outcome(lambda value=value: getattr(ours, value)) == outcome(
                lambda value=value: getattr(theirs, value)
            ), value


@pytest.mark.parametrize("number", range(1, 34))
def test_bounds_are_tensorflows(number: int) -> None:
    ours, theirs = dtypes.as_dtype(number), tf.as_dtype(number)
    for side in ("min", "max"):
        mine, other = (
            outcome(lambda side=side: getattr(ours, side)),
            outcome(lambda side=side: getattr(theirs, side)),
        )
        if isinstance(mine, type) or isinstance(other, type):
            assert mine == other
        else:
            assert float(mine) == pytest.approx(float(other), rel=1e-5)


@pytest.mark.parametrize("number", NUMBERS)
def test_one_object_a_type(number: int) -> None:
    dtype = dtypes.as_dtype(number)
    assert dtypes.as_dtype(dtype.name) is dtype
    assert dtypes.as_dtype(tf.as_dtype(number)) is dtype
    assert pickle.loads(pickle.dumps(dtype)) is dtype
    assert copy.deepcopy(dtype) is dtype
    assert dtypes.BY_ENUM_NAME[dtypes.enum_name(dtype)] is dtype


CONVERTIBLE = [
    float, int, bool, str, bytes, complex, object, None, "float", "double", "half", "float_ref", "float32_ref", "nope", 999,
    np.float16, np.float64, np.bool_, np.intc, np.longlong, np.longdouble, np.str_, np.bytes_, np.object_, np.datetime64,
    np.dtype("S3"), np.dtype("U3"), np.dtype("O"), np.dtype("i2"), np.dtype("M8[s]"),
    ml_dtypes.bfloat16, np.dtype(ml_dtypes.bfloat16), np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.int4),
    np.dtype([("qint8", np.int8)]),
]  # fmt: skip


@pytest.mark.parametrize("value", CONVERTIBLE, ids=repr)
def test_as_dtype_takes_what_tensorflow_takes(value: Any) -> None:
    mine, theirs = (
        outcome(lambda: dtypes.as_dtype(value).name),
        outcome(lambda: tf.as_dtype(value).name),
    )
    if value is np.longlong or value is np.ulonglong:
        # C's second name for 64 bits; TensorFlow has no entry for it on every platform
        assert mine == "int64"
    else:
        assert mine == theirs


def test_equality_and_hash() -> None:
    assert dtypes.float32 == "float32"
    assert dtypes.float32 == np.float32
    assert dtypes.float32 == 1
    assert dtypes.float32 != dtypes.float64
    assert dtypes.float32 != dtypes.float32._as_ref
    assert dtypes.float32 != "nope"
    assert dtypes.float32 is not None and dtypes.float32 != None  # noqa: E711
    assert {dtypes.float32: 1}[dtypes.as_dtype(np.float32)] == 1
    assert dtypes.float32._as_ref.is_compatible_with(
        dtypes.float32
    ) == tf.float32._as_ref.is_compatible_with(tf.float32)
    assert dtypes.float32.is_compatible_with(
        dtypes.float32._as_ref
    ) == tf.float32.is_compatible_with(tf.float32._as_ref)


def test_names_of_the_runtime() -> None:
    assert dtypes.short_name(dtypes.float32) == "float"
    assert dtypes.short_name(dtypes.float16._as_ref) == "half_ref"
    assert dtypes.enum_name(dtypes.float64) == "DT_DOUBLE"


def test_small_types_load_ml_dtypes_only_when_asked_for() -> None:
    code = (
        "import sys; from tfjit.framework.types import dtypes as d; d.as_dtype('bfloat16'); "
        "d.bfloat16.max;"
        "assert 'ml_dtypes' not in sys.modules; d.bfloat16.as_numpy_dtype; assert 'ml_dtypes' in "
        "sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
