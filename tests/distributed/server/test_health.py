"""Health is answered as the service's definition says."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.distributed.server.fakes import Task
from tfjit.distributed.protocol.methods import MASTER
from tfjit.distributed.protocol.wire import varint
from tfjit.distributed.server.health import METHOD, SERVICE, answer
from tfjit.framework import errors


def request(service: str) -> bytes:
    return b"\x0a" + varint(len(service.encode())) + service.encode()


@pytest.mark.parametrize("service", ["", MASTER, SERVICE])
def test_known_services(service: str) -> None:
    assert answer(request(service), lambda: True) == b"\x08\x01"
    assert answer(request(service), lambda: False) == b"\x08\x02"


def test_an_unknown_service() -> None:
    with pytest.raises(errors.NotFoundError, match="'a.b'"):
        answer(request("a.b"), lambda: True)


def test_a_server_is_healthy_until_it_stops(task: Task) -> None:
    import grpc

    with grpc.insecure_channel(task.address) as channel:
        check = channel.unary_unary(f"/{SERVICE}/{METHOD}")
        assert check(b"", timeout=60) == b"\x08\x01"
        task.services.activity.is_draining = True
        assert check(b"", timeout=60) == b"\x08\x02"


@given(st.binary(max_size=20))
def test_any_bytes(data: bytes) -> None:
    with contextlib.suppress(errors.NotFoundError, errors.InvalidArgumentError):
        assert answer(data, lambda: True) == b"\x08\x01"
