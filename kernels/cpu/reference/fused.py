"""Run a fused group as its members' reference kernels, one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tfjit.kernels.float_control import without_warnings
from tfjit.kernels.registry import NodeSpec, reference


@reference("_Fused")
@without_warnings
def _fused(spec: NodeSpec, inputs: Sequence[np.ndarray]) -> list[Any]:
    results: list[Any] = spec.attrs["group"].run_reference(inputs)
    return results
