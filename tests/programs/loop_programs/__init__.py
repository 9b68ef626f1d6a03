"""Loops as users write them, built by TensorFlow in both of its forms: each with the way in which
it is expected to run.
"""

from __future__ import annotations

from tests.programs.loop_programs import numeric, scalars, sequences, state
from tests.programs.loop_programs.program import PROGRAMS, Built, Program, Way, built

__all__ = [
    "PROGRAMS",
    "Built",
    "Program",
    "Way",
    "built",
    "numeric",
    "scalars",
    "sequences",
    "state",
]
