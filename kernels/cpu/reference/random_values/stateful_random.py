"""Draw from random streams that a session keeps, in NumPy.

See `philox`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tfjit.framework.errors import InvalidArgumentError, UnimplementedError
from tfjit.kernels.cpu.random import philox
from tfjit.kernels.cpu.reference.random_values.distributions import (
    FLOAT_STREAMS,
    by_parameter,
    categorical,
    gamma,
    integer_bounds,
    multinomial_arguments,
    poisson_values,
    shape_of,
    size_of,
)
from tfjit.kernels.random_stream import advance
from tfjit.kernels.registry import NodeSpec, initial_state, reference

Arrays = Sequence[Any]


@initial_state("RandomGamma", "RandomPoisson", "RandomPoissonV2")
def _position(node: NodeSpec) -> np.ndarray:
    return initial_stream(node)


@reference("RandomGamma")
def _random_gamma(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Sample gamma values of shape + shape of alpha."""
    shape, alpha = shape_of(np.asarray(inputs[0])), np.asarray(inputs[1])
    samples = size_of(shape)
    if not samples or not alpha.size:
        return (np.empty((*shape, *alpha.shape), alpha.dtype),)
    state = _stream_state(node)
    out = gamma(
        state,
        np.tile(alpha.reshape(-1).astype(np.float64), samples),
        by_parameter(alpha.size, samples),
    )
    advance(state, out.size * philox.BLOCKS_PER_OUTPUT)
    return (out.astype(alpha.dtype).reshape(*shape, *alpha.shape),)


@reference("RandomPoisson", "RandomPoissonV2")
def _random_poisson(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Sample Poisson values of shape + shape of rate."""
    shape, rate = shape_of(np.asarray(inputs[0])), np.asarray(inputs[1])
    dtype = np.dtype(node.attrs["dtype"].as_numpy_dtype)
    samples = size_of(shape)
    if not samples or not rate.size:
        return (np.empty((*shape, *rate.shape), dtype),)
    state = _stream_state(node)
    out = poisson_values(
        state,
        np.tile(rate.reshape(-1).astype(np.float64), samples),
        by_parameter(rate.size, samples),
        dtype,
    )
    advance(state, out.size * philox.BLOCKS_PER_OUTPUT)
    return (out.reshape(*shape, *rate.shape),)


@reference("NonDeterministicInts")
def _any_integers(node: NodeSpec, inputs: Arrays) -> Arrays:
    if node.state is None:
        raise UnimplementedError(
            None, None, f"{node.op} draws anew in each run, which folding must not"
        )
    shape = shape_of(np.asarray(inputs[0]))
    dtype = np.dtype(node.attrs["dtype"].as_numpy_dtype)
    out = philox.full_range(philox.seeded(0, 0), size_of(shape), dtype)
    return (out.reshape(shape),)


@initial_state("NonDeterministicInts")
def _nothing_kept(node: NodeSpec) -> np.ndarray:
    return np.zeros(3, np.uint64)


_STATEFUL = (
    "RandomUniform",
    "RandomStandardNormal",
    "TruncatedNormal",
    "RandomUniformInt",
    "RandomShuffle",
    "Multinomial",
)


@initial_state(*_STATEFUL)
def initial_stream(node: NodeSpec) -> np.ndarray:
    """Return the first position of the node's stream.

    uint64 [3], as `philox` lays the position out.
    """
    return philox.seeded(int(node.attrs.get("seed", 0)), int(node.attrs.get("seed2", 0)))


def _stream_state(node: NodeSpec) -> np.ndarray:
    if node.state is None:
        raise UnimplementedError(
            None, None, f"{node.op} runs only with its stream's state, which folding does not have"
        )
    return node.state.view(np.uint64)


@reference("RandomUniform", "RandomStandardNormal", "TruncatedNormal")
def _random(node: NodeSpec, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    shape = shape_of(inputs[0])
    n, state = size_of(shape), _stream_state(node)
    out = FLOAT_STREAMS[node.op](state, n, np.dtype(node.attrs["dtype"].as_numpy_dtype))
    advance(state, n * philox.BLOCKS_PER_OUTPUT)
    return (out.reshape(shape),)


@reference("RandomUniformInt")
def _random_integers(node: NodeSpec, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    low, high = integer_bounds(inputs[1], inputs[2])
    shape = shape_of(inputs[0])
    n, dtype = size_of(shape), inputs[1].dtype
    if n == 0:
        return (np.empty(shape, dtype),)
    if low >= high:
        raise InvalidArgumentError(None, None, f"Need minval < maxval, got {low} >= {high}")
    state = _stream_state(node)
    out = philox.integers(state, n, low, high, dtype)
    advance(state, n * philox.BLOCKS_PER_OUTPUT)
    return (out.reshape(shape),)


@reference("RandomShuffle")
def _shuffle(node: NodeSpec, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    (value,) = inputs
    if value.ndim == 0 or value.shape[0] <= 1 or value.size <= 1:
        return (value.copy(),)
    rows = value.shape[0]
    state = _stream_state(node)
    count = -(-(rows - 1) // 4)
    draws = philox.blocks(state, 0, count).reshape(-1)
    advance(state, count)
    order = list(range(rows))
    for i, draw in enumerate(draws[: rows - 1].tolist()):
        j = i + draw % (rows - i)
        order[i], order[j] = order[j], order[i]
    return (value[order],)


@reference("Multinomial")
def _multinomial(node: NodeSpec, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    logits = inputs[0]
    samples = multinomial_arguments(logits, inputs[1])
    dtype = np.dtype(node.attrs["output_dtype"].as_numpy_dtype)
    if samples == 0 or logits.shape[0] == 0:
        return (np.empty((logits.shape[0], samples), dtype),)
    state = _stream_state(node)
    out = categorical(state, logits, samples, dtype)
    rounded = -(-samples // 4) * 4 * 2
    advance(state, logits.shape[0] * rounded * philox.BLOCKS_PER_OUTPUT)
    return (out,)
