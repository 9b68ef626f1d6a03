"""Datasets of elements that functions group by a key."""

from __future__ import annotations

from collections import deque

import numpy as np

from tfjit.framework import errors
from tfjit.runtime.datasets.dataset import (
    UNKNOWN,
    Dataset,
    DatasetOp,
    Elements,
    Known,
    as_dataset,
    dataset_kernel,
)
from tfjit.runtime.datasets.dataset_function import DatasetFunction
from tfjit.runtime.datasets.element import Element
from tfjit.runtime.datasets.element_context import ElementContext


def _number(results: Element, name: str) -> int:
    value = np.asarray(results[0])
    if len(results) != 1 or value.dtype != np.int64 or value.ndim:
        raise errors.InvalidArgumentError(None, None, f"`{name}` must return a scalar int64.")
    return int(value)


@dataset_kernel("GroupByWindowDataset", "ExperimentalGroupByWindowDataset")
def group_by_window(op: DatasetOp) -> Dataset:
    """Return elements of datasets made of windows of equal keys."""
    source = op.dataset("input_dataset")
    key, reduce, size = (
        op.function(f"{name}_func", f"{name}_func_other_arguments")
        for name in ("key", "reduce", "window_size")
    )
    return op.made(
        lambda run: _Groups(source, source.start(run), run, (key, reduce, size)),
        0 if source.cardinality == 0 else UNKNOWN,
    )


class _Groups(Elements):
    __slots__ = (
        "_current",
        "_groups",
        "_is_over",
        "_key",
        "_reduce",
        "_run",
        "_size",
        "_sizes",
        "_source_dataset",
    )

    def __init__(
        self,
        dataset: Dataset,
        source: Elements,
        run: ElementContext,
        functions: tuple[DatasetFunction, DatasetFunction, DatasetFunction],
    ) -> None:
        super().__init__(source)
        self._source_dataset = dataset
        self._run = run
        self._key, self._reduce, self._size = functions
        self._groups: dict[int, list[Element]] = {}
        self._sizes: dict[int, int] = {}
        self._current: Elements | None = None
        self._is_over = False

    def __next__(self) -> Element:
        while True:
            if self._current is not None:
                try:
                    return next(self._current)
                except StopIteration:
                    self._current.close()
                    self._current = None
            key = self._full_group()
            self._current = self._reduced(key, self._groups.pop(key))

    def _full_group(self) -> int:
        """Return the key of the next window to reduce.

        The window is full, but for those at the end.
        """
        run = self._run
        while not self._is_over:
            try:
                element = next(self.sources[0])
            except StopIteration:
                self._is_over = True
                break
            key = _number(self._key(run, element), "key_func")
            size = self._sizes.get(key)
            if size is None:
                size = _number(self._size(run, [np.array(key, np.int64)]), "window_size_func")
                if size <= 0:
                    raise errors.InvalidArgumentError(
                        None, None, f"Window size must be greater than zero, but got {size}."
                    )
                self._sizes[key] = size
            group = self._groups.setdefault(key, [])
            group.append(element)
            if len(group) == size:
                return key
        if not self._groups:
            raise StopIteration
        return min(self._groups)

    def _reduced(self, key: int, group: list[Element]) -> Elements:
        dataset = self._source_dataset
        window = Dataset(
            "WindowDataset",
            dataset.types,
            dataset.shapes,
            len(group),
            lambda run: Known(iter(group)),
        )
        results = self._reduce(self._run, [np.array(key, np.int64), window])
        return as_dataset(results[0]).start(self._run)

    def close(self) -> None:
        """Free the present dataset, too."""
        super().close()
        if self._current is not None:
            self._current.close()


@dataset_kernel("GroupByReducerDataset", "ExperimentalGroupByReducerDataset")
def group_by_reducer(op: DatasetOp) -> Dataset:
    """Return the reduced elements of each key."""
    source = op.dataset("input_dataset")
    key, init, reduce, finalize = (
        op.function(f"{name}_func", f"{name}_func_other_arguments")
        for name in ("key", "init", "reduce", "finalize")
    )
    return op.made(
        lambda run: _Reduced(source.start(run), run, (key, init, reduce, finalize)),
        0 if source.cardinality == 0 else UNKNOWN,
    )


class _Reduced(Elements):
    __slots__ = ("_finalize", "_init", "_key", "_keys", "_reduce", "_run", "_states")

    def __init__(
        self,
        source: Elements,
        run: ElementContext,
        functions: tuple[DatasetFunction, DatasetFunction, DatasetFunction, DatasetFunction],
    ) -> None:
        super().__init__(source)
        self._run = run
        self._key, self._init, self._reduce, self._finalize = functions
        self._states: dict[int, Element] = {}
        self._keys: deque[int] | None = None

    def __next__(self) -> Element:
        if self._keys is None:
            self._consume()
            self._keys = deque(self._states)
        if not self._keys:
            raise StopIteration
        return self._finalize(self._run, self._states[self._keys.popleft()])

    def _consume(self) -> None:
        run, states = self._run, self._states
        for element in self.sources[0]:
            key = _number(self._key(run, element), "key_func")
            state = states.get(key)
            if state is None:
                state = self._init(run, [np.array(key, np.int64)])
            states[key] = self._reduce(run, [*state, *element])
            run.check()
