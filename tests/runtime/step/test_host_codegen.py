"""The functions of steps as files to read in review; `pytest --update-golden` writes them again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.runtime.lowered_programs import layout, read
from tfjit.runtime.step.host_codegen import StepText

TRAINING = """
    lowered feeds=2
    %0: float32<100> = feed 0 'x'
    %1: float32<100> = feed 1 'target'
    %2: float32<100> = handle 'w' resource
    %3: float32<> = handle 'step' resource
    %4 = const 'rate' float32<>[0.5]
    %5 = const 'one' float32<>[1.0]
    %6: float32<100> = read %2 'w/Read'
    %7: float32<100> = reference 'y' Mul(%0, %6)
    %8: float32<100> = reference 'difference' Sub(%7, %1)
    %9: float32<100> = reference 'by_numpy' Tanh(%8)
    %10: float32<100> = reference 'gradient' Mul(%9, %0)
    reference 'update' ResourceApplyGradientDescent(%2, %4, %10)
    runtime 'count' AssignAddVariableOp(%3, %5)
    fetch %9, %8
"""
CONTROL = """
    lowered feeds=3
    %0: bool<> = feed 0 'p'
    %1: float32<100> = feed 1 'x'
    %2: int32<> = feed 2 'k'
    %3: float32<100> level=1 from 'l' = move 'l' %1
    loop 'l' While
        %4: bool<> = reference 'more' Identity(%0)
    test %4
        branch 'b' Case %2
            %5: float32<100> = reference 'double' AddV2(%3, %3)
            %6: float32<100> from 'b' = move 'b' %5
        case
            %7: float32<100> = reference 'by_numpy' Tanh(%3)
            %6 = move 'b' %7
        join
        %3 = move 'l' %6
    repeat
    fetch %3
"""


@pytest.mark.parametrize(
    ("name", "text", "python"),
    [("step_training", TRAINING, ["by_numpy"]), ("step_control", CONTROL, ["by_numpy"])],
)
def test_the_function_of_a_step(
    name: str, text: str, python: Sequence[str], root: Path, update_golden: bool
) -> None:
    found = StepText(layout(read(text), python=python), "a step").generate()
    path = root / "tests" / "golden" / f"{name}.txt"
    if update_golden:
        path.write_text(found, encoding="utf-8")
    assert found == path.read_text(encoding="utf-8"), "pytest --update-golden writes it again"
