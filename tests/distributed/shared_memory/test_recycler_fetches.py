"""Fetches from a server of another process: the client's own, in memory that is used again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tfjit as tf
from tests.distributed.task_processes import TaskProcess
from tests.ports import free_ports
from tests.waiting import wait_until
from tfjit.distributed.shared_memory import importer
from tfjit.distributed.shared_memory.importer import Importer

COUNT = 1 << 18
BYTES = 4 * COUNT


@pytest.fixture(scope="module")
def server() -> Iterator[TaskProcess]:
    made = TaskProcess("tfjit", free_ports(1), 0)
    made.start({"TFJIT_JIT": "off"})
    made.wait_until_ready()
    yield made
    made.kill()


@pytest.fixture
def session(server: TaskProcess) -> Iterator[Any]:
    """A session with a variable of 1 MB, its `value` and `double`, and `add`, which adds 1."""
    with tf.Graph().as_default():
        v = tf.Variable(tf.fill([COUNT], 1.0), use_resource=True, name="v")
        tf.group(tf.assign_add(v, tf.ones([COUNT])), name="add")
        tf.identity(v.read_value(), name="value")
        double = tf.multiply(v.read_value(), 2.0, name="double")
        tf.reshape(double, [2, COUNT // 2], name="reshaped")
        with tf.Session(server.target) as made:
            made.run(v.initializer)
            yield made


def blocks(server: TaskProcess) -> int:
    """Return the number of large blocks that a process has open."""
    found = 0
    folder = f"/proc/{server.pid}/fd"
    for name in os.listdir(folder):
        try:
            is_block = "memfd:tfjit" in os.readlink(f"{folder}/{name}")
            found += is_block and os.stat(f"{folder}/{name}").st_size >= BYTES
        except FileNotFoundError:  # closed meanwhile
            continue
    return found


def is_lent(array: np.ndarray) -> bool:
    """Return whether an array is in a block of the server."""
    address = array.ctypes.data
    return any(
        borrowed.map.address <= address < borrowed.map.address + borrowed.map.capacity
        for reader in Importer._all
        for borrowed in reader._borrowed.values()
    )


def test_a_value_stays_as_it_is(session: Any) -> None:
    first = session.run("value:0")
    assert is_lent(first) and first.flags.writeable
    session.run("add")
    second = session.run("value:0")
    assert (first == 1).all() and (second == 2).all()
    second[:] = -1
    third, double = session.run(["value:0", "double:0"])
    assert (third == 2).all() and (double == 4).all()
    assert is_lent(third) and is_lent(double)
    del first
    later = [session.run("double:0") for _ in range(3)]
    assert (second == -1).all() and (third == 2).all() and (double == 4).all()
    assert all((value == 4).all() for value in later)


def test_two_fetches_of_one_value_are_two_arrays(session: Any) -> None:
    first, second, third = session.run(["double:0", "reshaped:0", "value:0"])
    first[:] = 7
    assert second.shape == (2, COUNT // 2) and (second == 2).all() and (third == 1).all()


def test_memory_is_used_again(session: Any, server: TaskProcess) -> None:
    places, before = set(), blocks(server)
    for _ in range(10):
        value = session.run("double:0")
        places.add(value.ctypes.data)
        assert is_lent(value)
    assert len(places) <= 3
    assert blocks(server) <= before + 3


def test_the_blocks_that_a_client_has_are_limited(
    session: Any, server: TaskProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importer, "_OWN_BYTES", 4 * BYTES)
    kept = [session.run("double:0") for _ in range(12)]
    assert sum(map(is_lent, kept)) == 4
    assert blocks(server) <= 8
    assert all(value.flags.writeable and (value == 2).all() for value in kept)


def test_arrays_outlive_their_session(server: TaskProcess) -> None:
    with tf.Graph().as_default():
        v = tf.Variable(tf.fill([COUNT], 1.0), use_resource=True, name="other")
        with tf.Session(server.target) as session:
            session.run(v.initializer)
            value = session.run(v.read_value())
        with tf.Session(server.target) as session:
            later = [session.run(v.read_value() + 2.0) for _ in range(3)]
    assert (value == 1).all() and all((a == 3).all() for a in later)
    value += 1
    assert (value == 2).all()


_CLIENT = """
import sys
import tfjit as tf
x = tf.fill([1 << 20], 3.0)
session = tf.Session(sys.argv[1])
kept = [session.run(x * float(n)) for n in range(5)]
print("has", len(kept), flush=True)
sys.stdin.readline()
"""


def test_a_killed_client_gives_its_blocks_back(session: Any, server: TaskProcess) -> None:
    session.run("value:0")  # this process stays connected
    before = blocks(server)
    client = subprocess.Popen(
        [sys.executable, "-c", _CLIENT, server.target],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert client.stdout is not None
    assert client.stdout.readline() == "has 5\n"
    assert blocks(server) >= before + 5
    client.send_signal(signal.SIGKILL)
    client.communicate()
    wait_until(lambda: blocks(server) <= before + 2)
