"""TensorProto <-> ndarray, and make_ndarray, against TensorFlow's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tensorflow.core.framework import tensor_pb2 as tf_tensor_pb2

from tfjit.framework.errors import InvalidArgumentError
from tfjit.framework.types import dtypes, tensors
from tfjit.framework.types.tensors import make_ndarray, parse_tensor_proto
from tfjit.protos import tensor_pb2

NUMERIC = [d for d in dtypes.ALL if d.is_numpy_compatible and d is not dtypes.string]

# TensorFlow's make_tensor_proto and make_ndarray do not know these.
UNREADABLE = ("float8_e4m3fnuz", "float8_e4m3b11fnuz", "float8_e5m2fnuz")


def theirs_of(ours: Any) -> Any:
    return tf_tensor_pb2.TensorProto.FromString(ours.SerializeToString())


def bits(array: np.ndarray) -> tuple[Any, Any, bytes]:
    """dtype, shape and bytes."""
    return array.dtype, array.shape, np.ascontiguousarray(array).tobytes()


def sample(dtype: dtypes.DType, shape: tuple[int, ...]) -> np.ndarray:
    """An array of every kind of value that the type has."""
    rng = np.random.default_rng(dtype.as_datatype_enum)
    kind = dtype.as_numpy_dtype
    size = int(np.prod(shape))
    if dtype.is_complex:
        values = rng.normal(size=size) + 1j * rng.normal(size=size)
    elif dtype.is_bool:
        values = rng.integers(0, 2, size)
    elif dtype.is_floating:
        values = rng.normal(size=size)
        values[: min(size, 4)] = (
            [0.5, -0.0, np.inf, np.nan][: min(size, 4)] if dtype.size >= 2 else 0.5
        )
    elif dtype.is_quantized:
        width = np.dtype(kind).descr[0][1]
        return rng.integers(0, 100, size).astype(width).view(kind).reshape(shape)
    elif dtype.size == 8:
        values = rng.integers(0, 2**63 - 1, size)
    else:
        low, high = int(dtype.min), int(dtype.max)
        values = rng.integers(low, high, size, endpoint=True)
    return values.astype(kind).reshape(shape)


@pytest.mark.parametrize("dtype", NUMERIC, ids=str)
@pytest.mark.parametrize("shape", [(), (1,), (5,), (2, 3), (0,), (3, 0, 2)], ids=str)
def test_every_dtype_both_ways(dtype: dtypes.DType, shape: tuple[int, ...]) -> None:
    array = sample(dtype, shape)
    proto = tensors.to_proto(array)
    assert bits(tensors.from_proto(proto)) == bits(array)
    if dtype.name not in UNREADABLE:
        assert bits(tf.make_ndarray(theirs_of(proto))) == bits(array)
    # TensorFlow refuses quantised arrays here
    if not dtype.is_quantized and dtype.name not in UNREADABLE:
        expected = tf.compat.v1.make_tensor_proto(array)
        assert proto.SerializeToString(deterministic=True) == expected.SerializeToString(
            deterministic=True
        )


@pytest.mark.parametrize("dtype", NUMERIC, ids=str)
@pytest.mark.parametrize("count", [0, 1, 3, 6, 8])
def test_value_fields_short_and_long(dtype: dtypes.DType, count: int) -> None:
    """Six elements from a value field of some other length, as TensorFlow's runtime reads it."""
    proto = tensor_pb2.TensorProto(dtype=dtype.as_datatype_enum)
    for size in (2, 3):
        proto.tensor_shape.dim.add(size=size)
    values = sample(dtype, (count,))
    if count:
        tensors.append_values(proto, dtype, values)
    mine = tensors.from_proto(proto)
    flat = np.zeros(6, values.dtype)
    flat[:count] = values[:6]
    if 0 < count < 6:
        flat[count:] = values[-1]
    assert bits(mine) == bits(flat.reshape(2, 3))
    if 0 < count <= 6 and dtype.name not in UNREADABLE:
        assert bits(tf.make_ndarray(theirs_of(proto))) == bits(mine)


def test_runtime_reads_the_same() -> None:
    cases = [
        "dtype: DT_FLOAT tensor_shape {dim {size: 2}} float_val: 1",
        "dtype: DT_FLOAT tensor_shape {dim {size: 2}}",
        "dtype: DT_FLOAT tensor_shape {dim {size: 3}} float_val: 1 float_val: 2",
        "dtype: DT_INT8 tensor_shape {dim {size: 2}} int_val: 300",
        "dtype: DT_UINT16 tensor_shape {dim {size: 2}} int_val: -1",
        "dtype: DT_STRING tensor_shape {dim {size: 2}} string_val: 'a'",
        "dtype: DT_FLOAT tensor_shape {dim {size: 1}} float_val: 1 float_val: 2",
        "dtype: DT_HALF tensor_shape {dim {size: 1}} half_val: 15360",
        "dtype: DT_BFLOAT16 tensor_shape {dim {size: 2}} half_val: 16256",
        "dtype: DT_COMPLEX64 tensor_shape {dim {size: 2}} scomplex_val: 1 scomplex_val: 2",
        "dtype: DT_STRING tensor_shape {}",
        "dtype: DT_STRING tensor_shape {dim {size: 2}}",
        "dtype: DT_BOOL tensor_shape {dim {size: 3}} bool_val: true bool_val: false",
        "dtype: DT_FLOAT tensor_shape {unknown_rank: true} float_val: 3",
        "dtype: DT_FLOAT tensor_shape {unknown_rank: true}",
        "dtype: DT_FLOAT tensor_shape {dim {size: 0}} float_val: 3",
        "dtype: DT_FLOAT float_val: 1 float_val: 2",
        "dtype: DT_UINT64 tensor_shape {dim {size: 2}} uint64_val: 18446744073709551615",
        "dtype: DT_FLOAT tensor_shape {dim {size: 2}} int_val: 7",
    ]
    with tf.Graph().as_default():
        expected = []
        for text in cases:
            proto = text_format.Parse(text, tf_tensor_pb2.TensorProto())
            graph_def = tf.compat.v1.GraphDef()
            node = graph_def.node.add(name="c", op="Const")
            node.attr["dtype"].type = proto.dtype
            node.attr["value"].tensor.CopyFrom(proto)
            expected.extend(tf.import_graph_def(graph_def, return_elements=["c:0"]))
        with tf.compat.v1.Session() as session:
            values = session.run(expected)
    for text, value in zip(cases, values):
        mine = tensors.from_proto(text_format.Parse(text, tensor_pb2.TensorProto()))
        value = np.asarray(value, dtype=object) if isinstance(value, bytes) else np.asarray(value)
        assert mine.dtype == value.dtype and mine.shape == value.shape, text
        np.testing.assert_array_equal(mine, value, err_msg=text)


BAD = {
    "short content": (
        "dtype: DT_FLOAT tensor_shape {dim {size: 2}} tensor_content: 'abcd'",
        "tensor_content has 4 bytes, but float of shape \\[2\\] takes 8",
    ),
    "long content": (
        "dtype: DT_FLOAT tensor_shape {dim {size: 2}} tensor_content: 'abcdefghijkl'",
        "has 12 bytes",
    ),
    "content of no elements": (
        "dtype: DT_FLOAT tensor_shape {dim {size: 0}} tensor_content: 'abcd'",
        "has 4 bytes",
    ),
    "unknown size": (
        "dtype: DT_FLOAT tensor_shape {dim {size: -1}} float_val: 1",
        "Shape \\[\\?\\] is not fully defined",
    ),
    "negative size": (
        "dtype: DT_FLOAT tensor_shape {dim {size: -3}} float_val: 1",
        "Shape \\[-3\\] is not fully defined",
    ),
    "huge": (
        "dtype: DT_FLOAT tensor_shape {dim {size: 1000000000} dim {size: 1000000000} dim {size: "
        "1000000000}}",
        "is too large",
    ),
    "large": (
        "dtype: DT_FLOAT tensor_shape {dim {size: 10000000} dim {size: 10000000}} float_val: 1",
        "is too large",
    ),
    "no dtype": ("tensor_shape {dim {size: 2}}", "unknown dtype 0"),
    "strings in content": (
        "dtype: DT_STRING tensor_shape {dim {size: 2}} tensor_content: 'ab'",
        "does not have the lengths and bytes of 2 strings",
    ),
    "a string beyond the content": (
        r"dtype: DT_STRING tensor_shape {dim {size: 2}} tensor_content: '\001\002ab'",
        "does not have the lengths and bytes of 2 strings",
    ),
    "a length without an end": (
        r"dtype: DT_STRING tensor_shape {dim {size: 1}} tensor_content: '" + r"\377" * 30 + "'",
        "does not have the lengths and bytes of 1 strings",
    ),
    "fewer lengths than strings": (
        r"dtype: DT_STRING tensor_shape {dim {size: 1000000000000}} tensor_content: '\000'",
        "does not have the lengths and bytes",
    ),
}


@pytest.mark.parametrize("case", BAD, ids=BAD)
def test_bad_messages(case: str) -> None:
    text, message = BAD[case]
    with pytest.raises(InvalidArgumentError, match=message):
        tensors.from_proto(text_format.Parse(text, tensor_pb2.TensorProto()))


def test_strings_in_a_content() -> None:
    """TensorFlow's client on a cluster sends large constants so."""
    proto = tensor_pb2.TensorProto(dtype=7)  # type: ignore[arg-type]  # the stub wants the enum
    proto.tensor_shape.dim.add(size=3)
    proto.tensor_content = b"\x02\x00\xc8\x01" + b"ab" + b"x" * 200
    assert tensors.from_proto(proto).tolist() == [b"ab", b"", b"x" * 200]


def test_content_is_not_copied_again() -> None:
    proto = tensors.to_proto(np.zeros(1 << 16))
    array = tensors.from_proto(proto)
    assert not array.flags.writeable and isinstance(array.base, np.ndarray | bytes)
    copy = make_ndarray(proto)
    assert copy.flags.writeable


def test_resources_and_variants_are_carried() -> None:
    proto = tensor_pb2.TensorProto(dtype=21)
    proto.variant_val.add(type_name="x")
    opaque = tensors.from_proto(proto)
    assert isinstance(opaque, tensors.OpaqueTensor) and opaque.dtype is dtypes.variant
    assert tensors.to_proto(opaque) == proto
    with pytest.raises(TypeError, match="variant has no NumPy form"):
        make_ndarray(proto)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(
        [
            np.float32,
            np.float64,
            np.int8,
            np.int32,
            np.int64,
            np.uint16,
            np.uint64,
            np.bool_,
            np.complex64,
            np.float16,
        ]
    ),
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
    st.data(),
)
def test_round_trip(kind: Any, shape: tuple[int, ...], data: st.DataObject) -> None:
    array = data.draw(hnp.arrays(kind, shape))
    proto = tensors.to_proto(array)
    assert bits(
        tensors.from_proto(tensor_pb2.TensorProto.FromString(proto.SerializeToString()))
    ) == bits(array)
    assert bits(tf.make_ndarray(theirs_of(proto))) == bits(array)
    strided = array[::-1] if array.ndim else array
    assert bits(tensors.from_proto(tensors.to_proto(strided))) == bits(strided)


@given(st.lists(st.binary(max_size=5), max_size=5))
def test_strings_round_trip(values: list[bytes]) -> None:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    assert tensors.from_proto(tensors.to_proto(array)).tolist() == values


@given(st.binary(max_size=60))
def test_any_bytes_give_an_array_or_an_error(data: bytes) -> None:
    try:
        proto = parse_tensor_proto(data)
    except InvalidArgumentError:
        return
    try:
        value = tensors.from_proto(proto)
    except InvalidArgumentError:
        return
    assert isinstance(value, np.ndarray | tensors.OpaqueTensor)


def test_frozen_arrays() -> None:
    array = np.arange(6.0).reshape(2, 3)
    kept = tensors.frozen(array)
    assert kept is not array and not kept.flags.writeable
    assert tensors.frozen(kept) is kept
    view = array.view()
    view.setflags(write=False)
    array[0, 0] = 5
    again = tensors.frozen(view)  # its base can be written to
    array[0, 0] = 7
    assert again[0, 0] == 5
    assert tensors.frozen(kept.T).flags.c_contiguous
    assert tensors.frozen(np.array(["a"])).tolist() == [b"a"]
    with pytest.raises(TypeError, match="Expected binary or unicode string, got 1"):
        tensors.frozen(np.array([1], object))


def test_summaries_are_the_runtimes() -> None:
    assert (
        tensors.summarize(np.arange(3, dtype=np.float32))
        == "Tensor<type: float shape: [3] values: 0 1 2>"
    )
    assert tensors.summarize(np.array(5, np.int32)) == "Tensor<type: int32 shape: [] values: 5>"
