"""Bytes and values that no honest peer sends get an error, and the server answers the next call."""

from __future__ import annotations

from typing import Any

import grpc
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.distributed.server.fakes import Task, echo_request
from tfjit import protos
from tfjit.distributed.protocol.methods import MASTER, WORKER, method_names, path, request_class
from tfjit.distributed.protocol.tensors import to_proto
from tfjit.distributed.server.requests import value_of
from tfjit.framework import errors
from tfjit.framework.types import dtypes

METHODS = [(service, name) for service in (MASTER, WORKER) for name in method_names(service)]
FEW = settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def send(task: Task, service: str, method: str, data: bytes) -> Any:
    """Call with any bytes; return the answer's bytes, or the call's error."""
    with grpc.insecure_channel(task.address) as channel:
        try:
            return channel.unary_unary(path(service, method))(data, timeout=60)
        except grpc.RpcError as error:
            return error


@pytest.mark.parametrize(("service", "method"), METHODS)
def test_garbage_is_refused(task: Task, service: str, method: str) -> None:
    """A field with a wire type that does not exist parses as no message."""
    error = send(task, service, method, b"\x0f" * 20)
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert f"20 bytes as {method}Request" in error.details()


@FEW
@given(st.data())
@pytest.mark.parametrize(("service", "method"), METHODS)
def test_any_bytes_are_answered(task: Task, service: str, method: str, data: st.DataObject) -> None:
    if method == "RecvTensor":  # would wait for a tensor, as it should
        task.worker.error = errors.AbortedError(None, None, "no")
    message = request_class(method)()
    if hasattr(message, "session_handle"):
        message.session_handle = data.draw(st.text(st.characters(codec="utf-8"), max_size=5))
    if method == "RunStep":
        message.feed.add().tensor.CopyFrom(to_proto(np.arange(3)))
    encoded = bytearray(message.SerializeToString() + data.draw(st.binary(max_size=30)))
    for _ in range(data.draw(st.integers(0, 3)) if encoded else 0):
        encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(st.integers(0, 255))
    answer = send(task, service, method, bytes(encoded))
    assert isinstance(answer, bytes) or answer.code() not in (
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.UNAVAILABLE,
    )
    assert send(task, WORKER, "GetStatus", b"")


@pytest.mark.parametrize(
    "shape", [(1 << 40,), (1 << 62, 1 << 62), (1 << 31, 1 << 31, 0), (-1,), (1 << 15, 1 << 17)]
)
@pytest.mark.parametrize("dtype", ["DT_FLOAT", "DT_STRING", "DT_INT4", "DT_BOOL"])
def test_shapes_whose_contents_are_missing(task: Task, shape: tuple[int, ...], dtype: str) -> None:
    request = protos.RunStepRequest(fetch=["x:0"])
    fed = request.feed.add()
    fed.name = "x:0"
    fed.tensor.dtype = protos.DataType.Value(dtype)
    for size in shape:
        fed.tensor.tensor_shape.dim.add().size = size
    if dtype == "DT_FLOAT":
        fed.tensor.float_val.append(1.0)
    with pytest.raises(errors.InvalidArgumentError):
        task.call(MASTER, "RunStep", request)
    task.call(MASTER, "RunStep", echo_request(np.float32(1)))


def test_padded_values_of_usual_size() -> None:
    proto = protos.TensorProto(dtype=dtypes.float32.as_datatype_enum, float_val=[2.0])
    proto.tensor_shape.dim.add().size = 1000
    np.testing.assert_array_equal(value_of(proto), np.full(1000, 2.0))
    np.testing.assert_array_equal(value_of(to_proto(np.arange(5))), np.arange(5))


def test_unknown_types() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="unknown dtype 999"):
        value_of(protos.TensorProto.FromString(b"\x08\xe7\x07"))


def test_a_wrong_content_of_a_graphs_feed(task: Task) -> None:
    """The error is in the answer's body, where the master asks for it."""
    request = protos.RunGraphRequest(store_errors_in_response_body=True)
    fed = request.send.add()
    fed.tensor.dtype = protos.DataType.Value("DT_FLOAT")
    fed.tensor.tensor_content = b"123"
    answer = task.call(WORKER, "RunGraph", request)
    assert answer.status_code == errors.INVALID_ARGUMENT and not task.worker.calls


def test_a_flood_of_calls(task: Task) -> None:
    """2,000 calls at once, every other one garbage."""
    with grpc.insecure_channel(task.address) as channel:
        call = channel.unary_unary(path(MASTER, "RunStep"))
        good = echo_request(np.float32(1)).SerializeToString()
        futures = [
            call.future(b"\x0f" if number % 2 else good, timeout=60) for number in range(2000)
        ]
        codes = [future.code() for future in futures]
    assert codes[::2] == [grpc.StatusCode.OK] * 1000
    assert codes[1::2] == [grpc.StatusCode.INVALID_ARGUMENT] * 1000
