"""Frames arrive whole, through the socket or shared memory; what is no frame ends a connection."""

from __future__ import annotations

import contextlib
import gc
import socket
import threading
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.waiting import wait_until
from tfjit.distributed.protocol import shared_memory
from tfjit.distributed.protocol.frames import ANSWER, REQUEST, BrokenConnection, Connection, Frame
from tfjit.distributed.protocol.local_channel import shake_hands


def greet(made: tuple[Connection, Connection]) -> None:
    other = threading.Thread(target=shake_hands, args=(made[1], {}))
    other.start()
    shake_hands(made[0], {})
    other.join()


@pytest.fixture
def apart() -> Iterator[tuple[Connection, Connection]]:
    """Two ends that share no memory."""
    a, b = socket.socketpair(socket.AF_UNIX)
    made = Connection(a), Connection(b)
    yield made
    for end in made:
        end.close()


@pytest.fixture
def sharing(apart: tuple[Connection, Connection]) -> tuple[Connection, Connection]:
    """Two ends that have found out that they can."""
    greet(apart)
    assert apart[0].shares_memory and apart[1].shares_memory
    return apart


@pytest.fixture(params=["apart", "sharing"])
def ends(request: pytest.FixtureRequest) -> tuple[Connection, Connection]:
    return request.getfixturevalue(request.param)


def sent(ends: tuple[Connection, Connection], message: bytes, arrays: list[np.ndarray]) -> Frame:
    """Send a frame, and return it as it arrives."""
    sender = threading.Thread(target=ends[0].send, args=(REQUEST, 7, 1 << 60, message, arrays))
    sender.start()
    frame = ends[1].receive()
    sender.join()
    assert (frame.kind, frame.method, frame.call) == (REQUEST, 7, 1 << 60)
    return frame


def test_frames_arrive(ends: tuple[Connection, Connection]) -> None:
    rng = np.random.default_rng(0)
    for sizes in ([], [0], [1, 64, 5], [1 << 16], [shared_memory.MIN_BYTES, 3, 3 << 20]):
        for length in (0, 10, 1 << 16, 200_000):
            arrays = [rng.integers(0, 255, size).astype(np.uint8) for size in sizes]
            frame = sent(ends, b"m" * length, arrays)
            assert frame.message == b"m" * length
            for a, b in zip(frame.arrays, arrays, strict=True):
                assert np.array_equal(a, b)


def test_many_arrays(ends: tuple[Connection, Connection]) -> None:
    arrays = [np.full(n % 50, n % 256, np.uint8) for n in range(3000)]
    assert all(map(np.array_equal, sent(ends, b"", arrays).arrays, arrays))


def test_blocks_are_used_again(sharing: tuple[Connection, Connection]) -> None:
    size = 1 << 20
    frame = sent(sharing, b"", [np.full(size, 1, np.uint8)])
    kept = frame.arrays[0][10:20].view(np.int8)  # a view keeps the block
    del frame
    assert sent(sharing, b"", [np.full(size, 2, np.uint8)]).arrays[0][0] == 2
    assert kept.tolist() == [1] * 10
    numbers = []
    for n in range(5):
        gc.collect()
        sharing[1].send(ANSWER, 0, 0)
        sharing[0].receive()  # takes the releases, too
        sent(sharing, b"", [np.full(size, n, np.uint8)])
        assert sharing[0]._exporter is not None
        numbers.append(sharing[0]._exporter._number)
    assert len(set(numbers)) == 1
    assert kept.tolist() == [1] * 10


def test_idle_blocks_are_freed(
    sharing: tuple[Connection, Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_memory, "_IDLE_BYTES", 0)
    sent(sharing, b"", [np.ones(1 << 20, np.uint8)])
    gc.collect()
    sharing[1].send(ANSWER, 0, 0)
    sharing[0].receive()
    sharing[0].send(ANSWER, 0, 0)
    sharing[1].receive()
    assert sharing[0]._exporter is not None and not sharing[0]._exporter._idle
    assert len(sharing[1]._importer._maps) == 0


def test_frames_that_wait_keep_their_order(ends: tuple[Connection, Connection]) -> None:
    """More than the socket holds, from a thread that never waits, beside one that does."""
    for number in range(2000):
        ends[0].send_soon(REQUEST, 1, number, b"m" * (number % 3000))
    other = threading.Thread(target=ends[0].send, args=(ANSWER, 0, 5000))
    other.start()
    got = [ends[1].receive() for _ in range(2001)]
    other.join()
    assert [frame.call for frame in got if frame.kind == REQUEST] == list(range(2000))
    ends[0].send_soon(REQUEST, 1, 7)
    assert ends[1].receive().call == 7


def test_threads_that_send_at_once(ends: tuple[Connection, Connection]) -> None:
    def work(sender: int) -> None:
        for number in range(200):
            send = ends[0].send if (sender + number) % 3 == 0 else ends[0].send_soon
            send(REQUEST, sender, number, b"x" * number, [np.full(number * 20, sender, np.uint8)])

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    seen: dict[int, list[int]] = {n: [] for n in range(6)}
    for _ in range(1200):
        frame = ends[1].receive()
        assert (frame.arrays[0] == frame.method).all()
        seen[frame.method].append(frame.call)
    assert all(calls == list(range(200)) for calls in seen.values())
    for thread in threads:
        thread.join()


def test_the_other_end_goes(ends: tuple[Connection, Connection]) -> None:
    ends[0].close()
    with pytest.raises(BrokenConnection):
        ends[1].receive()
    with pytest.raises(BrokenConnection):
        for _ in range(100):
            ends[1].send(ANSWER, 0, 0, b"x" * 10000)


@given(st.binary(max_size=200))
def test_what_is_no_frame_ends_a_connection(data: bytes) -> None:
    a, b = socket.socketpair(socket.AF_UNIX)
    with contextlib.closing(Connection(b)) as end:
        a.sendall(data)
        a.close()
        with pytest.raises(BrokenConnection):
            while True:
                end.receive()


def test_a_greeting_of_another_kind() -> None:
    a, b = socket.socketpair(socket.AF_UNIX)
    ends = Connection(a), Connection(b)
    ends[0].send(ANSWER, 0, 0, b"{}")
    with pytest.raises(BrokenConnection):
        shake_hands(ends[1], {})
    for end in ends:
        end.close()


def test_blocks_that_may_shrink_are_refused() -> None:
    import os

    file = os.memfd_create("other")
    os.ftruncate(file, 8192)
    reader = shared_memory.Importer(os.getpid(), lambda number: None)
    with pytest.raises(ValueError, match="may change"):
        reader.get(shared_memory.BlockName(file, 1, 8192), 10)
    with pytest.raises(OSError, match="/proc"):
        reader.get(shared_memory.BlockName(99999, 2, 8192), 10)
    with pytest.raises(ValueError, match="bytes in a block"):
        reader.get(shared_memory.BlockName(file, 1, 8192), 8193)
    os.close(file)


def test_a_reading_thread_never_waits_to_send(apart: tuple[Connection, Connection]) -> None:
    """The other end does not read yet; the frames arrive once it does, each whole."""
    arrays = [np.full(300_000, n, np.uint8) for n in range(5)]
    for n, array in enumerate(arrays):
        apart[0].send_soon(ANSWER, 0, n, b"soon", [array])
    found = {}
    for _ in arrays:
        frame = apart[1].receive()
        assert frame.message == b"soon"
        found[frame.call] = frame.arrays[0]
    for n, array in enumerate(arrays):
        assert np.array_equal(found[n], array)
    apart[1].close()

    def is_refused() -> bool:
        """Send; frames are taken until a write, maybe by the thread of the last one, has failed."""
        try:
            apart[0].send_soon(ANSWER, 0, 1)
        except BrokenConnection:
            return True
        return False

    wait_until(is_refused)
