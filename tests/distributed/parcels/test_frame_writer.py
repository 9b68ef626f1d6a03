"""Frames are written whole and in order, whoever has the socket meanwhile."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from tests.waiting import wait_until
from tfjit.distributed.parcels.frame_writer import BrokenConnection, FrameWriter


@pytest.fixture
def pair() -> Iterator[tuple[FrameWriter, socket.socket]]:
    a, b = socket.socketpair(socket.AF_UNIX)
    b.settimeout(10)
    yield FrameWriter(a), b
    a.close()
    b.close()


def test_what_comes_while_another_thread_writes_is_written_behind(
    pair: tuple[FrameWriter, socket.socket],
) -> None:
    """Neither a frame nor a notice waits for the thread, nor for one another."""
    writer, other = pair
    with writer._writing:
        writer.write_soon([b"first"])
        writer.tell(b"notice")
        writer.write_soon([b"second", b"third"])
        writer.tell(b"another")
    writer.write([b"last"])
    assert other.recv(100) == b"firstsecondthirdlastnoticeanother"


def test_a_full_socket_keeps_no_thread_waiting(pair: tuple[FrameWriter, socket.socket]) -> None:
    writer, other = pair
    large = b"x" * (1 << 20)
    writer.write_soon([large])  # a thread waits for the reader
    for n in range(3):
        writer.tell(b"%d" % n)
        writer.write_soon([b"frame"])
    found = b""
    while len(found) < len(large) + 3 + 15:
        found += other.recv(1 << 20)
    assert found[: len(large)] == large
    assert found[len(large) :].replace(b"frame", b"") == b"012"
    wait_until(lambda: not writer._writing.locked())


def test_notices_to_a_full_socket_are_kept(pair: tuple[FrameWriter, socket.socket]) -> None:
    writer, other = pair
    told = 0
    while not writer._notices:
        writer.tell(b"n" * 40)
        told += 1
    for _ in range(5):
        writer.tell(b"n" * 40)
    assert len(writer._notices) == 6
    read = len(other.recv(1 << 24))
    writer.write([b"frame"])
    while read < 40 * (told + 5) + 5:
        read += len(other.recv(1 << 24))
    assert not writer._notices


def test_the_other_end_goes(pair: tuple[FrameWriter, socket.socket]) -> None:
    writer, other = pair
    other.close()
    writer.tell(b"notice")
    assert not writer._notices
    writer.write_soon([b"frame"])
    with pytest.raises(BrokenConnection, match="is broken"):
        writer.write_soon([b"frame"])
    with pytest.raises(BrokenConnection):
        writer.write([b"frame"])
