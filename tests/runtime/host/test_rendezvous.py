"""Rendezvous keys and the local rendezvous."""

from __future__ import annotations

from typing import Any

import pytest

from tfjit.framework.errors import AbortedError, InvalidArgumentError
from tfjit.runtime.host.rendezvous import LocalRendezvous, create_key, parse_key

CPU0 = "/job:localhost/replica:0/task:0/device:CPU:0"
CPU1 = "/job:localhost/replica:0/task:0/device:CPU:1"


def test_keys_have_tensorflows_form() -> None:
    key = create_key(CPU0, 0x8F83F02E50E0E3F2, CPU1, "edge_5_a")
    assert key == f"{CPU0};8f83f02e50e0e3f2;{CPU1};edge_5_a;0:0"
    parsed = parse_key(key)
    assert (parsed.src_device, parsed.src_incarnation, parsed.edge_name, parsed.frame) == (
        CPU0,
        0x8F83F02E50E0E3F2,
        "edge_5_a",
        "0:0",
    )
    assert str(parsed) == key


@pytest.mark.parametrize(
    "key", ["", "a;b", f"{CPU0};12;{CPU1};e;0:0", f"{CPU0};zzzzzzzzzzzzzzzz;{CPU1};e;0:0"]
)
def test_other_forms_are_refused(key: str) -> None:
    with pytest.raises(InvalidArgumentError, match="Invalid  rendezvous key: "):
        parse_key(key)


def test_values_meet_whoever_comes_first() -> None:
    rendezvous = LocalRendezvous()
    got: list[Any] = []
    rendezvous.receive("k", lambda error, value, dead: got.append((error, value, dead)))
    assert not got
    rendezvous.send("k", 1)
    rendezvous.send("k", 2, is_dead=True)
    rendezvous.receive("k", lambda error, value, dead: got.append((error, value, dead)))
    assert got == [(None, 1, False), (None, 2, True)]


def test_abort_fails_those_who_wait_and_those_who_come() -> None:
    rendezvous = LocalRendezvous()
    got: list[Any] = []
    rendezvous.receive("k", lambda error, value, dead: got.append(error))
    error = AbortedError(None, None, "gone")
    rendezvous.abort(error)
    rendezvous.receive("other", lambda e, value, dead: got.append(e))
    assert got == [error, error]
    with pytest.raises(AbortedError):
        rendezvous.send("k", 1)
