"""Compute values of random generators in NumPy.

The variable that holds a generator's position belongs to the runtime. A kernel reads the position
from `NodeSpec.state`, and does not advance the position.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from tfjit.kernels.cpu.random import philox
from tfjit.kernels.cpu.reference.random_values.distributions import binomial_values
from tfjit.kernels.registry import NodeSpec, reference

_STREAMS: Final[dict[str, Callable[[np.ndarray, int, np.dtype[Any]], np.ndarray]]] = {
    "StatefulUniform": philox.uniform,
    "StatefulUniformFullInt": philox.full_range,
    "StatefulStandardNormalV2": philox.normal,
    "StatefulTruncatedNormal": philox.truncated_normal,
}


def _given(node: NodeSpec, shape: Any) -> tuple[np.ndarray, tuple[int, ...], int, np.dtype[Any]]:
    """Return position, shape and number of the values, and their dtype."""
    assert node.state is not None  # the runtime gives it
    sizes = tuple(np.asarray(shape).tolist())
    count = int(np.prod(sizes, dtype=np.int64))
    return node.state, sizes, count, np.dtype(node.attrs["dtype"].as_numpy_dtype)


@reference(*_STREAMS)
def _values(node: NodeSpec, inputs: Sequence[Any]) -> Sequence[np.ndarray]:
    position, shape, count, dtype = _given(node, inputs[2])
    return (_STREAMS[node.op](position, count, dtype).reshape(shape),)


@reference("StatefulUniformInt")
def _integers(node: NodeSpec, inputs: Sequence[Any]) -> Sequence[np.ndarray]:
    position, shape, count, dtype = _given(node, inputs[2])
    values = philox.integers(position, count, int(inputs[3]), int(inputs[4]), dtype)
    return (values.reshape(shape),)


@reference("StatefulRandomBinomial")
def _binomial(node: NodeSpec, inputs: Sequence[Any]) -> Sequence[np.ndarray]:
    position, shape, _, dtype = _given(node, inputs[2])
    counts, chances = np.asarray(inputs[3]), np.asarray(inputs[4])
    return (binomial_values(position, shape, counts, chances, dtype),)
