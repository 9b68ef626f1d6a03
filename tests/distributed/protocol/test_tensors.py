"""Values travel unchanged, and the bytes of an answer to RecvTensor are an ordinary message."""

from __future__ import annotations

import contextlib
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfjit import protos
from tfjit.distributed.protocol.tensors import (
    decode_received,
    encode_received,
    from_proto,
    to_proto,
)
from tfjit.framework import errors
from tfjit.runtime.kernel_api.op_kernel import DEAD

TYPES = (
    *(np.float16, np.float32, np.float64, np.int8, np.int16, np.int32, np.int64, np.uint8),
    *(np.uint16, np.uint32, np.uint64, np.bool_, np.complex64, np.complex128),
    *(ml_dtypes.bfloat16, ml_dtypes.float8_e5m2, ml_dtypes.int4),
)
SHAPES = ((), (1,), (0,), (3,), (2, 0, 4), (2, 3, 5), (1, 1))


def drawn(dtype: Any, shape: tuple[int, ...]) -> np.ndarray:
    values = np.random.default_rng(3).integers(-8, 8, shape)
    return np.asarray(values).astype(dtype)


def same(a: Any, b: Any) -> None:
    assert a.dtype == b.dtype and a.shape == b.shape
    assert a.tobytes() == b.tobytes() if a.dtype != object else a.tolist() == b.tolist()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", TYPES, ids=lambda t: np.dtype(t).name)
def test_values_travel(dtype: Any, shape: tuple[int, ...]) -> None:
    value = drawn(dtype, shape)
    same(from_proto(to_proto(value)), value)
    data = encode_received(value, False)
    got, is_dead = decode_received(data)
    assert not is_dead
    same(got, value)
    message = protos.RecvTensorResponse.FromString(data)
    assert message.send_start_micros > 0
    same(from_proto(message.tensor), value)
    # the same message as protobuf encodes it
    got, is_dead = decode_received(message.SerializeToString())
    same(got, value)


def test_floats_keep_their_bits() -> None:
    value = np.array([np.nan, -0.0, np.inf, -np.inf, 1e-42], np.float32)
    same(decode_received(encode_received(value, False))[0], value)


def test_strided_values() -> None:
    value = np.arange(24, dtype=np.float32).reshape(4, 6)[::2, ::3]
    same(decode_received(encode_received(value, False))[0], value)


def test_strings() -> None:
    for value in (
        np.array([b"", b"x\0y", b"z" * 300], object),
        np.array(b"scalar", object),
        np.empty((0, 2), object),
    ):
        same(decode_received(encode_received(value, False))[0], value)


def test_scalars_in_the_form_of_results() -> None:
    assert from_proto(to_proto(np.float32(1.5))) == np.float32(1.5)
    assert from_proto(to_proto(b"x")).item() == b"x"


def test_dead_tensors() -> None:
    for data in (
        encode_received(DEAD, True),
        protos.RecvTensorResponse(is_dead=True).SerializeToString(),
    ):
        value, is_dead = decode_received(data)
        assert value is DEAD and is_dead


def test_elements_are_not_copied() -> None:
    data = encode_received(np.arange(1000, dtype=np.float32), False)
    value, _ = decode_received(data)
    base = value
    while isinstance(base, np.ndarray):
        base = base.base
    assert base is data


@pytest.mark.parametrize("size", [-1, 1])
def test_shape_and_elements_that_do_not_fit(size: int) -> None:
    message = protos.RecvTensorResponse()
    message.tensor.dtype = protos.DataType.Value("DT_FLOAT")
    message.tensor.tensor_shape.dim.add().size = 4
    message.tensor.tensor_content = bytes(16 + size * 4)
    with pytest.raises(errors.InvalidArgumentError):
        decode_received(message.SerializeToString())


@given(st.binary(max_size=60))
def test_any_bytes_give_a_value_or_an_error(data: bytes) -> None:
    with contextlib.suppress(errors.OpError):
        decode_received(data)


@given(st.data())
def test_damaged_messages_give_a_value_or_an_error(data: st.DataObject) -> None:
    encoded = bytearray(encode_received(np.arange(5, dtype=np.int32), False))
    for _ in range(data.draw(st.integers(1, 3))):
        encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(errors.OpError):
        decode_received(bytes(encoded[: data.draw(st.integers(0, len(encoded)))]))


@pytest.mark.parametrize(
    ("content", "expected"),
    [(b"\x01\x02xyz", [b"x", b"yz"]), (b"\x00\x03abc", [b"", b"abc"])],
)
def test_strings_in_the_content_as_tensorflow_answers(
    content: bytes, expected: list[bytes]
) -> None:
    message = protos.TensorProto(tensor_content=content)
    message.dtype = protos.DataType.Value("DT_STRING")
    message.tensor_shape.dim.add().size = 2
    assert from_proto(message).tolist() == expected
    for wrong in (content[:-1], content + b"x", b"\x01"):
        message.tensor_content = wrong
        with pytest.raises(
            errors.InvalidArgumentError, match="does not have the lengths and bytes"
        ):
            from_proto(message)
