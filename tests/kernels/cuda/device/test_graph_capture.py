"""Tests of captures with several streams, by the calls that a fake driver gets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.kernels.cuda.fake_driver import FakeDriver, install
from tfjit.framework import errors
from tfjit.kernels.cuda.device import driver
from tfjit.kernels.cuda.device.accelerator import CudaAccelerator
from tfjit.kernels.cuda.device.stream_plan import START, Place, StreamPlan
from tfjit.kernels.ir.accelerator import Command, CommandOrder, Copy, Fill, KernelLaunch

MB = 1 << 20


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    yield install(monkeypatch, FakeDriver())
    driver.properties.cache_clear()


@pytest.fixture
def device(fake: FakeDriver) -> CudaAccelerator:
    made = CudaAccelerator(0)
    fake.calls.clear()
    return made


def small(word: int = 0) -> KernelLaunch:
    return KernelLaunch(0xBEEF, (word,), (1, 1, 1), (64, 1, 1))


def start(device: CudaAccelerator, commands: list[Command], follows: list[tuple[int, ...]]) -> None:
    """Start a program whose kernels move a megabyte each."""
    moved = tuple(MB if isinstance(command, KernelLaunch) else 0 for command in commands)
    order = CommandOrder(tuple(follows), moved, (0,) * len(commands))
    device.program(commands, order).start()


def test_a_chain_is_captured_in_one_stream(device: CudaAccelerator, fake: FakeDriver) -> None:
    """The calls are those of a program without an order."""
    commands = [small(k) for k in range(5)]
    device.program(commands).start()
    plain = fake.names()
    start(device, list(commands), [(k - 1,) if k else () for k in range(5)])
    (first, second) = fake.captured
    assert plain[0] == "cuStreamCreate"
    assert fake.names() == [name for name in plain[1:] if name != "cuKernelGetFunction"]
    assert first.before == second.before == [frozenset(range(k)) for k in range(5)]


def test_a_fork_and_a_join(device: CudaAccelerator, fake: FakeDriver) -> None:
    """Two chains side by side: the waits are for a stream of its own, each event comes before."""
    follows = [(), (0,), (), (2,), (1, 3)]
    start(device, [small(k) for k in range(5)], follows)
    (capture,) = fake.captured
    assert capture.before == [
        *(frozenset(), frozenset({0}), frozenset(), frozenset({2}), frozenset(range(4)))
    ]
    assert len(capture.done) == 2
    names = fake.names()
    assert names.count("cuEventRecord") == names.count("cuStreamWaitEvent") + 1  # the program's
    assert names.count("cuEventCreate") == names.count("cuEventDestroy_v2") + 1
    device.captures.capture(
        [small()] * 3, StreamPlan((Place(0), Place(1, (START,)), Place(0)), (1,))
    )
    assert "cuStreamCreate" not in fake.names()


def test_large_copies_run_beside_kernels(device: CudaAccelerator, fake: FakeDriver) -> None:
    commands = [
        Copy("in", 0x100, 0x9000, MB),
        Copy("in", 0x100 + MB, 0x9000 + MB, 4 * MB),
        small(1),
        small(2),
        Copy("out", 0x9000 + 8 * MB, 0x100, MB),
    ]
    start(device, list(commands), [(), (), (0,), (1, 2), (2,)])
    (capture,) = fake.captured
    assert (
        capture.before[2] == {0}
        and capture.before[4] <= {0, 1, 2}
        and 3 in capture.done[capture.first]
    )


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data())
def test_captures_keep_the_order_of_any_program(fake: FakeDriver, data: st.DataObject) -> None:
    device = CudaAccelerator(0)
    commands: list[Command] = []
    follows: list[tuple[int, ...]] = []
    for number in range(data.draw(st.integers(3, 14))):
        kind = data.draw(st.sampled_from(["kernel", "kernel", "in", "out", "fill", "nothing"]))
        commands.append(
            {
                "kernel": small(number),
                "in": Copy("in", 1, 2, 3 * MB),
                "out": Copy("out", 1, 2, MB),
                "fill": Fill(1, number, MB),
                "nothing": Fill(1, number, 0),
            }[kind]
        )
        before = data.draw(st.sets(st.integers(0, number - 1), max_size=2)) if number else set()
        follows.append(tuple(sorted(before)))
    start(device, commands, follows)
    capture = fake.captured[-1]
    numbers = [k for k, c in enumerate(commands) if isinstance(c, KernelLaunch) or c.nbytes]
    node = {number: k for k, number in enumerate(numbers)}
    assert len(capture.nodes) == len(numbers) and capture.is_joined
    for number in numbers:
        for earlier in follows[number]:
            if earlier in node:
                assert node[earlier] in capture.before[node[number]]


def test_a_failed_fork_leaves_no_event_behind(device: CudaAccelerator, fake: FakeDriver) -> None:
    fake.failing["cuStreamWaitEvent"] = 1
    with pytest.raises(errors.InternalError, match="cuStreamWaitEvent: error 1"):
        start(device, [small(k) for k in range(5)], [(), (0,), (), (2,), (1, 3)])
    names = fake.names()
    assert names.count("cuEventCreate") == names.count("cuEventDestroy_v2")
    assert names.index("cuStreamEndCapture") < names.index("cuEventDestroy_v2")
