"""Sample gamma, Poisson and binomial values, value for value TensorFlow's.

The methods reject; each output draws from a separate stream. Output i takes its draws from 256 i
blocks after the stream's position on (see `philox`).

Sources: Marsaglia and Tsang 2000, "A simple method for generating gamma variables"; Knuth, The Art
of Computer Programming 2, 3.4.1; Hörmann 1993, "The transformed rejection method for generating
Poisson random variables" (PTRS) and "The generation of binomial random variates" (BTRS).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from tfjit.framework.errors import InvalidArgumentError
from tfjit.framework.types.shape import format_shape
from tfjit.kernels.cpu.random import philox

Arrays = Sequence[Any]
_BLOCKS_PER_INVERSION: Final = 42  # of binomial values with few successes
_BATCH: Final = 1 << 16  # outputs worked on at once


def invalid_parameters(message: str) -> InvalidArgumentError:
    """Return the error of parameters that do not fit."""
    return InvalidArgumentError(None, None, message)


class Streams:
    """Hold the draws of many outputs.

    Each output has a position in its stream, and the unused halves of drawn blocks.
    """

    def __init__(
        self, state: np.ndarray, first: int, count: int, apart: int = philox.BLOCKS_PER_OUTPUT
    ) -> None:
        self._state = state
        self._next = np.arange(first, first + count, dtype=np.uint64) * np.uint64(apart)
        self._pairs = {kind: np.empty((count, 2)) for kind in ("uniform", "normal")}
        self._left = {kind: np.zeros(count, np.int8) for kind in ("uniform", "normal")}

    def _take(self, kind: str, who: np.ndarray) -> np.ndarray:
        """Return the next values of the given outputs.

        Of the two values of a block the second comes first.
        """
        pairs, left = self._pairs[kind], self._left[kind]
        empty = who[left[who] == 0]
        if empty.size:
            words = philox.blocks_at(self._state, self._next[empty])
            self._next[empty] += np.uint64(1)
            if kind == "normal":
                first, second = philox._pairs64(words)
            else:
                first, second = (
                    philox._unit64(words[:, 0], words[:, 1]),
                    philox._unit64(words[:, 2], words[:, 3]),
                )
            pairs[empty, 0], pairs[empty, 1] = first, second
            left[empty] = 2
        left[who] -= 1
        values: np.ndarray = pairs[who, left[who]]
        return values

    def uniform(self, who: np.ndarray) -> np.ndarray:
        """Return values of [0, 1), float64."""
        return self._take("uniform", who)

    def normal(self, who: np.ndarray) -> np.ndarray:
        """Return values of the standard normal distribution, float64."""
        return self._take("normal", who)


def gamma(state: np.ndarray, alpha: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Return a gamma value for each alpha (float64 [n]).

    order: the position of each stream's output. Source: Marsaglia and Tsang.
    """
    out = np.empty(alpha.size)
    for start in range(0, alpha.size, _BATCH):
        chosen = np.arange(start, min(start + _BATCH, alpha.size))
        streams = Streams(state, start, chosen.size)
        out[chosen] = _gamma(streams, alpha[order[chosen]])
    result = np.empty(alpha.size)
    result[order] = out
    return result


def _gamma(streams: Streams, alpha: np.ndarray) -> np.ndarray:
    out = np.empty(alpha.size)
    everyone = np.arange(alpha.size)
    plain = alpha == 1
    if plain.any():  # an exponential distribution
        out[plain] = [-math.log1p(-u) for u in streams.uniform(everyone[plain])]
    small = alpha < 1
    d = np.where(small, alpha + 1, alpha) - 1.0 / 3
    with np.errstate(invalid="ignore", divide="ignore"):
        c = 1.0 / 3 / np.sqrt(d)
    todo = everyone[~plain & (d > 0)]
    out[~plain & ~(d > 0)] = np.nan
    while todo.size:
        x = streams.normal(todo)
        v = 1 + c[todo] * x
        positive = v > 0
        who, x, v = todo[positive], x[positive], v[positive] ** 3
        u = streams.uniform(who)
        squeezed = u < 1 - 0.0331 * (x * x) * (x * x)
        with np.errstate(divide="ignore"):
            exact = np.log(u) < 0.5 * x * x + d[who] * (1 - v + np.log(v))
        taken = squeezed | exact
        accepted = who[taken]
        out[accepted] = d[accepted] * v[taken]
        low = accepted[small[accepted]]
        if low.size:
            out[low] *= streams.uniform(low) ** (1 / alpha[low])
        left = np.ones(alpha.size, np.bool_)
        left[accepted] = False
        todo = todo[left[todo]]
    return out


def poisson(streams: Streams, rate: np.ndarray, most: float) -> np.ndarray:
    """Return a Poisson value for each rate (float64).

    Values beyond `most` are drawn again.
    """
    out = np.full(rate.size, np.nan)
    who = np.arange(rate.size)
    _poisson_small(streams, rate, who[(rate < 10) & (rate >= 0)], out, most)
    _poisson_large(streams, rate, who[(rate >= 10) & np.isfinite(rate)], out, most)
    return out


def _poisson_small(
    streams: Streams, rate: np.ndarray, todo: np.ndarray, out: np.ndarray, most: float
) -> None:
    """Count the uniform factors until the product is below exp(-rate).

    Source: Knuth.
    """
    limit = np.exp(-rate)
    product = np.ones(rate.size)
    count = np.zeros(rate.size)
    while todo.size:
        product[todo] *= streams.uniform(todo)
        done = (product[todo] <= limit[todo]) & (count[todo] <= most)
        out[todo[done]] = count[todo[done]]
        todo = todo[~done]
        count[todo] += 1


def _poisson_large(
    streams: Streams, rate: np.ndarray, todo: np.ndarray, out: np.ndarray, most: float
) -> None:
    """Sample large rates by PTRS."""
    b = 0.931 + 2.53 * np.sqrt(rate)
    a = -0.059 + 0.02483 * b
    with np.errstate(all="ignore"):
        inverse = 1.1239 + 1.1328 / (b - 3.4)
        log_rate = np.log(rate)
    while todo.size:
        u = streams.uniform(todo) - 0.5
        v = streams.uniform(todo)
        edge = 0.5 - np.abs(u)
        at, bt, r = a[todo], b[todo], rate[todo]
        with np.errstate(divide="ignore", invalid="ignore"):
            k = np.floor((2 * at / edge + bt) * u + r + 0.43)
            squeezed = (edge >= 0.07) & (v <= 0.9277 - 3.6224 / (bt - 2))
            rejected = (k < 0) | ((edge < 0.013) & (v > edge))
            left_side = np.log(v * inverse[todo] / (at / (edge * edge) + bt))
            factorial = np.array([math.lgamma(x + 1) if x >= 0 else math.inf for x in k])
            exact = left_side <= -r + k * log_rate[todo] - factorial
        taken = (k <= most) & (squeezed | (~rejected & exact))
        out[todo[taken]] = k[taken]
        todo = todo[~taken]


_STIRLING: Final = (
    *(
        0.0810614667953272,
        0.0413406959554092,
        0.0276779256849983,
        0.02079067210376509,
        0.0166446911898211,
    ),
    *(
        0.0138761288230707,
        0.0118967099458917,
        0.0104112652619720,
        0.00925546218271273,
        0.00833056343336287,
    ),
)


def _stirling_tail(k: np.ndarray) -> np.ndarray:
    """Return log(k!) beyond Stirling's formula."""
    square = (k + 1) * (k + 1)
    series = (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1)
    return np.where(k <= 9, np.take(_STIRLING, np.clip(k, 0, 9).astype(np.int64)), series)


def binomial(state: np.ndarray, first: int, counts: np.ndarray, chances: np.ndarray) -> np.ndarray:
    """Return a binomial value for each pair (float64).

    The first value uses stream number `first`. A pair without a distribution gives NaN.
    """
    out = np.full(counts.size, np.nan)
    with np.errstate(invalid="ignore"):
        flipped = chances > 0.5
        p = np.where(flipped, 1 - chances, chances)
        valid = (counts >= 0) & (p >= 0) & np.isfinite(counts)
        out[valid & (p == 0) | (counts == 0)] = 0
        large = valid & (counts * p >= 10)
    who = np.arange(counts.size)
    _btrs(Streams(state, first, who.size), counts, p, who[large], out)
    _inversion(
        Streams(state, first, who.size, _BLOCKS_PER_INVERSION),
        counts,
        p,
        who[valid & ~large & (p > 0) & (counts > 0)],
        out,
    )
    return np.where(flipped, counts - out, out)


def _inversion(
    streams: Streams, counts: np.ndarray, p: np.ndarray, todo: np.ndarray, out: np.ndarray
) -> None:
    """Count the gaps between successes that fit into all trials."""
    passed, found = np.zeros(counts.size), np.zeros(counts.size)
    while todo.size:
        with np.errstate(divide="ignore"):
            passed[todo] += np.ceil(np.log(streams.uniform(todo)) / np.log1p(-p[todo]))
        done = passed[todo] > counts[todo]
        out[todo[done]] = found[todo[done]]
        todo = todo[~done]
        found[todo] += 1


def _btrs(
    streams: Streams, counts: np.ndarray, p: np.ndarray, todo: np.ndarray, out: np.ndarray
) -> None:
    """Sample by Hörmann's BTRS."""
    while todo.size:
        n, q = counts[todo], p[todo]
        spread = np.sqrt(n * q * (1 - q))
        b = 1.15 + 2.53 * spread
        a = -0.0873 + 0.0248 * b + 0.01 * q
        alpha = (2.83 + 5.1 / b) * spread
        m, r = np.floor((n + 1) * q), q / (1 - q)
        u = streams.uniform(todo) - 0.5
        v = streams.uniform(todo)
        edge = 0.5 - np.abs(u)
        with np.errstate(all="ignore"):
            k = np.floor((2 * a / edge + b) * u + n * q + 0.5)
            squeezed = (edge >= 0.07) & (v <= 0.92 - 4.2 / b)
            bound = (m + 0.5) * np.log((m + 1) / (r * (n - m + 1))) + (n + 1) * np.log(
                (n - m + 1) / (n - k + 1)
            )
            bound += (
                (k + 0.5) * np.log(r * (n - k + 1) / (k + 1))
                + _stirling_tail(m)
                + _stirling_tail(n - m)
            )
            bound -= _stirling_tail(k) + _stirling_tail(n - k)
            exact = np.log(v * alpha / (a / (edge * edge) + b)) <= bound
        taken = squeezed | ((k >= 0) & (k <= n) & exact)
        out[todo[taken]] = k[taken]
        todo = todo[~taken]


# the ops


def by_parameter(parameters: int, samples: int) -> np.ndarray:
    """Return each stream's position in an array [samples, parameters].

    The streams of all samples of a parameter follow one another.
    """
    return np.arange(parameters * samples).reshape(samples, parameters).T.reshape(-1)


def poisson_values(
    state: np.ndarray, rate: np.ndarray, order: np.ndarray, dtype: np.dtype[Any]
) -> np.ndarray:
    """Return a Poisson value for each rate.

    order: the position of each stream's output.
    """
    most = float(np.iinfo(dtype).max if dtype.kind in "iu" else np.finfo(dtype).max)
    out = np.empty(rate.size)
    for start in range(0, rate.size, _BATCH):
        chosen = order[start : start + _BATCH]
        out[chosen] = poisson(Streams(state, start, chosen.size), rate[chosen], most)
    with np.errstate(invalid="ignore"):
        return out.astype(dtype)


def spread_parameter(
    value: np.ndarray, shape: tuple[int, ...], what: str
) -> tuple[np.ndarray, int, int]:
    """Repeat a parameter in the order of the output.

    Returns the repeated parameters, their number, and the samples of each. The parameter's shape is
    the end of the output's. Raises InvalidArgumentError for others.
    """
    if value.ndim > len(shape) or shape[len(shape) - value.ndim :] != value.shape:
        shown = f"{format_shape(shape)} and {format_shape(value.shape)}"
        raise invalid_parameters(
            f"Shape passed in must end with broadcasted shape of {what}: {shown}"
        )
    samples = size_of(shape[: len(shape) - value.ndim])
    return np.tile(value.reshape(-1).astype(np.float64), samples), value.size, samples


def binomial_values(
    state: np.ndarray,
    shape: tuple[int, ...],
    counts: np.ndarray,
    chances: np.ndarray,
    dtype: np.dtype[Any],
) -> np.ndarray:
    """Return binomial values of a shape.

    The shape must end with the common shape of counts and chances. Raises InvalidArgumentError for
    others.
    """
    try:
        common = np.broadcast_shapes(counts.shape, chances.shape)
    except ValueError:
        shown = f"{format_shape(counts.shape)} and {format_shape(chances.shape)}"
        raise invalid_parameters(
            f"counts and probs must have compatible batch dimensions: {shown}"
        ) from None
    many, parameters, samples = spread_parameter(
        np.broadcast_to(counts, common), shape, "counts and probs"
    )
    likely = spread_parameter(np.broadcast_to(chances, common), shape, "counts and probs")[0]
    order = by_parameter(parameters, samples)
    out = np.empty(many.size)
    for start in range(0, many.size, _BATCH):
        chosen = order[start : start + _BATCH]
        out[chosen] = binomial(state, start, many[chosen], likely[chosen])
    with np.errstate(invalid="ignore"):
        return out.astype(dtype).reshape(shape)


def shape_of(value: np.ndarray) -> tuple[int, ...]:
    """Return the sizes in a shape tensor. Raises InvalidArgumentError for others."""
    if value.ndim != 1:
        raise InvalidArgumentError(
            None, None, f"shape must be a vector of {{int32,int64}}, got shape {list(value.shape)}"
        )
    for size in value:
        if size < 0:
            raise InvalidArgumentError(None, None, f"Dimension {size} must be >= 0")
    return tuple(int(size) for size in value)


def size_of(shape: Sequence[int]) -> int:
    """Return the number of elements of a shape."""
    n = 1
    for size in shape:
        n *= size
    return n


FLOAT_STREAMS: dict[str, Callable[[np.ndarray, int, np.dtype[Any]], np.ndarray]] = {
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


def integer_bounds(low: np.ndarray, high: np.ndarray) -> tuple[int, int]:
    """Return the bounds of integers to draw. Raises InvalidArgumentError."""
    if low.ndim:
        raise InvalidArgumentError(None, None, f"minval must be 0-D, got shape {list(low.shape)}")
    if high.ndim:
        raise InvalidArgumentError(None, None, f"maxval must be 0-D, got shape {list(high.shape)}")
    return int(low), int(high)


def categorical(
    state: np.ndarray, logits: np.ndarray, samples: int, dtype: np.dtype[Any]
) -> np.ndarray:
    """Sample by inverse transform over unnormalised class weights.

    The rows share one stream of doubles, drawn in order.
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


def multinomial_arguments(logits: np.ndarray, count: np.ndarray) -> int:
    """Return the number of samples. Raises InvalidArgumentError."""
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
