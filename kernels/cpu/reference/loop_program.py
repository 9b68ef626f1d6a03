"""Run a loop program as its members' reference kernels, iteration by iteration."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tfjit.kernels.registry import NodeSpec, reference


@reference("_Loop")
def _loop(spec: NodeSpec, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    results: list[np.ndarray] = spec.attrs["program"].run(inputs)
    return results
