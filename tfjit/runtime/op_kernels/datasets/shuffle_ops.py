"""Datasets in random order, and the seed generators of their epochs."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from tfjit.framework import errors
from tfjit.runtime.datasets.dataset import (
    INFINITE,
    Dataset,
    DatasetOp,
    Elements,
    Start,
    dataset_kernel,
)
from tfjit.runtime.datasets.element import Element, Value
from tfjit.runtime.datasets.element_context import ElementContext
from tfjit.runtime.datasets.seed_generator import RandomNumbers, SeedGenerator
from tfjit.runtime.kernel_api.op_kernel import OpContext, runtime_kernel

_MAX_EPOCHS: Final = 3
"""Epochs that are in a buffer at the same time."""


@runtime_kernel("AnonymousSeedGenerator", "AnonymousRandomSeedGenerator")
def make_seed_generator(ctx: OpContext, inputs: Element) -> Element:
    """Return a generator of seeds, and an empty deleter."""
    reshuffles = bool(inputs[2]) if len(inputs) > 2 else True
    return SeedGenerator(int(inputs[0]), int(inputs[1]), reshuffles), None


@runtime_kernel("DummySeedGenerator")
def no_seed_generator(ctx: OpContext, inputs: Element) -> Element:
    """Return a handle of no generator: the dataset makes its own."""
    return (_NO_GENERATOR,)


@runtime_kernel("DeleteSeedGenerator", "DeleteRandomSeedGenerator")
def delete_seed_generator(ctx: OpContext, inputs: Element) -> Element:
    """Do nothing: a generator goes with its last handle."""
    return ()


class _NoGenerator:
    pass


_NO_GENERATOR: Final = _NoGenerator()


@dataset_kernel("ShuffleDataset", "ShuffleDatasetV2", "ShuffleDatasetV3")
def shuffle(op: DatasetOp) -> Dataset:
    """Return the elements in random order, drawn from a buffer of `buffer_size`."""
    return _shuffled(op, 1)


@dataset_kernel("ShuffleAndRepeatDataset", "ShuffleAndRepeatDatasetV2")
def shuffle_and_repeat(op: DatasetOp) -> Dataset:
    """Return several passes in random order through one buffer."""
    count = op.integer("count")
    if count == 0 or count < -1:
        raise errors.InvalidArgumentError(
            None, None, "count must be greater than zero or equal to -1."
        )
    return _shuffled(op, count)


def _shuffled(op: DatasetOp, count: int) -> Dataset:
    source, size = op.dataset("input_dataset"), op.integer("buffer_size")
    if size <= 0 and size != -2:
        raise errors.InvalidArgumentError(
            None, None, "buffer_size must be greater than zero or UNKNOWN_CARDINALITY"
        )
    generator = _generator(op)
    known = source.cardinality
    if count == 1 or known == 0:
        found = known
    else:
        found = INFINITE if count < 0 else known if known < 0 else known * count
    return op.rearranged(
        source, lambda start, run: _Shuffled(start, run, size, generator(run), count), found
    )


def _generator(op: DatasetOp) -> Callable[[ElementContext], SeedGenerator]:
    """Return the function that finds the seed generator of an iterator.

    Without a generator in the graph, each iterator has one.
    """
    given = None
    if op.ctx.op in ("ShuffleDatasetV2", "ShuffleDatasetV3", "ShuffleAndRepeatDatasetV2"):
        given = op.value("seed_generator")
    if isinstance(given, SeedGenerator):
        found = given
        return lambda run: found
    seeds = (0, 0) if op.ctx.op == "ShuffleDatasetV2" else (op.integer("seed"), op.integer("seed2"))
    reshuffles = op.attrs.get("reshuffle_each_iteration", True)
    key = object()
    return lambda run: run.shared(key, lambda: SeedGenerator(*seeds, reshuffles=reshuffles))


class _Shuffled(Elements):
    """Elements of a ring buffer with a range for each epoch."""

    __slots__ = (
        "_buffer",
        "_count",
        "_epoch",
        "_generator",
        "_is_dry",
        "_numbers",
        "_ranges",
        "_run",
        "_size",
        "_start",
    )

    def __init__(
        self, start: Start, run: ElementContext, size: int, generator: SeedGenerator, count: int
    ) -> None:
        super().__init__()
        self._start, self._run, self._size, self._count = start, run, size, count
        self._generator = generator
        self._numbers = RandomNumbers(*generator.seeds())
        self._buffer: list[Value] = []
        self._ranges: deque[list[int]] = deque()  # [first, end, begin] of each epoch
        self._epoch = 0
        self._is_dry = False  # an epoch without elements

    def __next__(self) -> Element:
        ranges, buffer, size = self._ranges, self._buffer, self._size
        if (
            self.sources
            and len(ranges) == 1
            and ranges[0][1] - ranges[0][0] == size - 1
            and len(buffer) == size
        ):
            # one element is missing, as in most calls: the short way of `_fill`
            try:
                buffer[ranges[0][1] % size] = next(self.sources[0])
                ranges[0][1] += 1
            except StopIteration:
                self.close()
                self.sources = ()
                self._fill()
        elif not self._is_filled():
            self._fill()
        while ranges and ranges[0][0] == ranges[0][1]:
            if len(ranges) == 1 and not self.sources and self._is_last():
                raise StopIteration
            ranges.popleft()
            self._numbers = RandomNumbers(*self._generator.seeds())
        if not ranges:
            raise StopIteration
        span = ranges[0]
        first, end, _ = span
        at = first + self._numbers() % (end - first)
        if size > 0:
            at, first = at % size, first % size
        element = buffer[at]
        buffer[at], buffer[first] = buffer[first], None
        span[0] += 1
        if size == -2 and span[0] == span[1]:
            buffer.clear()
            span[0] = span[1] = span[2] = 0
        return element

    def _is_last(self) -> bool:
        return self._is_dry or self._epoch == self._count

    def _is_filled(self) -> bool:
        if not self.sources and self._is_last():
            return True
        ranges = self._ranges
        if not ranges:
            return False
        held = ranges[-1][1] - ranges[0][0]
        if self._size == -2:
            return bool(held) and not self.sources
        return held >= self._size or (len(ranges) > _MAX_EPOCHS and held > 0)

    def _fill(self) -> None:
        buffer, size = self._buffer, self._size
        while not self._is_filled():
            if not self.sources:
                self.sources = (self._start(self._run),)
                self._epoch += 1
                end = self._ranges[-1][1] if self._ranges else 0
                self._ranges.append([end, end, end])
            span = self._ranges[-1]
            source = self.sources[0]
            try:
                while not self._is_filled():
                    element = next(source)
                    at = span[1]
                    if size > 0:
                        at %= size
                    if at == len(buffer):
                        buffer.append(element)
                    else:
                        buffer[at] = element
                    span[1] += 1
            except StopIteration:
                self.close()
                self.sources = ()
                if span[1] == span[2] and self._count < 0:
                    self._is_dry = True
