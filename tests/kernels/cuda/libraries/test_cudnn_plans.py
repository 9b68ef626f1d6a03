"""cuDNN's plans: the choice of an engine, reasons for none, the life of descriptors."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.kernels.cuda.libraries.fake_cudnn import Engine, FakeCudnn
from tfjit.framework.types import dtypes
from tfjit.kernels.cuda.libraries import cudnn_descriptors as d
from tfjit.kernels.cuda.libraries.convolution_problem import ConvolutionProblem
from tfjit.kernels.cuda.libraries.cudnn_descriptors import CudnnFunctions, Descriptor
from tfjit.kernels.cuda.libraries.cudnn_plans import Plan, Target, find_plan
from tfjit.kernels.cuda.libraries.library_files import MissingLibrary

pytestmark = pytest.mark.simulator
HANDLE = 77
PLAIN = ConvolutionProblem(
    "forward", dtypes.float32, 2, 3, 5, size=(6, 7), out=(3, 6), taps=(3, 2), strides=(2, 1),
    before=(0, 0), after=(1, 0), tf32=True,
)  # fmt: skip


def found(fake: FakeCudnn, problem: ConvolutionProblem) -> tuple[Plan | None, str]:
    functions = CudnnFunctions(fake)  # type: ignore[arg-type]
    device = Descriptor(functions, d.DEVICE).set(d.DEVICE_HANDLE, HANDLE).finalize()
    plan, reason = find_plan(functions, Target(device=device), problem)
    by_handle, other = find_plan(functions, Target(HANDLE), problem)
    assert (by_handle is None, other) == (plan is None, reason)
    return plan, reason


def plan_of(fake: FakeCudnn, problem: ConvolutionProblem) -> Plan:
    plan, reason = found(fake, problem)
    assert plan is not None, reason
    return plan


def reason_of(fake: FakeCudnn, problem: ConvolutionProblem) -> str:
    plan, reason = found(fake, problem)
    assert plan is None
    return reason


def ranked(*engines: Engine, fallback: tuple[Engine, ...] = ()) -> FakeCudnn:
    fake = FakeCudnn()
    fake.rankings = {3: list(engines), 2: list(fallback)}
    return fake


def test_first_engine_that_keeps_the_rules() -> None:
    fake = ranked(
        Engine(1, plans=False), Engine(2, notes=(2,)), Engine(3, workspace=2 << 30), Engine(4),
        Engine(5),
    )  # fmt: skip
    plan = plan_of(fake, PLAIN)
    assert (plan.engine, plan.workspace_bytes) == (4, 131)
    assert plan_of(ranked(fallback=(Engine(9, ()),)), PLAIN).engine == 9


def test_rounded_products_of_float32() -> None:
    engines = Engine(1, (0,)), Engine(2, (1,)), Engine(3, ())
    exact = replace(PLAIN, tf32=False)
    assert plan_of(ranked(*engines), PLAIN).engine == 1
    assert plan_of(ranked(*engines), exact).engine == 3
    # products of float16 are exact in tensor cores
    assert plan_of(ranked(*engines), replace(exact, dtype=dtypes.float16)).engine == 1


def test_engines_that_repeat_their_bits() -> None:
    engines = Engine(1, (0, 4)), Engine(2, (0,))
    assert plan_of(ranked(*engines), PLAIN).engine == 1
    assert plan_of(ranked(*engines), replace(PLAIN, repeats=True)).engine == 2


def test_reasons_for_no_plan() -> None:
    assert reason_of(ranked(), PLAIN) == "cuDNN has no engine for it"
    many = ranked(Engine(2, notes=(2,)), fallback=(Engine(3, workspace=2 << 30),))
    assert reason_of(many, PLAIN) == (
        "engine 2: sums of fewer bits; engine 3: a workspace of 2147483648 bytes"
    )
    assert "engine 7 has no plan" in reason_of(ranked(Engine(7, plans=False)), PLAIN)
    assert "axis 0 has other sizes" in reason_of(FakeCudnn(), replace(PLAIN, out=(4, 6)))
    assert reason_of(FakeCudnn(), replace(PLAIN, batch=1 << 28)) == "more than 2**31 elements"


def test_plans_outlive_what_made_them() -> None:
    fake = FakeCudnn()
    plan = plan_of(fake, PLAIN)
    assert fake.alive > 0
    del plan
    assert fake.alive == 0


def test_old_libraries_are_missing() -> None:
    with pytest.raises(MissingLibrary, match="version 90700 is older than 90800"):
        found(FakeCudnn(90700), PLAIN)
