"""Random ops in NumPy, value for value TensorFlow's streams (see `philox`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tfjit.framework.errors import InvalidArgumentError, UnimplementedError
from tfjit.kernels.cpu.random import philox
from tfjit.kernels.registry import NodeSpec, initial_state, reference

_STATEFUL = (
    "RandomUniform",
    "RandomStandardNormal",
    "TruncatedNormal",
    "RandomUniformInt",
    "RandomShuffle",
    "Multinomial",
)


@initial_state(*_STATEFUL)
def _stream(node: NodeSpec) -> np.ndarray:
    """The first position of the node's stream: uint64 [3], as `philox` lays it out."""
    return philox.seeded(int(node.attrs.get("seed", 0)), int(node.attrs.get("seed2", 0)))


def _shape(value: np.ndarray) -> tuple[int, ...]:
    if value.ndim != 1:
        raise InvalidArgumentError(
            None, None, f"shape must be a vector of {{int32,int64}}, got shape {list(value.shape)}"
        )
    for size in value:
        if size < 0:
            raise InvalidArgumentError(None, None, f"Dimension {size} must be >= 0")
    return tuple(int(size) for size in value)


def _size(shape: Sequence[int]) -> int:
    n = 1
    for size in shape:
        n *= size
    return n


def _state(node: NodeSpec) -> np.ndarray:
    if node.state is None:
        raise UnimplementedError(
            None, None, f"{node.op} runs only with its stream's state, which folding does not have"
        )
    return node.state.view(np.uint64)


_FLOAT_STREAMS: dict[str, Callable[[np.ndarray, int, np.dtype[Any]], np.ndarray]] = {
    "RandomUniform": philox.uniform,
    "RandomStandardNormal": philox.normal,
    "TruncatedNormal": philox.truncated_normal,
    "StatelessRandomUniform": philox.uniform,
    "StatelessRandomNormal": philox.normal,
    "StatelessTruncatedNormal": philox.truncated_normal,
    "StatelessRandomUniformV2": philox.uniform,
    "StatelessRandomNormalV2": philox.normal,
    "StatelessTruncatedNormalV2": philox.truncated_normal,
    "StatelessRandomUniformFullInt": philox.full_range,
    "StatelessRandomUniformFullIntV2": philox.full_range,
}


@reference("RandomUniform", "RandomStandardNormal", "TruncatedNormal")
def _random(node: NodeSpec, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    shape = _shape(inputs[0])
    n, state = _size(shape), _state(node)
    out = _FLOAT_STREAMS[node.op](state, n, np.dtype(node.attrs["dtype"].as_numpy_dtype))
    philox.advance(state, n * philox.BLOCKS_PER_OUTPUT)
    return (out.reshape(shape),)


def _bounds(low: np.ndarray, high: np.ndarray) -> tuple[int, int]:
    if low.ndim:
        raise InvalidArgumentError(None, None, f"minval must be 0-D, got shape {list(low.shape)}")
    if high.ndim:
        raise InvalidArgumentError(None, None, f"maxval must be 0-D, got shape {list(high.shape)}")
    return int(low), int(high)


@reference("RandomUniformInt")
def _random_integers(node: NodeSpec, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    low, high = _bounds(inputs[1], inputs[2])
    shape = _shape(inputs[0])
    n, dtype = _size(shape), inputs[1].dtype
    if n == 0:
        return (np.empty(shape, dtype),)
    if low >= high:
        raise InvalidArgumentError(None, None, f"Need minval < maxval, got {low} >= {high}")
    state = _state(node)
    out = philox.integers(state, n, low, high, dtype)
    philox.advance(state, n * philox.BLOCKS_PER_OUTPUT)
    return (out.reshape(shape),)


@reference("RandomShuffle")
def _shuffle(node: NodeSpec, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    (value,) = inputs
    if value.ndim == 0 or value.shape[0] <= 1 or value.size <= 1:
        return (value.copy(),)
    rows = value.shape[0]
    state = _state(node)
    count = -(-(rows - 1) // 4)
    draws = philox.blocks(state, 0, count).reshape(-1)
    philox.advance(state, count)
    order = list(range(rows))
    for i, draw in enumerate(draws[: rows - 1].tolist()):
        j = i + draw % (rows - i)
        order[i], order[j] = order[j], order[i]
    return (value[order],)


def _categorical(
    state: np.ndarray, logits: np.ndarray, samples: int, dtype: np.dtype[Any]
) -> np.ndarray:
    """Inverse transform over unnormalised class weights; the rows share one stream of doubles,
    drawn in order.
    """
    rows = logits.shape[0]
    words = philox.blocks(state, 0, -(-rows * samples // 2)).reshape(-1)
    draws = philox._unit64(words[0::2], words[1::2])[: rows * samples].reshape(rows, samples)
    out = np.empty((rows, samples), dtype)
    for row in range(rows):
        finite = np.isfinite(logits[row])
        top = logits[row][finite].max() if finite.any() else np.finfo(logits.dtype).min
        weights = np.exp(logits[row].astype(np.float64) - float(top))
        cumulative = np.cumsum(np.where(finite, weights, 0.0))
        out[row] = np.searchsorted(cumulative, draws[row] * cumulative[-1], side="right")
    return out


def _multinomial_arguments(logits: np.ndarray, count: np.ndarray) -> int:
    if logits.ndim != 2:
        raise InvalidArgumentError(
            None, None, f"logits should be a matrix, got shape {list(logits.shape)}"
        )
    if count.ndim:
        raise InvalidArgumentError(
            None, None, f"num_samples should be a scalar, got shape {list(count.shape)}"
        )
    samples = int(count)
    if samples < 0:
        raise InvalidArgumentError(None, None, f"num_samples should be nonnegative, got {samples}")
    if logits.shape[1] <= 0:
        raise InvalidArgumentError(
            None, None, f"num_classes should be positive, got {logits.shape[1]}"
        )
    return samples


@reference("Multinomial")
def _multinomial(node: NodeSpec, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    logits = inputs[0]
    samples = _multinomial_arguments(logits, inputs[1])
    dtype = np.dtype(node.attrs["output_dtype"].as_numpy_dtype)
    if samples == 0 or logits.shape[0] == 0:
        return (np.empty((logits.shape[0], samples), dtype),)
    state = _state(node)
    out = _categorical(state, logits, samples, dtype)
    rounded = -(-samples // 4) * 4 * 2
    philox.advance(state, logits.shape[0] * rounded * philox.BLOCKS_PER_OUTPUT)
    return (out,)


def _stateless_seed(value: np.ndarray) -> np.ndarray:
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
    shape = _shape(inputs[0])
    state = _stateless_seed(inputs[1])
    out = _FLOAT_STREAMS[node.op](state, _size(shape), np.dtype(node.attrs["dtype"].as_numpy_dtype))
    return (out.reshape(shape),)


@reference("StatelessRandomUniformInt")
def _stateless_integers(node: NodeSpec, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    shape = _shape(inputs[0])
    state = _stateless_seed(inputs[1])
    return (_integers_between(shape, state, inputs[2], inputs[3]),)


def _integers_between(
    shape: tuple[int, ...], state: np.ndarray, low: np.ndarray, high: np.ndarray
) -> np.ndarray:
    first, last = _bounds(low, high)
    if first >= last:
        raise InvalidArgumentError(None, None, f"Need minval < maxval, got {first} >= {last}")
    return philox.integers(state, _size(shape), first, last, low.dtype).reshape(shape)


@reference("StatelessMultinomial")
def _stateless_multinomial(node: NodeSpec, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    samples = _multinomial_arguments(inputs[0], inputs[1])
    dtype = np.dtype(node.attrs["output_dtype"].as_numpy_dtype)
    if samples == 0 or inputs[0].shape[0] == 0:
        return (np.empty((inputs[0].shape[0], samples), dtype),)
    return (_categorical(_stateless_seed(inputs[2]), inputs[0], samples, dtype),)


_PHILOX, _THREEFRY, _AUTO = 1, 2, 3


@reference("StatelessRandomGetKeyCounter")
def _key_counter(node: NodeSpec, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    state = _stateless_seed(inputs[0])
    return state[2:3].copy(), state[:2].copy()


@reference("StatelessRandomGetKeyCounterAlg")
def _key_counter_algorithm(node: NodeSpec, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    state = _stateless_seed(inputs[0])
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
    shape = _shape(inputs[0])
    state = _explicit_state(*inputs[1:4])
    out = _FLOAT_STREAMS[node.op](state, _size(shape), np.dtype(node.attrs["dtype"].as_numpy_dtype))
    return (out.reshape(shape),)


@reference("StatelessRandomUniformIntV2")
def _stateless_integers_v2(node: NodeSpec, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    shape = _shape(inputs[0])
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
