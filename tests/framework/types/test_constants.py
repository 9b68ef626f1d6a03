"""Constants of Python values, make_tensor_proto against TensorFlow's."""

from __future__ import annotations

from typing import Any

import ml_dtypes  # noqa: F401  for the values below
import numpy as np
import pytest
import tensorflow as tf

from tfjit.framework.types import dtypes
from tfjit.framework.types.constants import make_tensor_array, make_tensor_proto
from tfjit.framework.types.shape import TensorShape


def entries(text: str) -> list[str]:
    """The parts of a text between bars."""
    return text.strip().replace("\n", " | ").split(" | ")


VALUES = entries("""
1 | 1.5 | True | "a" | b"a" | 1+2j | [1, 2] | [1, 2.5] | [1, True] | [True, 1] | [True, False] | 2**31 | [2**31] | -2**31 | 2**64 | []
[[1, 2], [3]] | [1, [2]] | None | [None] | np.array([1, 2]) | np.float64(1) | np.array(["a", "bc"]) | np.array([b"a", b"b\\0c"], object)
np.float16(1) | np.array([1, 2], np.float16) | [1, 2j] | np.array([1, 2], np.complex64) | (1, 2) | {1: 2} | np.array([[1, 2], [3, 4]]).T
np.array(5) | np.zeros([2, 0]) | "é" | ["a", b"b"] | ["a", 1] | [1, "a"] | np.int8(3) | [np.int64(3), 4] | [np.float32(3), 4]
np.bool_(True) | float("nan") | 1e40 | [1, 2**31] | [1.0, 2**40] | np.uint64(2**63) | np.datetime64(1, "s") | np.longdouble(1) | object()
[b"a\\0"] | [["a"], ["b"]] | "" | [""] | np.array(["a"], object) | np.array([1, "a"], object) | ml_dtypes.bfloat16(1.5)
[np.float64(3), 4] | [[]] | np.array([], np.int8)
""")
TYPED = entries("""
1, int64 | 2**40, int64 | 300, uint8 | -1, uint8 | 1.5, int32 | 1, float32 | 1, bool | True, int32 | True, float32 | "a", float32
[], int32 | np.array([1.5]), int32 | np.array([1, 2], np.int64), int32 | np.array([1, 2]), float32 | 1.0, bfloat16 | [1.0, 2], bfloat16
1.0, float8_e5m2 | [1.0, 2.0], float8_e4m3fn | 1, int4 | [1, 2, 3], int4 | 1, uint32 | 1, uint64 | 2**63, uint64 | 1+2j, complex64
[1.0, 2], complex128 | 3, qint8 | (3,), quint8 | [(3,), (4,)], qint32 | 1, resource | [[1.0], [2]], int32 | 1e40, float16 | 2**70, float32
-2**63, int64 | "a", string | ["a", "b"], string | 1j, float32 | None, int32 | [1, None], float32 | np.array(["a"]), string
[np.float32(1)], int32 | [np.float32(1.5)], float64 | True, complex64 | [True], bool | [1.0, True], float32 | [np.int32(3)], int64
1, string | 1, complex64
""")
SHAPED = entries("""
[1.0], None, [3] | 1.0, None, [2, 3] | [1, 2], None, [3] | [1, 2, 3], None, [2] | [1, 2, 3, 4], None, [2, 2] | [1, 2, 3, 4], None, [2, 3]
[[1, 2], [3, 4]], None, [4] | 1, None, [0] | 1, "int32", [0] | [], None, [3] | np.zeros(0), None, [3] | [True, False], None, [3]
1, None, TensorShape([2]) | 1, None, [None] | 1, None, [-1] | "a", None, [2] | ["a", "b"], None, [3] | 1.5, "bfloat16", [2]
1, None, [] | [1], None, [] | [1, 2], None, [] | [1, 2], "complex64", [3] | 1, None, 3
""")


def compare(text: str, *arguments: Any) -> None:
    """Same message, or the same kind of error, from both libraries' make_tensor_proto."""
    value, dtype, shape = (*arguments, None, None, None)[:3]
    their_dtype = None if dtype is None else tf.as_dtype(dtypes.as_dtype(dtype).as_datatype_enum)
    their_shape = tf.TensorShape(shape.as_list()) if isinstance(shape, TensorShape) else shape
    with np.errstate(all="ignore"):
        try:
            expected = tf.compat.v1.make_tensor_proto(value, their_dtype, their_shape)
        except Exception as error:
            with pytest.raises(
                (ValueError, TypeError)
                if type(error) not in (ValueError, TypeError)
                else type(error)
            ) as raised:
                make_tensor_proto(value, dtype, shape)
            if (
                type(error) in (ValueError, TypeError) and "Expected" in str(error)
            ) or "elements" in str(error):
                assert str(raised.value) == str(error)
            return
        mine = make_tensor_proto(value, dtype, shape)
        assert mine.SerializeToString(deterministic=True) == expected.SerializeToString(
            deterministic=True
        ), text
        array = make_tensor_array(value, dtype, shape)
        assert not array.flags.writeable
        np.testing.assert_array_equal(array, tf.make_ndarray(expected))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("text", VALUES)
def test_values(text: str) -> None:
    compare(text, eval(text))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("text", TYPED)
def test_values_of_a_dtype(text: str) -> None:
    value, _, dtype = text.rpartition(", ")
    compare(text, eval(value), dtype)


@pytest.mark.parametrize("text", SHAPED)
def test_values_of_a_shape(text: str) -> None:
    compare(text, *eval(f"({text})"))


def test_beyond_tensorflow() -> None:
    """Where make_tensor_proto refuses what convert_to_tensor takes."""
    assert (
        make_tensor_array(range(3)).tolist() == [0, 1, 2]
        and make_tensor_array(range(3)).dtype == np.int32
    )
    assert make_tensor_array(TensorShape([2, 3])).dtype == np.int32
    assert make_tensor_array(TensorShape([2**31])).dtype == np.int64
    with pytest.raises(
        ValueError, match=r"Cannot convert a partially known TensorShape \(1, None\) to a Tensor."
    ):
        make_tensor_array(TensorShape([1, None]))
    assert make_tensor_array([np.array([1, 2]), np.array([3, 4])]).shape == (2, 2)
    assert make_tensor_array(np.array([1, 2], ">i4")).tolist() == [1, 2]
    with pytest.raises(TypeError, match=r"Expected Tensor's shape: \(2, 1\), but got \(2,\)."):
        make_tensor_array([1, 2], shape=[2, 1], verify_shape=True)
