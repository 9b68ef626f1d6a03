"""Kernels that save little of a few runs are compiled later; all others at once."""

from __future__ import annotations

import math

import pytest

from tfjit.kernels.source import KernelSource
from tfjit.runtime.schedule.compile_cost import (
    FORESEEN_RUNS,
    KERNEL_NS,
    START_NS,
    Meanwhile,
    MissingKernel,
    choose,
)


def kernel(name: str, saved_ns: float, meanwhile: Meanwhile = Meanwhile.MEMBERS) -> MissingKernel:
    """A missing kernel of that text."""
    return MissingKernel(KernelSource(name), saved_ns, meanwhile)


def names(sources: list[KernelSource]) -> list[str]:
    return [source.text for source in sources]


def test_code_of_members_serves_until_runs_pay_for_a_kernel() -> None:
    small, large = kernel("small", 1e3), kernel("large", 2 * KERNEL_NS / FORESEEN_RUNS)
    choice = choose([large, small], 0, is_started=True)
    assert names(choice.now) == ["large"]
    assert (choice.deferred, choice.runs) == (1, KERNEL_NS / 1e3)
    # without a compiler process, it has to pay for the start as well
    choice = choose([large], 0, is_started=False)
    assert not choice.now
    assert choice.runs == pytest.approx((START_NS + KERNEL_NS) / large.saved_ns)
    later = choose([large], math.ceil(choice.runs), is_started=False)
    assert names(later.now) == ["large"]
    assert not later.deferred


def test_a_kernel_without_any_gain_is_never_due() -> None:
    assert choose([kernel("none", 0.0)], 5, is_started=True).runs == math.inf


@pytest.mark.parametrize("meanwhile", [Meanwhile.REFERENCE, Meanwhile.UNKNOWN])
def test_slower_code_waits_for_no_runs(meanwhile: Meanwhile) -> None:
    other = kernel("other", 1e3)
    choice = choose([kernel("first", 2e4, meanwhile), other], 0, is_started=False)
    assert names(choice.now) == ["first"]
    assert choice.runs == KERNEL_NS / other.saved_ns  # the process is there by then


def test_a_reference_may_do_a_small_part_of_the_work() -> None:
    few = [kernel("few", 2e4, Meanwhile.REFERENCE)]
    assert choose(few, 0, is_started=True, work_ns=1e8).deferred == 1
    assert choose(few, 0, is_started=True, work_ns=1e5).deferred == 0
