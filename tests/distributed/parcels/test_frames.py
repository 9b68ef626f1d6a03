"""Frames arrive whole, through the socket or shared memory; what is no frame ends a connection."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.waiting import wait_until
from tfjit.distributed.channels.local_channel import shake_hands
from tfjit.distributed.parcels.frames import ANSWER, REQUEST, BrokenConnection, Connection, Frame
from tfjit.distributed.shared_memory import block_pool
from tfjit.distributed.shared_memory.block_pool import MIN_BYTES, POOL


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
    sender = threading.Thread(target=ends[0].send, args=(REQUEST, 7, 1 << 60, message, [*arrays]))
    sender.start()
    frame = ends[1].receive()
    sender.join()
    assert (frame.kind, frame.method, frame.call) == (REQUEST, 7, 1 << 60)
    return frame


def test_frames_arrive(ends: tuple[Connection, Connection]) -> None:
    rng = np.random.default_rng(0)
    for sizes in ([], [0], [1, 64, 5], [1 << 16], [MIN_BYTES, 3, 3 << 20]):
        for length in (0, 10, 1 << 16, 200_000):
            arrays = [rng.integers(0, 255, size).astype(np.uint8) for size in sizes]
            frame = sent(ends, b"m" * length, arrays)
            assert frame.message == b"m" * length
            for a, b in zip(frame.arrays, arrays, strict=True):
                assert np.array_equal(a, b)


def test_many_arrays(ends: tuple[Connection, Connection]) -> None:
    arrays = [np.full(n % 50, n % 256, np.uint8) for n in range(3000)]
    assert all(map(np.array_equal, sent(ends, b"", arrays).arrays, arrays))


def blocks_lent(to: Connection) -> set[int]:
    """Return the numbers of the large blocks of the other end that this one has mapped."""
    assert to._importer is not None and to._importer._pool is not None
    maps = to._importer._pool.maps
    return {number for number, found in maps.items() if found.capacity >= MIN_BYTES}


def answered(ends: tuple[Connection, Connection]) -> None:
    """Let each end take the notices of the other."""
    for a, b in (ends, ends[::-1]):
        a.send(ANSWER, 0, 0)
        b.receive()


def test_blocks_are_used_again(sharing: tuple[Connection, Connection]) -> None:
    size = 1 << 20
    frame = sent(sharing, b"", [np.full(size, 1, np.uint8)])
    kept = frame.arrays[0][10:20].view(np.int8)  # a view keeps the block
    del frame
    assert sent(sharing, b"", [np.full(size, 2, np.uint8)]).arrays[0][0] == 2
    assert kept.tolist() == [1] * 10
    known = blocks_lent(sharing[1])
    for n in range(5):
        answered(sharing)
        assert sent(sharing, b"", [np.full(size, n, np.uint8)]).arrays[0][0] == n
        assert blocks_lent(sharing[1]) == known
    assert kept.tolist() == [1] * 10


def test_idle_blocks_are_freed(
    sharing: tuple[Connection, Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block_pool, "_IDLE_BYTES", 0)
    sent(sharing, b"", [np.ones(1 << 20, np.uint8)])
    assert len(blocks_lent(sharing[1])) == 1
    for _ in range(2):
        answered(sharing)
    assert not POOL._idle
    assert not blocks_lent(sharing[1])


def test_an_array_in_a_block_is_sent_without_a_copy(
    sharing: tuple[Connection, Connection],
) -> None:
    array = POOL.array(1 << 20)
    array[:] = np.arange(1 << 20) % 251
    expected = array.copy()
    first = sent(sharing, b"", [array[: 1 << 19], array[1 << 19 :]])
    assert len(blocks_lent(sharing[1])) == 1
    assert np.array_equal(np.concatenate(first.arrays), expected)
    array[0] = 7
    assert first.arrays[0][0] == 7  # it is the same memory


@pytest.mark.parametrize("why", ["the sender has it", "it is there twice", "another has it"])
def test_only_what_nothing_else_has_may_be_written(
    sharing: tuple[Connection, Connection], why: str
) -> None:
    other = Connection(socket.socketpair(socket.AF_UNIX)[0])
    other.offer_block()
    other.share_memory()
    array = POOL.array(1 << 20)
    array[:] = 1
    if why == "another has it":
        other._frame(ANSWER, 0, 0, b"", [array], None)
    arrays = [array, array] if why == "it is there twice" else [array]
    if why != "the sender has it":
        del array
    sharing[0].send(ANSWER, 0, 0, b"", arrays)
    assert not arrays
    assert not any(found.flags.writeable for found in sharing[1].receive().arrays)
    other.close()


def test_what_nothing_else_has_may_be_written(sharing: tuple[Connection, Connection]) -> None:
    in_a_block = POOL.array(1 << 20)
    in_a_block[:] = 5
    arrays = [in_a_block, np.full(1 << 20, 6, np.uint8), np.full(3, 7, np.uint8)]
    copied = arrays[1]
    del in_a_block
    sharing[0].send(ANSWER, 0, 0, b"", arrays)
    found = sharing[1].receive().arrays
    assert [int(a[0]) for a in found] == [5, 6, 7]
    for a in found:
        a += 10
    assert [int(a[-1]) for a in found] == [15, 16, 17]
    assert copied[0] == 6


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
