"""Requests and answers in bytes are those of protobuf; other bytes are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tfjit import protos
from tfjit.distributed.protocol.interfaces import StepCall
from tfjit.distributed.protocol.tensors import fill, from_proto
from tfjit.distributed.session import step_messages
from tfjit.framework import errors
from tfjit.framework.types import dtypes


def texts(*items: bytes) -> np.ndarray:
    made = np.empty(len(items), object)
    made[:] = items
    return made


VALUES: list[Any] = [
    np.float32(2.5),
    b"scalar",
    np.arange(6, dtype=np.int16).reshape(2, 3)[:, ::2],
    np.zeros((0, 3), np.float64),
    np.array([True, False]),
    np.array([1, 2], dtypes.bfloat16.as_numpy_dtype),
    np.array([1 + 2j], np.complex64),
    texts(b"", b"\xff" * 200, b"c"),
    np.arange(50_000, dtype=np.float32),
]


def test_a_request_is_the_message() -> None:
    options = protos.RunOptions(timeout_in_ms=5)
    feeds = [(f"x{i}:0", value) for i, value in enumerate(VALUES)]
    call = StepCall("session", feeds, ["y:0", "z:1"], ["t"], options, "partial", 1 << 61)
    message = protos.RunStepRequest.FromString(step_messages.step_request(call))
    assert (message.session_handle, message.partial_run_handle) == ("session", "partial")
    assert (list(message.fetch), list(message.target)) == (["y:0", "z:1"], ["t"])
    assert message.options == options and message.request_id == 1 << 61
    assert message.store_errors_in_response_body
    for (name, value), fed in zip(feeds, message.feed, strict=True):
        assert fed.name == name
        np.testing.assert_array_equal(from_proto(fed.tensor), value)
    data = step_messages.callable_request("session", 3, VALUES, 9)
    other = protos.RunCallableRequest.FromString(data)
    assert (other.session_handle, other.handle, other.request_id) == ("session", 3, 9)
    for value, tensor in zip(VALUES, other.feed, strict=True):
        np.testing.assert_array_equal(from_proto(tensor), value)


@pytest.mark.parametrize("count", [len(VALUES) - 1, len(VALUES)])
def test_values_of_short_and_long_answers(count: int) -> None:
    step, called = protos.RunStepResponse(), protos.RunCallableResponse()
    for i, value in enumerate(VALUES[:count]):
        named = step.tensor.add()
        named.name = f"y{i}:0"
        fill(named.tensor, value)
        fill(called.fetch.add(), value)
    step.status_error_message = "text"
    called.metadata.step_stats.dev_stats.add().device = "d"
    names, values, message = step_messages.step_answer(step.SerializeToString())
    assert names == [f"y{i}:0" for i in range(count)] and message.status_error_message == "text"
    others, about = step_messages.callable_answer(called.SerializeToString())
    assert about.metadata.step_stats.dev_stats[0].device == "d"
    for one, other, value in zip(values, others, VALUES, strict=False):
        np.testing.assert_array_equal(one, value)
        np.testing.assert_array_equal(other, value)
        assert one.dtype == other.dtype == np.asarray(one).dtype


@pytest.mark.parametrize("padding", [0, 1 << 17])
@pytest.mark.parametrize("data", [b"\x0a\x7f", b"\xff" * 20, b"\x0a\x02\x12\x7f", b"\x0b"])
def test_other_bytes_are_refused(data: bytes, padding: int) -> None:
    # the padding is an unknown field, which long answers have too
    filler = b"\xfa\x07" + b"\x80\x80\x08" + bytes(padding) if padding else b""
    for parse in (step_messages.step_answer, step_messages.callable_answer):
        with pytest.raises((errors.InternalError, errors.InvalidArgumentError)):
            parse(filler + data)


@pytest.mark.parametrize("padding", [0, 1 << 17])
@pytest.mark.parametrize(
    ("dtype", "sizes", "content"),
    [
        (1, [3], b"12345678"),
        (1, [-1], b"1234"),
        (7, [2], b"\x01\x05ab"),
        (7, [1 << 40], b"\x01a"),
        (7, [1], b"\xff"),
        (99, [1], b"1234"),
    ],
)
def test_contents_that_do_not_fit_are_refused(
    dtype: int, sizes: list[int], content: bytes, padding: int
) -> None:
    answer = protos.RunStepResponse(status_error_message=" " * padding)
    tensor = answer.tensor.add().tensor
    tensor.dtype = dtype
    tensor.tensor_content = content
    for size in sizes:
        tensor.tensor_shape.dim.add().size = size
    with pytest.raises(errors.InvalidArgumentError):
        step_messages.step_answer(answer.SerializeToString())


def test_strings_as_tensorflow_packs_them() -> None:
    tensor = protos.TensorProto(dtype=7, tensor_content=b"\x00\x02\xc8\x01ab" + b"c" * 200)
    for size in (1, 3):
        tensor.tensor_shape.dim.add().size = size
    assert from_proto(tensor).tolist() == [[b"", b"ab", b"c" * 200]]
