"""Datasets of functions' results, and of the elements that a predicate selects."""

from __future__ import annotations

import numpy as np

from tfjit.framework import errors
from tfjit.runtime.datasets.dataset import (
    INFINITE,
    UNKNOWN,
    Dataset,
    DatasetOp,
    Elements,
    as_dataset,
    dataset_kernel,
)
from tfjit.runtime.datasets.dataset_function import DatasetFunction
from tfjit.runtime.datasets.element import Element
from tfjit.runtime.datasets.element_context import ElementContext
from tfjit.runtime.datasets.interleaving import Interleaved
from tfjit.runtime.host.thread_counts import cores


@dataset_kernel("MapDataset", "ExperimentalMapDataset")
def mapped(op: DatasetOp) -> Dataset:
    """Return the function's results for the elements."""
    source, function = op.dataset("input_dataset"), op.function("f", "other_arguments")
    keeps = op.attrs["preserve_cardinality"]
    return op.made(
        lambda run: _Mapped(source.start(run), run, function, keeps),
        source.cardinality,
        maps=True,
    )


class _Mapped(Elements):
    __slots__ = ("_function", "_keeps", "_run")

    def __init__(
        self, source: Elements, run: ElementContext, function: DatasetFunction, keeps: bool
    ) -> None:
        super().__init__(source)
        self._run, self._function, self._keeps = run, function, keeps

    def __next__(self) -> Element:
        element = next(self.sources[0])
        try:
            return self._function(self._run, element)
        except errors.OutOfRangeError as error:
            raise end_of_function(error, self._keeps) from None


def end_of_function(error: errors.OutOfRangeError, keeps: bool) -> BaseException:
    """Return the meaning of a function's OutOfRangeError: the end, or an error.

    keeps: the function has to give as many elements as it gets.
    """
    if not keeps:
        return StopIteration()
    return errors.InvalidArgumentError(
        None,
        None,
        "Function invocation produced OutOfRangeError: " + error.message,
    )


@dataset_kernel("FilterDataset", "ParallelFilterDataset")
def filtered(op: DatasetOp) -> Dataset:
    """Return the elements for which the predicate is true.

    A predicate is computed by the thread that asks for the element, however many calls the node
    allows: the order is that of the elements.
    """
    source, predicate = op.dataset("input_dataset"), op.function("predicate", "other_arguments")
    known = source.cardinality
    return op.made(
        lambda run: _Filtered(source.start(run), run, predicate),
        0 if known == 0 else UNKNOWN,
    )


class _Filtered(Elements):
    __slots__ = ("_predicate", "_run")

    def __init__(self, source: Elements, run: ElementContext, predicate: DatasetFunction) -> None:
        super().__init__(source)
        self._run, self._predicate = run, predicate

    def __next__(self) -> Element:
        source, run = self.sources[0], self._run
        while True:
            element = next(source)
            if is_true(self._predicate(run, element)):
                return element
            run.check()


def is_true(results: Element) -> bool:
    """Return a predicate's result. Raises InvalidArgumentError where it is no bool scalar."""
    value = np.asarray(results[0])
    if len(results) != 1 or value.dtype != np.bool_ or value.ndim:
        raise errors.InvalidArgumentError(
            None,
            None,
            f"Predicate function must return a scalar bool, but it returned {len(results)} "
            f"results, the first of dtype {value.dtype} and rank {value.ndim}.",
        )
    return bool(value)


@dataset_kernel("TakeWhileDataset", "ExperimentalTakeWhileDataset")
def take_while(op: DatasetOp) -> Dataset:
    """Return the elements before the first for which the predicate is false."""
    source, predicate = op.dataset("input_dataset"), op.function("predicate", "other_arguments")
    return op.made(lambda run: _TakeWhile(source.start(run), run, predicate), UNKNOWN)


class _TakeWhile(Elements):
    __slots__ = ("_is_over", "_predicate", "_run")

    def __init__(self, source: Elements, run: ElementContext, predicate: DatasetFunction) -> None:
        super().__init__(source)
        self._run, self._predicate, self._is_over = run, predicate, False

    def __next__(self) -> Element:
        if not self._is_over:
            element = next(self.sources[0])
            if is_true(self._predicate(self._run, element)):
                return element
            self._is_over = True
            self.close()
        raise StopIteration


@dataset_kernel("ScanDataset", "ExperimentalScanDataset")
def scan(op: DatasetOp) -> Dataset:
    """Return results of a function of an element and a state."""
    source, function = op.dataset("input_dataset"), op.function("f", "other_arguments")
    state = op.values("initial_state")
    keeps = op.attrs["preserve_cardinality"]
    return op.made(
        lambda run: _Scan(source.start(run), run, function, state, keeps),
        source.cardinality if keeps or source.cardinality in (0, INFINITE) else UNKNOWN,
    )


class _Scan(Elements):
    __slots__ = ("_function", "_keeps", "_run", "_state")

    def __init__(
        self,
        source: Elements,
        run: ElementContext,
        function: DatasetFunction,
        state: Element,
        keeps: bool,
    ) -> None:
        super().__init__(source)
        self._run, self._function, self._state, self._keeps = run, function, state, keeps

    def __next__(self) -> Element:
        element = next(self.sources[0])
        try:
            results = self._function(self._run, [*self._state, *element])
        except errors.OutOfRangeError as error:
            raise end_of_function(error, self._keeps) from None
        count = len(self._state)
        self._state = results[:count]
        return results[count:]


@dataset_kernel("FlatMapDataset")
def flat_map(op: DatasetOp) -> Dataset:
    """Return the elements of datasets that the function makes."""
    source, function = op.dataset("input_dataset"), op.function("f", "other_arguments")
    return op.made(
        lambda run: _FlatMapped(source.start(run), run, function),
        0 if source.cardinality == 0 else UNKNOWN,
    )


class _FlatMapped(Elements):
    __slots__ = ("_current", "_function", "_run")

    def __init__(self, source: Elements, run: ElementContext, function: DatasetFunction) -> None:
        super().__init__(source)
        self._run, self._function = run, function
        self._current: Elements | None = None

    def __next__(self) -> Element:
        while True:
            current = self._current
            if current is None:
                run = self._run
                made = as_dataset(self._function(run, next(self.sources[0]))[0])
                self._current = current = made.start(run)
            try:
                return next(current)
            except StopIteration:
                current.close()
                self._current = None

    @property
    def is_ready(self) -> bool:
        current = self._current
        return super().is_ready and (current is None or current.is_ready)

    def close(self) -> None:
        """Free the present dataset, too."""
        super().close()
        if self._current is not None:
            self._current.close()


@dataset_kernel("InterleaveDataset")
def interleave(op: DatasetOp) -> Dataset:
    """Alternate between `cycle_length` datasets, `block_length` elements each."""
    source, function = op.dataset("input_dataset"), op.function("f", "other_arguments")
    cycle, block = interleave_sizes(op)
    return op.made(
        lambda run: Interleaved(source.start(run), run, function, cycle, block),
        0 if source.cardinality == 0 else UNKNOWN,
    )


def interleave_sizes(op: DatasetOp) -> tuple[int, int]:
    """Return cycle_length and block_length. Raises InvalidArgumentError."""
    cycle, block = op.integer("cycle_length"), op.integer("block_length")
    if cycle == -1:
        cycle = cores()
    if cycle <= 0:
        raise errors.InvalidArgumentError(None, None, "cycle_length must be greater than zero.")
    if block <= 0:
        raise errors.InvalidArgumentError(None, None, "block_length must be greater than zero.")
    return cycle, block
