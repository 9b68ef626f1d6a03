"""Answers to RecvBuf, as their bytes and as messages."""

from __future__ import annotations

import numpy as np
import pytest

from tfjit import protos
from tfjit.distributed.parcels.buffers import decode_buffer, elements, encode_buffer
from tfjit.distributed.parcels.parcels import Parcel
from tfjit.framework import errors


@pytest.mark.parametrize("count", [0, 1, 100, 70_000])
def test_bytes_are_those_of_the_message(count: int) -> None:
    value = np.arange(count, dtype=np.float32)
    data = encode_buffer(value)
    answer = protos.RecvBufResponse.FromString(data)
    extra = protos.RecvBufRespExtra(tensor_content=[value.tobytes()])
    assert answer.transport_options.type_url.endswith("/tensorflow.RecvBufRespExtra")
    assert answer.transport_options.value == extra.SerializeToString()
    np.testing.assert_array_equal(decode_buffer(data).view(np.float32), value)


def test_pieces_are_joined() -> None:
    answer = protos.RecvBufResponse()
    answer.transport_options.type_url = "type.googleapis.com/tensorflow.RecvBufRespExtra"
    extra = protos.RecvBufRespExtra(tensor_content=[b"ab", b"", b"c"])
    answer.transport_options.value = extra.SerializeToString()
    assert decode_buffer(answer.SerializeToString()).tobytes() == b"abc"
    assert decode_buffer(b"").size == decode_buffer(None).size == 0


def test_elements_beside_a_message() -> None:
    value = np.arange(6, dtype=np.int64).reshape(2, 3).T
    parcel = Parcel(protos.RecvBufResponse(), [elements(value)])
    assert decode_buffer(parcel).tobytes() == value.tobytes()


def test_faulty_answers() -> None:
    answer = protos.RecvBufResponse()
    answer.transport_options.type_url = "type.googleapis.com/some.Other"
    for data in (answer.SerializeToString(), b"\xff\xff"):
        with pytest.raises(errors.InternalError, match="Could not parse the answer to RecvBuf"):
            decode_buffer(data)
