"""Tests of the division of commands among streams: it keeps the order, and forks where it pays."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tfjit.kernels.cuda.device.stream_plan import (
    BRANCH_US,
    EDGE_US,
    START,
    STREAMS,
    Place,
    StreamPlan,
    Work,
    plan_streams,
    predict,
)
from tfjit.kernels.ir.accelerator import CommandOrder, Copy, Fill, KernelLaunch

SMALL, LARGE = Work(2.0), Work(50.0, "all")
CHAIN = int(BRANCH_US / SMALL.us) + 2
"""Small kernels that hold enough work for a branch."""


@st.composite
def orders(draw: st.DrawFn) -> tuple[list[Work], list[tuple[int, ...]]]:
    """Draw commands, with those that they follow."""
    works, follows = [], []
    for command in range(draw(st.integers(0, 24))):
        engine = draw(st.sampled_from(["", "", "all", "in", "out"]))
        works.append(Work(draw(st.floats(1, 60)), engine))
        before = draw(st.sets(st.integers(0, command - 1), max_size=3)) if command else set()
        follows.append(tuple(sorted(before)))
    return works, follows


def happens_before(plan: StreamPlan) -> list[set[int]]:
    """Return the commands that are done before each one, and before the end; check the waits."""
    done: list[set[int]] = []  # by place
    last: dict[int, set[int]] = {}
    for command, place in zip(plan.sequence, plan.places, strict=True):
        assert place.stream in last or place.stream == 0 or place.waits
        before = set(last.get(place.stream, ()))
        for earlier in place.waits:
            assert earlier < len(done)
            if earlier != START:
                assert plan.places[earlier].stream != place.stream
                before |= done[earlier] | {plan.sequence[earlier]}
        done.append(before)
        last[place.stream] = before | {command}
    end = set(last.get(0, ()))
    for earlier in plan.joins:
        end |= done[earlier] | {plan.sequence[earlier]}
    return [*(done[plan.sequence.index(command)] for command in range(len(done))), end]


def streams(plan: StreamPlan) -> list[int]:
    """Return the stream of each command."""
    found = dict(zip(plan.sequence, plan.places, strict=True))
    return [found[command].stream for command in range(len(found))]


@settings(max_examples=150, deadline=None)
@given(orders(), st.integers(1, STREAMS))
def test_the_order_is_kept_and_all_streams_are_joined(
    order: tuple[list[Work], list[tuple[int, ...]]], most: int
) -> None:
    works, follows = order
    plan = plan_streams(works, follows, most)
    assert len(plan.places) == len(works) and plan.streams <= most
    *before, end = happens_before(plan)
    for command, earlier in enumerate(follows):
        assert set(earlier) <= before[command]
    assert end == set(range(len(works)))


def test_a_chain_has_one_stream_and_no_wait() -> None:
    works = [Work(30.0, "in"), *[SMALL, LARGE] * 20, Work(30.0, "out")]
    count = len(works)
    plan = plan_streams(works, [(command - 1,) if command else () for command in range(count)])
    assert plan == StreamPlan(tuple(range(count)), (Place(0),) * count)


def test_small_kernels_in_two_towers_run_side_by_side() -> None:
    works = [SMALL] * (2 * CHAIN + 1)
    follows = [(k - 1,) if k % CHAIN else () for k in range(2 * CHAIN)] + [
        (CHAIN - 1, 2 * CHAIN - 1)
    ]
    plan = plan_streams(works, follows)
    assert plan.sequence == tuple(range(2 * CHAIN + 1))
    assert streams(plan)[: 2 * CHAIN] == [0] * CHAIN + [1] * CHAIN
    assert plan.places[CHAIN].waits == (START,)
    assert plan.places[-1] == Place(1, (CHAIN - 1,)) and plan.joins == (2 * CHAIN,)
    assert sum(len(place.waits) for place in plan.places) == 2


def test_a_small_kernel_that_nothing_waits_for_opens_no_branch() -> None:
    works = [SMALL] * (CHAIN + 1)
    follows = [(k - 1,) if k else () for k in range(CHAIN)] + [(0,)]
    assert plan_streams(works, follows).streams == 1


def test_a_branch_that_saves_little_is_left_out() -> None:
    works = [LARGE] * 20 + [SMALL] * CHAIN
    follows = [(k - 1,) if k % 20 else () for k in range(20 + CHAIN)]
    assert plan_streams(works, follows).streams == 1
    assert (
        plan_streams(
            works[18:], [(k - 1,) if k not in (0, 2) else () for k in range(CHAIN + 2)]
        ).streams
        == 2
    )


def test_kernels_that_fill_the_device_stay_one_behind_the_other() -> None:
    works = [LARGE] * 8
    follows = [(), (), (0,), (1,), (2,), (3,), (4,), (5,)]
    assert plan_streams(works, follows).streams == 1


def test_a_copy_in_for_later_kernels_runs_beside_the_first_ones() -> None:
    works = [Work(10.0, "in"), Work(80.0, "in"), LARGE, LARGE]
    plan = plan_streams(works, [(), (), (0,), (1, 2)])
    assert plan == StreamPlan((0, 1, 2, 3), (Place(0), Place(0), Place(1, (0,)), Place(0, (2,))))


def test_a_copy_out_starts_when_its_value_is_final() -> None:
    works = [LARGE, LARGE, LARGE, Work(40.0, "out"), Work(2.1, "out")]
    plan = plan_streams(works, [(), (0,), (1,), (0,), (2,)])
    assert streams(plan) == [0, 0, 0, 1, 0]
    waits = dict(zip(plan.sequence, plan.places, strict=True))[3].waits
    assert [plan.sequence[place] for place in waits] == [0]
    assert [plan.sequence[place] for place in plan.joins] == [3]


def test_layers_of_a_recurrent_network_run_as_a_wave() -> None:
    """The cell of the second layer needs the first layer's cell and its own one before."""
    times, kernels = 12, 6

    def last(layer: int, time: int) -> int:
        return (2 * time + layer + 1) * kernels - 1

    works, follows = [], []
    for time in range(times):
        for layer in range(2):
            before = [last(layer, time - 1)] if time else []
            before += [last(0, time)] if layer else []
            for k in range(kernels):
                follows.append(tuple(sorted(before)) if not k else (len(works) - 1,))
                works.append(SMALL)
    before = happens_before(plan_streams(works, follows))
    for time in range(times - 1):
        below, beside = last(1, time), last(0, time + 1)
        assert below not in before[beside] and beside not in before[below]


@pytest.mark.parametrize(
    "command, moved, flops, expected",
    [
        (Copy("in", 0, 0, 50000), 50000, 0, Work(4.0, "in")),
        (Copy("out", 0, 0, 25000), 25000, 0, Work(3.0, "out")),
        (Copy("within", 0, 0, 1000), 1000, 0, Work(2.001)),
        (Fill(0, 0, 8000000), 0, 0, Work(10.0, "all")),
        (KernelLaunch(1, (), (1000, 1, 1), (256, 1, 1)), 4000000, 0, Work(4.0, "all")),
        (KernelLaunch(1, (), (1000, 1, 1), (256, 1, 1)), 4000000, 200000000, Work(12.0, "all")),
        (KernelLaunch(1, (), (10, 2, 1), (16, 16, 1)), 200000, 0, Work(3.0)),
        (KernelLaunch(1, (), (5, 10, 1), (16, 16, 1)), 0, 40000000, Work(6.0)),
        (KernelLaunch(1, (), (6, 10, 1), (16, 16, 1)), 0, 60000000, Work(7.0, "all")),
    ],
)
def test_predictions(command, moved: int, flops: int, expected: Work) -> None:  # type: ignore[no-untyped-def]
    """A tenth of the threads has a tenth of the rates, half of the blocks half of them."""
    (found,) = predict([command], CommandOrder(((),), (moved,), (flops,)), 100)
    assert found.engine == expected.engine and found.us == pytest.approx(expected.us)


def test_the_costs_fit() -> None:
    assert BRANCH_US >= 2 * EDGE_US
