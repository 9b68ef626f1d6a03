"""Tests of captures with several streams, by the calls that a fake driver gets."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.kernels.cuda.device.recorded import Failing, launch
from tests.kernels.cuda.fake_driver import Capture, FakeDriver
from tfjit.framework import errors
from tfjit.kernels.cuda.device.accelerator import CudaAccelerator
from tfjit.kernels.cuda.device.stream_plan import START, Place, StreamPlan
from tfjit.kernels.ir.accelerator import (
    Command,
    CommandOrder,
    Copy,
    Fill,
    KernelLaunch,
    LibraryCall,
    RoutineFailed,
)

MB = 1 << 20


def small(number: int) -> KernelLaunch:
    """Return a launch whose grid tells its number."""
    return KernelLaunch(0xBEEF, (), (number + 1, 1, 1), (64, 1, 1))


def before(capture: Capture) -> dict[int, set[int]]:
    """Return the commands before each one.

    Their numbers follow from grids and targets.
    """
    numbers = [call[2 if call[0] == "cuLaunchKernel" else 1] - 1 for call in capture.nodes]
    assert len(set(numbers)) == len(numbers)
    return {
        number: {numbers[node] for node in nodes}
        for number, nodes in zip(numbers, capture.before, strict=True)
    }


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
    start(device, commands, [(k - 1,) if k else () for k in range(5)])
    (first, second) = fake.captured
    assert plain[0] == "cuStreamCreate"
    assert fake.names() == [name for name in plain[1:] if name != "cuKernelGetFunction"]
    assert first.before == second.before == [frozenset(range(k)) for k in range(5)]


def test_a_fork_and_a_join(device: CudaAccelerator, fake: FakeDriver) -> None:
    """Two chains side by side: the waits are for a stream of its own, each event comes before."""
    follows = [(), (0,), (), (2,), (1, 3)]
    start(device, [small(k) for k in range(5)], follows)
    (capture,) = fake.captured
    assert before(capture) == {0: set(), 1: {0}, 2: set(), 3: {2}, 4: set(range(4))}
    assert len(capture.done) == 2
    names = fake.names()
    assert names.count("cuEventRecord") == names.count("cuStreamWaitEvent") + 1  # the program's
    assert names.count("cuEventCreate") == names.count("cuEventDestroy_v2") + 1
    device.captures.capture(
        [small(0)] * 3, StreamPlan((0, 1, 2), (Place(0), Place(1, (START,)), Place(0)), (1,))
    )
    assert "cuStreamCreate" not in fake.names()


def test_large_copies_run_beside_kernels(device: CudaAccelerator, fake: FakeDriver) -> None:
    commands = [
        Copy("in", 1, 0x9000, MB),
        Copy("in", 2, 0x9000, 40 * MB),
        small(2),
        small(3),
        Copy("out", 5, 0x9000, MB),
    ]
    start(device, commands, [(), (), (0,), (1, 2), (2,)])
    (capture,) = fake.captured
    found = before(capture)
    assert 1 not in found[2] and 2 not in found[1] and 3 not in found[4] and capture.is_joined


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
                "in": Copy("in", number + 1, 2, 3 * MB),
                "out": Copy("out", number + 1, 2, MB),
                "fill": Fill(number + 1, 0, MB),
                "nothing": Fill(number + 1, 0, 0),
            }[kind]
        )
        some = data.draw(st.sets(st.integers(0, number - 1), max_size=2)) if number else set()
        follows.append(tuple(sorted(some)))
    start(device, commands, follows)
    capture = fake.captured[-1]
    found = before(capture)
    assert capture.is_joined
    for number, command in enumerate(commands):
        assert (number in found) == (isinstance(command, KernelLaunch) or command.nbytes > 0)
        assert set(follows[number]) & set(found) <= found.get(number, set(found))


def test_a_failed_fork_leaves_no_event_behind(device: CudaAccelerator, fake: FakeDriver) -> None:
    fake.failing["cuStreamWaitEvent"] = 1
    with pytest.raises(errors.InternalError, match="cuStreamWaitEvent: error 1"):
        start(device, [small(k) for k in range(5)], [(), (0,), (), (2,), (1, 3)])
    names = fake.names()
    assert names.count("cuEventCreate") == names.count("cuEventDestroy_v2")
    assert names.index("cuStreamEndCapture") < names.index("cuEventDestroy_v2")


def test_a_failed_capture_ends_the_capture(device: CudaAccelerator, fake: FakeDriver) -> None:
    program = device.program([launch(1)] * 3)
    fake.failing["cuLaunchKernel"] = 1
    with pytest.raises(errors.InternalError, match="cuLaunchKernel: error 1"):
        program.start()
    assert fake.names()[-3:] == ["cuLaunchKernel", "cuStreamEndCapture", "cuGraphDestroy"]
    fake.failing.clear()
    program.start()
    assert fake.names()[-2:] == ["cuGraphLaunch", "cuEventRecord"]


def test_a_library_that_fails_ends_the_capture(device: CudaAccelerator, fake: FakeDriver) -> None:
    program = device.program([LibraryCall(Failing(fake), ())])
    with pytest.raises(RoutineFailed, match="status 13"):
        program.start()
    assert fake.names()[-3:] == ["cuStreamEndCapture", "cuGraphDestroy", "cuStreamSynchronize"]


def test_a_library_fails_in_a_lost_context(device: CudaAccelerator, fake: FakeDriver) -> None:
    """No kernel could serve instead: the error is that of the context."""
    fake.failing["cuStreamSynchronize"] = 700
    with pytest.raises(errors.InternalError, match="ILLEGAL_ADDRESS.*start it again"):
        device.program([LibraryCall(Failing(fake), ())]).start()
    with pytest.raises(errors.InternalError, match="ILLEGAL_ADDRESS.*start it again"):
        device.accepts(Failing(fake), 2)


def test_a_capture_that_another_library_spoils_is_made_again(
    device: CudaAccelerator, fake: FakeDriver
) -> None:
    """It waits for the whole device, on another thread."""
    fake.spoiled = 2
    program = device.program([launch(1)] * 3)
    program.start()
    assert [len(capture.nodes) for capture in fake.captured] == [3, 3, 3]
    names = fake.names()
    assert names.count("cuStreamBeginCapture_v2") == 3 and names.count("cuGraphLaunch") == 1
    fake.spoiled = 3
    with pytest.raises(errors.InternalError, match="cuStreamEndCapture: .*INVALIDATED"):
        device.program([launch(1)] * 3).start()
    assert fake.names().count("cuStreamBeginCapture_v2") == 3


def test_a_library_that_fails_in_a_spoiled_capture_is_called_again(
    device: CudaAccelerator, fake: FakeDriver
) -> None:
    fake.spoiled = 5
    with pytest.raises(RoutineFailed, match="status 13"):
        device.program([LibraryCall(Failing(fake), ())]).start()
    assert fake.names().count("cuStreamBeginCapture_v2") == 3


def test_memory_for_a_graph_may_be_missing(device: CudaAccelerator, fake: FakeDriver) -> None:
    fake.failing["cuGraphInstantiateWithFlags"] = 2
    with pytest.raises(errors.ResourceExhaustedError, match="cuGraphInstantiateWithFlags"):
        device.program([launch(1)] * 3).start()
    assert fake.names()[-2:] == ["cuGraphInstantiateWithFlags", "cuGraphDestroy"]


def test_devices_of_one_gpu_share_the_lock_of_captures(fake: FakeDriver) -> None:
    """One of them may not wait for the context while the other captures."""
    first, second = CudaAccelerator(0), CudaAccelerator(0)
    assert first.context.capturing is second.context.capturing
    assert first.lock is not second.lock
    held = []
    second.free_shared(second.allocate(8))
    program = first.program([launch(1)] * 3)
    fake.watching = lambda name: held.append(
        (name, first.context.capturing._is_owned())  # type: ignore[attr-defined]
    )
    program.start()
    second.allocate(8)
    assert ("cuCtxSynchronize", True) in held
    begin, end = (
        held.index((f"cuStream{name}", True)) for name in ("BeginCapture_v2", "EndCapture")
    )
    assert all(owned for _, owned in held[begin : end + 1])
