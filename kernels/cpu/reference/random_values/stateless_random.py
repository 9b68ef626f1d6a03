"""Draw random values from seeds, keys and counters, in NumPy.

See `philox`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tfjit.framework.errors import InvalidArgumentError, UnimplementedError
from tfjit.framework.types.shape import format_shape
from tfjit.kernels.cpu.random import philox
from tfjit.kernels.cpu.reference.random_values.distributions import (
    FLOAT_STREAMS,
    binomial_values,
    by_parameter,
    categorical,
    gamma,
    integer_bounds,
    multinomial_arguments,
    poisson_values,
    shape_of,
    size_of,
    spread_parameter,
)
from tfjit.kernels.cpu.reference.random_values.index_shuffle import index_shuffle
from tfjit.kernels.registry import NodeSpec, reference

Arrays = Sequence[Any]


def _stateless_gamma(shape: tuple[int, ...], state: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    if not size_of(shape):
        return np.empty(shape, alpha.dtype)
    values, parameters, samples = spread_parameter(alpha, shape, "alpha")
    return (
        gamma(state, values, by_parameter(parameters, samples)).astype(alpha.dtype).reshape(shape)
    )


@reference("StatelessRandomGammaV2")
def _gamma_v2(node: NodeSpec, inputs: Arrays) -> Arrays:
    return (
        _stateless_gamma(
            shape_of(np.asarray(inputs[0])),
            _seed_state(np.asarray(inputs[1])),
            np.asarray(inputs[2]),
        ),
    )


@reference("StatelessRandomGammaV3")
def _gamma_v3(node: NodeSpec, inputs: Arrays) -> Arrays:
    shape = shape_of(np.asarray(inputs[0]))
    return (
        _stateless_gamma(
            shape, _explicit_state(*(np.asarray(v) for v in inputs[1:4])), np.asarray(inputs[4])
        ),
    )


@reference("StatelessRandomPoisson")
def _stateless_poisson(node: NodeSpec, inputs: Arrays) -> Arrays:
    shape, state, rate = (
        shape_of(np.asarray(inputs[0])),
        _seed_state(np.asarray(inputs[1])),
        np.asarray(inputs[2]),
    )
    dtype = np.dtype(node.attrs["dtype"].as_numpy_dtype)
    if not size_of(shape):
        return (np.empty(shape, dtype),)
    values, parameters, samples = spread_parameter(rate, shape, "lam")
    return (poisson_values(state, values, by_parameter(parameters, samples), dtype).reshape(shape),)


@reference("StatelessRandomBinomial")
def _stateless_binomial(node: NodeSpec, inputs: Arrays) -> Arrays:
    shape, state = shape_of(np.asarray(inputs[0])), _seed_state(np.asarray(inputs[1]))
    dtype = np.dtype(node.attrs["dtype"].as_numpy_dtype)
    return (binomial_values(state, shape, np.asarray(inputs[2]), np.asarray(inputs[3]), dtype),)


def _seed_state(value: np.ndarray) -> np.ndarray:
    if value.shape != (2,):
        raise InvalidArgumentError(None, None, f"seed must have shape [2], not {list(value.shape)}")
    return philox.scrambled(int(value[0]), int(value[1]))


@reference(
    "StatelessRandomUniform",
    "StatelessRandomNormal",
    "StatelessTruncatedNormal",
    "StatelessRandomUniformFullInt",
)
def _stateless(node: NodeSpec, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    shape = shape_of(inputs[0])
    state = _seed_state(inputs[1])
    out = FLOAT_STREAMS[node.op](
        state, size_of(shape), np.dtype(node.attrs["dtype"].as_numpy_dtype)
    )
    return (out.reshape(shape),)


@reference("StatelessRandomUniformInt")
def _stateless_integers(node: NodeSpec, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    shape = shape_of(inputs[0])
    state = _seed_state(inputs[1])
    return (_integers_between(shape, state, inputs[2], inputs[3]),)


def _integers_between(
    shape: tuple[int, ...], state: np.ndarray, low: np.ndarray, high: np.ndarray
) -> np.ndarray:
    first, last = integer_bounds(low, high)
    if first >= last:
        raise InvalidArgumentError(None, None, f"Need minval < maxval, got {first} >= {last}")
    return philox.integers(state, size_of(shape), first, last, low.dtype).reshape(shape)


@reference("StatelessMultinomial")
def _stateless_multinomial(node: NodeSpec, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    samples = multinomial_arguments(inputs[0], inputs[1])
    dtype = np.dtype(node.attrs["output_dtype"].as_numpy_dtype)
    if samples == 0 or inputs[0].shape[0] == 0:
        return (np.empty((inputs[0].shape[0], samples), dtype),)
    return (categorical(_seed_state(inputs[2]), inputs[0], samples, dtype),)


_PHILOX, _THREEFRY, _AUTO = 1, 2, 3


@reference("StatelessRandomGetKeyCounter")
def _key_counter(node: NodeSpec, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    state = _seed_state(inputs[0])
    return state[2:3].copy(), state[:2].copy()


@reference("StatelessRandomGetKeyCounterAlg")
def _key_counter_algorithm(node: NodeSpec, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    state = _seed_state(inputs[0])
    return state[2:3].copy(), state[:2].copy(), np.array(_PHILOX, np.int32)


@reference("StatelessRandomGetAlg")
def _algorithm(node: NodeSpec, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    return (np.array(_PHILOX, np.int32),)


def _explicit_state(key: np.ndarray, counter: np.ndarray, algorithm: np.ndarray) -> np.ndarray:
    if key.shape != (1,):
        raise InvalidArgumentError(None, None, f"key must have shape [1], not {list(key.shape)}")
    if counter.ndim != 1 or counter.shape[0] < 2:
        raise InvalidArgumentError(
            None,
            None,
            f"counter must be a vector with length at least 2, not shape {list(counter.shape)}",
        )
    chosen = int(algorithm)
    if chosen == _THREEFRY:
        raise UnimplementedError(
            None,
            None,
            "the ThreeFry random algorithm has no kernel on CPU; use Philox (1) or auto_select (3)",
        )
    if chosen not in (_PHILOX, _AUTO):
        raise InvalidArgumentError(None, None, f"Unsupported algorithm id: {chosen}")
    return np.array([counter[0], counter[1], key[0]], np.uint64)


@reference(
    "StatelessRandomUniformV2",
    "StatelessRandomNormalV2",
    "StatelessTruncatedNormalV2",
    "StatelessRandomUniformFullIntV2",
)
def _stateless_v2(node: NodeSpec, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    shape = shape_of(inputs[0])
    state = _explicit_state(*inputs[1:4])
    out = FLOAT_STREAMS[node.op](
        state, size_of(shape), np.dtype(node.attrs["dtype"].as_numpy_dtype)
    )
    return (out.reshape(shape),)


@reference("StatelessRandomUniformIntV2")
def _stateless_integers_v2(node: NodeSpec, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    shape = shape_of(inputs[0])
    state = _explicit_state(*inputs[1:4])
    return (_integers_between(shape, state, inputs[4], inputs[5]),)


@reference("StatelessShuffle")
def _stateless_shuffle(node: NodeSpec, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    value = inputs[0]
    state = _explicit_state(*inputs[1:4])
    if value.ndim == 0 or value.shape[0] <= 1:
        return (value.copy(),)
    rows = value.shape[0]
    draws = philox.blocks(state, 0, -(-(rows - 1) // 4)).reshape(-1)
    order = list(range(rows))
    for i, draw in enumerate(draws[: rows - 1].tolist()):
        j = i + draw % (rows - i)
        order[i], order[j] = order[j], order[i]
    return (value[order],)


@reference("RandomIndexShuffle")
def _shuffled_indices(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Return the places of indices in permutations of 0..max_index.

    index, max_index: scalars or [n]; seed: [3] or [n, 3].
    """
    index, seed, largest = (np.asarray(v) for v in inputs)
    count = max(index.size, largest.size, seed.size // 3)
    if index.shape not in ((), (count,)):
        raise InvalidArgumentError(None, None, "Index bust be a scalar or vector.")
    if seed.shape not in ((3,), (count, 3)):
        raise InvalidArgumentError(
            None,
            None,
            f"Seed must be a vector of size [3] or a matrix of size [{count}, 3] but got "
            f"{format_shape(seed.shape)}.",
        )
    if largest.shape not in ((), (count,)):
        raise InvalidArgumentError(
            None,
            None,
            "Maxval must be a scalar or a vector of the same size as index but got "
            f"{format_shape(largest.shape)}",
        )
    rounds = int(node.attrs["rounds"])
    scalars = not index.ndim and seed.ndim == 1 and not largest.ndim
    keys = np.broadcast_to(seed, (count, 3)).astype(np.uint64) & np.uint64(0xFFFFFFFF)
    places = [
        index_shuffle(int(i), key, int(limit), rounds)
        for i, key, limit in zip(
            np.broadcast_to(index, count).tolist(),
            keys.tolist(),
            np.broadcast_to(largest, count).tolist(),
            strict=True,
        )
    ]
    return (np.array(places, index.dtype).reshape(() if scalars else (count,)),)
