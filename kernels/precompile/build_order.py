"""Order the generic kernels by use.

An unfinished archive has the kernels that most programs need.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tfjit.kernels.source import KernelSource

# The ops that the whole programs of the benchmarks ask for.
_LOOPS: Final = frozenset(
    ("AddN", "AddV2", "BiasAdd", "Cast", "Equal", "Exp", "Greater", "GreaterEqual", "Less",
     "LessEqual", "Log", "Log1p", "LogicalAnd", "Maximum", "Minimum", "Mul", "Neg", "Pow",
     "RealDiv", "Reciprocal", "Relu", "Relu6", "ReluGrad", "Rsqrt", "Select", "SelectV2", "Sigmoid",
     "SigmoidGrad", "Sqrt", "Square", "SquaredDifference", "Sub", "Tanh", "TanhGrad")
)  # fmt: skip
_LOOP_TITLES: Final = frozenset(f"loop {op}".lower() for op in _LOOPS)
_UPDATES: Final = frozenset(("Adagrad", "Adam", "Ftrl", "GradientDescent", "Momentum", "RMSProp"))
_SCATTERS: Final = frozenset(("scatter add", "variable scatter"))
_NARROW: Final = frozenset(("bool", "float32"))
_WIDE: Final = frozenset(("float64", "f64"))


def by_use(sources: Iterable[KernelSource]) -> tuple[KernelSource, ...]:
    """Return the sources, the most used first; equal ones keep their order."""
    return tuple(sorted(sources, key=_rank))


def _rank(source: KernelSource) -> int:
    words = source.title.split()
    kind, pair = words[0], " ".join(words[:2])
    if not _WIDE.isdisjoint(words):
        return 2
    if kind == "loop":
        usual = pair in _LOOP_TITLES and words[-1] in _NARROW
    elif "update" in words:
        usual = not _UPDATES.isdisjoint(words)
    elif "scatter" in words:
        usual = pair in _SCATTERS
    else:
        usual = kind not in ("gather_nd", "running")
    return 0 if usual else 1
