"""Datasets of elements of another that pass a test."""

from __future__ import annotations

import logging

import numpy as np

from tfjit.framework import errors
from tfjit.runtime.datasets.dataset import (
    INFINITE,
    UNKNOWN,
    Dataset,
    DatasetOp,
    Elements,
    dataset_kernel,
)
from tfjit.runtime.datasets.element import Element, Value
from tfjit.runtime.datasets.element_context import ElementContext
from tfjit.runtime.datasets.seed_generator import RandomNumbers, SeedGenerator

log = logging.getLogger("tfjit.datasets")


@dataset_kernel(
    "OptionsDataset",
    "ModelDataset",
    "FinalizeDataset",
    "OptimizeDataset",
    "OptimizeDatasetV2",
    "AssertNextDataset",
    "AssertPrevDataset",
    "MaxIntraOpParallelismDataset",
    "PrivateThreadPoolDataset",
    "NonSerializableDataset",
    "BytesProducedStatsDataset",
    "LatencyStatsDataset",
    "RewriteDataset",
    "ExperimentalNonSerializableDataset",
    "ExperimentalMaxIntraOpParallelismDataset",
    "ExperimentalPrivateThreadPoolDataset",
    "ExperimentalAssertNextDataset",
    "ExperimentalBytesProducedStatsDataset",
    "ExperimentalLatencyStatsDataset",
)
def unchanged(op: DatasetOp) -> Dataset:
    """Return the dataset's elements: options and advice for TensorFlow's threads change none."""
    source = op.dataset("input_dataset")
    return op.made(source.start, source.cardinality)


@dataset_kernel("AssertCardinalityDataset")
def assert_cardinality(op: DatasetOp) -> Dataset:
    """Return the elements; their number is checked at the end."""
    source, count = op.dataset("input_dataset"), op.integer("cardinality")
    return op.made(lambda run: _Counted(source.start(run), count), count)


class _Counted(Elements):
    __slots__ = ("_found", "_wanted")

    def __init__(self, source: Elements, wanted: int) -> None:
        super().__init__(source)
        self._wanted, self._found = wanted, 0

    def __next__(self) -> Element:
        try:
            element = next(self.sources[0])
        except StopIteration:
            if self._found != self._wanted:
                raise self._failure(f"contained only {_elements(self._found)}") from None
            raise
        self._found += 1
        if self._wanted >= 0 and self._found > self._wanted:
            raise self._failure(f"contained at least {_elements(self._found)}")
        return element

    def _failure(self, found: str) -> errors.OpError:
        wanted = (
            "an infinite number of elements"
            if self._wanted == INFINITE
            else _elements(self._wanted)
        )
        return errors.FailedPreconditionError(
            None, None, f"Input dataset was expected to contain {wanted} but {found}."
        )


def _elements(count: int) -> str:
    return f"{count} element{'' if count == 1 else 's'}"


@dataset_kernel("IgnoreErrorsDataset", "ExperimentalIgnoreErrorsDataset")
def ignore_errors(op: DatasetOp) -> Dataset:
    """Return the elements without those that are errors."""
    source = op.dataset("input_dataset")
    known = source.cardinality
    return op.made(
        lambda run: _WithoutErrors(source.start(run), run, op.attrs["log_warning"]),
        INFINITE if known == INFINITE else UNKNOWN,
    )


class _WithoutErrors(Elements):
    __slots__ = ("_logs", "_run")

    def __init__(self, source: Elements, run: ElementContext, logs: bool) -> None:
        super().__init__(source)
        self._run, self._logs = run, logs

    def __next__(self) -> Element:
        while True:
            try:
                return next(self.sources[0])
            except errors.OpError as error:
                self._run.check()
                if self._logs:
                    log.warning("Error raised with error message %s", error.message)


@dataset_kernel("UniqueDataset", "ExperimentalUniqueDataset")
def unique(op: DatasetOp) -> Dataset:
    """Return the elements without repetitions."""
    source = op.dataset("input_dataset")
    known = source.cardinality
    return op.made(lambda run: _Unique(source.start(run)), known if known in (0, 1) else UNKNOWN)


class _Unique(Elements):
    __slots__ = ("_met",)

    def __init__(self, source: Elements) -> None:
        super().__init__(source)
        self._met: set[Value] = set()

    def __next__(self) -> Element:
        while True:
            element = next(self.sources[0])
            key = _content(element[0])
            if key not in self._met:
                self._met.add(key)
                return element


def _content(value: np.ndarray) -> Value:
    if value.dtype == object:
        return value.shape, tuple(value.reshape(-1))
    return value.shape, value.tobytes()


@dataset_kernel("FilterByLastComponentDataset")
def filter_by_last(op: DatasetOp) -> Dataset:
    """Return elements with a true last component, without it."""
    source = op.dataset("input_dataset")
    return op.made(lambda run: _FilteredByLast(source.start(run)), UNKNOWN)


class _FilteredByLast(Elements):
    __slots__ = ()

    def __next__(self) -> Element:
        while True:
            *components, keep = next(self.sources[0])
            if np.ndim(keep):
                raise errors.InvalidArgumentError(
                    None, None, "Last component must be a bool scalar."
                )
            if keep:
                return components


@dataset_kernel("SamplingDataset")
def sample(op: DatasetOp) -> Dataset:
    """Return each element with a probability of `rate`."""
    source, rate = op.dataset("input_dataset"), np.float32(op.scalar("rate"))
    seeds = op.integer("seed"), op.integer("seed2")
    key = object()

    def start(run: ElementContext) -> Elements:
        generator = run.shared(key, lambda: SeedGenerator(*seeds, reshuffles=False))
        return _Sample(source.start(run), rate, RandomNumbers(*generator.seeds()))

    known = source.cardinality
    return op.made(start, 0 if known == 0 else INFINITE if known == INFINITE else UNKNOWN)


class _Sample(Elements):
    __slots__ = ("_numbers", "_rate")

    def __init__(self, source: Elements, rate: np.float32, numbers: RandomNumbers) -> None:
        super().__init__(source)
        self._rate, self._numbers = rate, numbers

    def __next__(self) -> Element:
        while True:
            element = next(self.sources[0])
            # 23 random bits behind the point, as uniform float32 numbers are made
            if np.float32((self._numbers() & 0x7FFFFF) / 0x800000) < self._rate:
                return element
