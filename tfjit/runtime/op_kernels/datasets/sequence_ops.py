"""Datasets of parts, repetitions and combinations of others."""

from __future__ import annotations

from collections.abc import Sequence

from tfjit.framework import errors
from tfjit.runtime.datasets.dataset import (
    INFINITE,
    UNKNOWN,
    Dataset,
    DatasetOp,
    Elements,
    Known,
    Start,
    dataset_kernel,
)
from tfjit.runtime.datasets.element import Element, Value
from tfjit.runtime.datasets.element_context import ElementContext


@dataset_kernel("TakeDataset")
def take(op: DatasetOp) -> Dataset:
    """Return the first elements; a negative count takes all."""
    source, count = op.dataset("input_dataset"), op.integer("count")
    known = source.cardinality
    if count < 0:
        return op.rearranged(source, lambda start, run: start(run), known)
    found = count if known == INFINITE else known if known == UNKNOWN else min(known, count)
    if count == 0:
        return op.made(lambda run: Known(iter(())), 0)
    return op.rearranged(source, lambda start, run: _Take(start(run), count), found)


class _Take(Elements):
    __slots__ = ("_left",)

    def __init__(self, source: Elements, count: int) -> None:
        super().__init__(source)
        self._left = count

    def __next__(self) -> Element:
        if self._left <= 0:
            self.close()
            raise StopIteration
        element = next(self.sources[0])
        self._left -= 1
        return element


@dataset_kernel("SkipDataset")
def skip(op: DatasetOp) -> Dataset:
    """Return all but the first elements; a negative count skips all."""
    source, count = op.dataset("input_dataset"), op.integer("count")
    if count < 0:
        return op.made(lambda run: Known(iter(())), 0)
    known = source.cardinality
    found = known if known < 0 else max(known - count, 0)
    return op.rearranged(source, lambda start, run: _Skip(start(run), count), found)


class _Skip(Elements):
    __slots__ = ("_left",)

    def __init__(self, source: Elements, count: int) -> None:
        super().__init__(source)
        self._left = count

    def __next__(self) -> Element:
        source = self.sources[0]
        while self._left:
            next(source)
            self._left -= 1
        return next(source)


@dataset_kernel("RepeatDataset")
def repeat(op: DatasetOp) -> Dataset:
    """Return the elements several times; a negative count repeats without end."""
    source, count = op.dataset("input_dataset"), op.integer("count")
    known = source.cardinality
    if count < 0:
        found = 0 if known == 0 else INFINITE
    elif count == 0:
        return op.made(lambda run: Known(iter(())), 0)
    else:
        found = known if known < 0 else known * count
    return op.rearranged(source, lambda start, run: _Repeat(start, run, count), found)


class _Repeat(Elements):
    """Passes in turn. One without end stops at a pass without elements."""

    __slots__ = ("_count", "_has_element", "_passes", "_run", "_start")

    def __init__(self, start: Start, run: ElementContext, count: int) -> None:
        super().__init__(start(run))
        self._start, self._run, self._count = start, run, count
        self._passes = 1
        self._has_element = False

    def __next__(self) -> Element:
        while self.sources:
            try:
                element = next(self.sources[0])
            except StopIteration:
                self.close()
                self.sources = ()
                if self._passes == self._count or (self._count < 0 and not self._has_element):
                    break
                self._run.check()
                self._passes += 1
                self._has_element = False
                self.sources = (self._start(self._run),)
                continue
            self._has_element = True
            return element
        raise StopIteration


@dataset_kernel("ShardDataset")
def shard(op: DatasetOp) -> Dataset:
    """Return each num_shards-th element, from `index` on."""
    source = op.dataset("input_dataset")
    count, index = op.integer("num_shards"), op.integer("index")
    if count < 1:
        raise errors.InvalidArgumentError(
            None,
            None,
            f"Number of shards must be greater than zero (currently num_shards = {count}).",
        )
    if not 0 <= index < count:
        raise errors.InvalidArgumentError(
            None,
            None,
            "Index must be between 0 and num_shards - 1 "
            f"(currently index = {index}, num_shards = {count}).",
        )
    known = source.cardinality
    is_required = op.attrs["require_non_empty"]
    return op.rearranged(
        source,
        lambda start, run: _Shard(start(run), count, index, is_required),
        known if known < 0 else known // count + (index < known % count),
    )


class _Shard(Elements):
    __slots__ = ("_at", "_count", "_index", "_is_required")

    def __init__(self, source: Elements, count: int, index: int, is_required: bool) -> None:
        super().__init__(source)
        self._count, self._index, self._is_required = count, index, is_required
        self._at = 0

    def __next__(self) -> Element:
        source = self.sources[0]
        while True:
            try:
                element = next(source)
            except StopIteration:
                if self._is_required and self._at < self._count:
                    raise errors.InvalidArgumentError(
                        None,
                        None,
                        "Could not apply FILE based sharding: the dataset only has "
                        f"{self._at} file(s), which is not enough for the required {self._count} "
                        "shards/workers.If you are using datasets with distribution strategy, "
                        "consider setting the auto sharding policy to either DATA or OFF using the "
                        "`experimental_distribute.auto_shard_policy` option of `tf.data.Options()`."
                        " Or, split your input files into a larger number of small files such that "
                        "number of files is greater than number of shards/workers.",
                    ) from None
                raise
            self._at += 1
            if (self._at - 1) % self._count == self._index:
                return element


@dataset_kernel("ConcatenateDataset")
def concatenate(op: DatasetOp) -> Dataset:
    """Return the elements of one dataset, then those of another."""
    parts = op.dataset("input_dataset"), op.dataset("another_dataset")
    sizes = [part.cardinality for part in parts]
    special = next((kind for kind in (INFINITE, UNKNOWN) if kind in sizes), None)
    return op.made(
        lambda run: _Concatenated(parts, run), sum(sizes) if special is None else special
    )


class _Concatenated(Elements):
    __slots__ = ("_left", "_run")

    def __init__(self, parts: Sequence[Dataset], run: ElementContext) -> None:
        super().__init__(parts[0].start(run))
        self._left, self._run = list(parts[1:]), run

    def __next__(self) -> Element:
        while True:
            try:
                return next(self.sources[0])
            except StopIteration:
                if not self._left:
                    raise
                self.close()
                self.sources = (self._left.pop(0).start(self._run),)


@dataset_kernel("ZipDataset")
def zipped(op: DatasetOp) -> Dataset:
    """Return elements with the components of one element of each dataset."""
    sources = op.datasets("input_datasets")
    sizes = [source.cardinality for source in sources if source.cardinality != INFINITE]
    found = INFINITE if not sizes else UNKNOWN if UNKNOWN in sizes else min(sizes)
    return op.made(lambda run: _Zipped(*[source.start(run) for source in sources]), found)


class _Zipped(Elements):
    """An element's error is raised when all datasets have made a step."""

    __slots__ = ("_is_over",)

    def __init__(self, *sources: Elements) -> None:
        super().__init__(*sources)
        self._is_over = False

    def __next__(self) -> Element:
        if self._is_over:
            raise StopIteration
        components: list[Value] = []
        failure: Exception | None = None
        for source in self.sources:
            try:
                components += next(source)
            except StopIteration:
                self._is_over = True
                self.close()
                raise
            except errors.OpError as error:
                failure = failure or error
        if failure is not None:
            raise failure
        return components


@dataset_kernel("DirectedInterleaveDataset", "ExperimentalDirectedInterleaveDataset")
def directed_interleave(op: DatasetOp) -> Dataset:
    """Return elements of the datasets that the selector's elements name by index."""
    selector = op.dataset("selector_input_dataset")
    sources = op.datasets("data_input_datasets")
    sizes = [source.cardinality for source in sources]
    stops = op.attrs.get("stop_on_empty_dataset", False)
    is_endless = all(size == INFINITE for size in sizes) if stops else INFINITE in sizes
    found = INFINITE if is_endless and selector.cardinality == INFINITE else UNKNOWN
    return op.made(
        lambda run: _Directed(selector.start(run), [one.start(run) for one in sources], stops),
        found,
    )


class _Directed(Elements):
    __slots__ = ("_open", "_stops")

    def __init__(self, selector: Elements, sources: Sequence[Elements], stops: bool) -> None:
        super().__init__(selector, *sources)
        self._stops = stops
        self._open: list[Elements | None] = list(sources)

    def __next__(self) -> Element:
        while any(self._open):
            index = int(next(self.sources[0])[0])
            if not 0 <= index < len(self._open):
                raise errors.InvalidArgumentError(
                    None, None, f"Selector index out of range: {index} >= {len(self._open)}"
                )
            source = self._open[index]
            if source is None:
                continue
            try:
                return next(source)
            except StopIteration:
                self._open[index] = None
                if self._stops:
                    self._open.clear()
        raise StopIteration
