"""Sample candidate classes, value for value TensorFlow's.

Candidates are drawn beside the true classes; each comes with its expected count. The draws are
taken from the Philox stream (see `philox`) in order. A run reserves 512 blocks a candidate, however
many it draws.

Source of the table of `FixedUnigramCandidateSampler`: Walker's alias method, Vose 1991.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from tfjit.framework.errors import InvalidArgumentError, NotFoundError, UnimplementedError
from tfjit.framework.types.shape import format_shape
from tfjit.kernels.cpu.random import philox
from tfjit.kernels.cpu.random.libm import expm1f, log1pf
from tfjit.kernels.cpu.random.word_draws import WordDraws
from tfjit.kernels.random_stream import BLOCKS_PER_CANDIDATE, advance
from tfjit.kernels.registry import NodeSpec, initial_state, reference

Arrays = Sequence[Any]
_LOWEST: Final = np.finfo(np.float32).min


def _fail(message: str) -> InvalidArgumentError:
    return InvalidArgumentError(None, None, message)


class _Uniform:
    def __init__(self, node: NodeSpec) -> None:
        self.range = int(node.attrs["range_max"])

    def sample(self, draws: WordDraws) -> int:
        return draws.below_64(self.range)

    def probability(self, value: int) -> float:
        return 1.0 / self.range


class _LogUniform:
    """Sample log-uniformly.

    P(k) = log((k + 2) / (k + 1)) / log(range + 1).
    """

    def __init__(self, node: NodeSpec) -> None:
        self.range = int(node.attrs["range_max"])
        self.log_range = math.log1p(self.range)

    def sample(self, draws: WordDraws) -> int:
        return (int(math.exp(draws.unit_64() * self.log_range)) - 1) % self.range

    def probability(self, value: int) -> float:
        return math.log((value + 2.0) / (value + 1.0)) / self.log_range


class _Learned:
    """Sample by the number of earlier true occurrences, plus one.

    The counts are part of the node's state, behind its stream.
    """

    def __init__(self, node: NodeSpec) -> None:
        self.range = int(node.attrs["range_max"])
        assert node.state is not None
        self.counts = node.state[3:]
        self.ends = np.cumsum(self.counts)

    def sample(self, draws: WordDraws) -> int:
        return int(np.searchsorted(self.ends, draws.below(int(self.ends[-1])), side="right"))

    def probability(self, value: int) -> float:
        return float(self.counts[value]) / float(self.ends[-1])


def _weights(node: NodeSpec) -> list[float]:
    """Return the unigram counts of every class.

    They are given by the attrs or by the last fields of a file's lines. The reserved ids have none.
    """
    a = node.attrs
    reserved = [0.0] * int(a["num_reserved_ids"])
    if a["vocab_file"] and a["unigrams"]:
        raise _fail("Must only provide vocab_file or unigrams, not both.")
    if not a["vocab_file"]:
        if not a["unigrams"]:
            raise _fail("Must provide either vocab_file or unigrams.")
        return [*reserved, *map(float, a["unigrams"])]
    path = a["vocab_file"].decode(errors="surrogateescape")
    try:
        with open(path, "rb") as file:
            fields = [line.rstrip(b"\r\n").split(b",")[-1] for line in file]
        return [*reserved, *(float(field) for field in fields)]
    except FileNotFoundError:
        raise NotFoundError(None, None, f"{path}; No such file or directory") from None
    except ValueError as error:
        raise _fail(f"vocab_file {path}: the last field of a line is its weight: {error}") from None


class _Fixed:
    def __init__(self, node: NodeSpec) -> None:
        a = node.attrs
        self.range, self.shards, self.shard = (
            int(a["range_max"]),
            int(a["num_shards"]),
            int(a["shard"]),
        )
        distortion = float(a["distortion"])
        given = _weights(node)
        powers = [
            math.pow(w, distortion) if k >= int(a["num_reserved_ids"]) else 0.0
            for k, w in enumerate(given)
        ]
        own = np.array(powers, np.float32)[self.shard :: self.shards]
        if len(own) != self.range:  # weights of other shards do not count, as in TensorFlow
            raise _fail(f"range is {self.range} must be equal to weights size  {len(own)}")
        self.weights, self.total = own, float(sum(own.tolist()))
        self.kept, self.other = self._table(own)

    @staticmethod
    def _table(weights: np.ndarray) -> tuple[list[np.float32], list[int]]:
        n = len(weights)
        total = float(sum(weights.tolist()))
        share = [float(w) * n / total for w in weights]
        low = [k for k in range(n) if share[k] < 1]
        high = [k for k in range(n) if share[k] >= 1]
        other = list(range(n))
        while low and high:
            small, large = low.pop(), high.pop()
            other[small] = large
            share[large] -= 1 - share[small]
            (low if share[large] < 1 else high).append(large)
        for k in (*low, *high):  # rounding left them a little beside 1
            share[k] = 1.0
        return [np.float32(s) for s in share], other

    def sample(self, draws: WordDraws) -> int:
        chance, place = draws.unit(), draws.below(len(self.kept))
        return (
            place if chance < self.kept[place] else self.other[place]
        ) * self.shards + self.shard

    def probability(self, value: int) -> float:
        if (value - self.shard) % self.shards:
            return 0.0
        return float(self.weights[value // self.shards]) / self.total


_SAMPLERS: Final[dict[str, Callable[[NodeSpec], Any]]] = {
    "UniformCandidateSampler": _Uniform,
    "LogUniformCandidateSampler": _LogUniform,
    "LearnedUnigramCandidateSampler": _Learned,
    "ThreadUnsafeUnigramCandidateSampler": _Learned,
    "FixedUnigramCandidateSampler": _Fixed,
}


@initial_state(*_SAMPLERS)
def _stream(node: NodeSpec) -> np.ndarray:
    position = philox.seeded(int(node.attrs["seed"]), int(node.attrs["seed2"]))
    if _SAMPLERS[node.op] is not _Learned:
        return position
    return np.concatenate([position, np.ones(int(node.attrs["range_max"]), np.uint64)])


def _expected(probability: float, count: int, tries: int) -> np.float32:
    """Return a class's expected count among `count` candidates from `tries` draws."""
    p = np.float32(probability)
    return p * np.float32(count) if tries == count else -expm1f(np.float32(tries) * log1pf(-p))


def _true_classes(node: NodeSpec, value: Any) -> np.ndarray:
    classes, columns = np.asarray(value), int(node.attrs["num_true"])
    if classes.ndim != 2:
        raise _fail("true_classes must be a matrix")
    if classes.shape[1] != columns:
        raise _fail(
            f"true_classes must have num_true columns, expected: {classes.shape[1]} was: {columns}"
        )
    return classes


def _check_range(classes: np.ndarray, size: int) -> None:
    outside = (classes < 0) | (classes >= size)
    if outside.any():
        raise _fail(f"`true_candidate` out of range [0, {size}), received {classes[outside][0]}")


@reference(*_SAMPLERS)
def _candidates(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Return (candidates, expected count of each true class, of each candidate)."""
    classes = _true_classes(node, inputs[0])
    if node.state is None:
        raise UnimplementedError(
            None, None, f"{node.op} runs only with its stream's state, which folding does not have"
        )
    sampler, draws = _SAMPLERS[node.op](node), WordDraws(node.state[:3])
    count, tries = int(node.attrs["num_sampled"]), 0
    if node.attrs["unique"] and sampler.range < count:
        raise _fail("Sampler's range is too small.")
    _check_range(classes, sampler.range)
    found: list[int] = []
    seen: set[int] = set()
    while len(found) < count:
        value = sampler.sample(draws)
        tries += 1
        if not (node.attrs["unique"] and value in seen):
            seen.add(value)
            found.append(value)
    advance(node.state[:3], BLOCKS_PER_CANDIDATE * count)
    likely = {
        value: _expected(sampler.probability(value), count, tries)
        for value in {*found, *classes.reshape(-1).tolist()}
    }
    true_counts = np.array([likely[v] for v in classes.reshape(-1).tolist()], np.float32).reshape(
        classes.shape
    )
    if isinstance(sampler, _Learned):
        np.add.at(sampler.counts, classes.reshape(-1), np.uint64(1))
    return np.array(found, np.int64), true_counts, np.array([likely[v] for v in found], np.float32)


@reference("AllCandidateSampler")
def _all_candidates(node: NodeSpec, inputs: Arrays) -> Arrays:
    classes, count = _true_classes(node, inputs[0]), int(node.attrs["num_sampled"])
    _check_range(classes, count)
    return (
        np.arange(count, dtype=np.int64),
        np.ones(classes.shape, np.float32),
        np.ones(count, np.float32),
    )


@reference("ComputeAccidentalHits")
def _accidental_hits(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Return the accidental hits: the true classes that were drawn.

    Outputs: row, position among the candidates, lowest float32.
    """
    classes, candidates = np.asarray(inputs[0]), np.asarray(inputs[1])
    columns = int(node.attrs["num_true"])
    if classes.ndim != 2 or classes.shape[1] != columns:
        raise _fail(
            "true_candidates must be a batch_size * num_true matrix, got shape "
            f"{format_shape(classes.shape)}"
        )
    if candidates.ndim != 1:
        raise _fail(
            "sampled_candidates must be a vector, which is typically the output from "
            "CandidateSampler"
        )
    place = {value: k for k, value in enumerate(candidates.tolist())}
    hits = [
        (row, place[value])
        for row, values in enumerate(classes.tolist())
        for value in values
        if value in place
    ]
    pairs = np.array(hits, np.int64).reshape(-1, 2)
    return (
        pairs[:, 0].astype(np.int32),
        pairs[:, 1].copy(),
        np.full(len(pairs), _LOWEST, np.float32),
    )
