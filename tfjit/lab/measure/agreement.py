"""Compare the outputs of candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tfjit.runtime.step.compare import first_difference

# Allowed difference by dtype, over the largest element of an output. Other values must be equal.
TOLERANCES: Final = {
    "float64": 1e-9,
    "complex128": 1e-9,
    "float32": 1e-4,
    "complex64": 1e-4,
    "float16": 1e-2,
    "bfloat16": 5e-2,
}


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One output of a candidate that is not the base's.

    when: "before timing" or "after timing". index: the first element that differs, () for a shape
    or dtype. count: of the size elements that differ. largest: the largest difference; None where
    it has no number.
    """

    candidate: str
    base: str
    fetch: str
    when: str
    index: tuple[int, ...]
    value: str
    base_value: str
    count: int
    size: int
    largest: float | None

    def __str__(self) -> str:
        where = f" at {list(self.index)}" if self.index else ""
        by = "" if self.largest is None else f", by at most {self.largest:.3g}"
        return (
            f"{self.fetch} {self.when}{where}: {self.candidate} has {self.value}, {self.base} has "
            f"{self.base_value}; {self.count} of {self.size} elements differ{by}"
        )


def mismatches(
    fetches: Sequence[str],
    outputs: Mapping[str, Sequence[object]],
    when: str,
    tolerance: float | None = None,
) -> list[Mismatch]:
    """Return the outputs that are not those of the first candidate.

    outputs: by candidate, those of the fetches in order. tolerance: of numbers with a fraction,
    over the largest element; by default that of TOLERANCES. NaN agrees with NaN.
    """
    found = []
    base, *others = outputs
    for name in others:
        for fetch, got, want in zip(fetches, outputs[name], outputs[base], strict=True):
            value, wanted = np.asarray(got), np.asarray(want)
            difference = first_difference(value, wanted, _ulps(wanted.dtype, tolerance))
            if difference is not None:
                found.append(
                    Mismatch(
                        name,
                        base,
                        fetch,
                        when,
                        difference.index or (),
                        str(difference.compiled),
                        str(difference.reference),
                        difference.count,
                        difference.size,
                        None if np.isnan(difference.largest) else difference.largest,
                    )
                )
    return found


def _ulps(dtype: np.dtype, tolerance: float | None) -> float:
    """Return the tolerance in ulps of the largest element."""
    if dtype.kind not in "fcV" and dtype.name not in TOLERANCES:
        return 0.0
    import ml_dtypes

    allowed = TOLERANCES.get(dtype.name, 0.0) if tolerance is None else tolerance
    return allowed / float(ml_dtypes.finfo(dtype).eps) if allowed else 0.0


__all__ = ["TOLERANCES", "Mismatch", "mismatches"]
