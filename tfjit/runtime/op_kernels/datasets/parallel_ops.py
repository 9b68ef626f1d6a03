"""Datasets with elements that threads compute ahead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tfjit.framework import errors
from tfjit.runtime.datasets.background import (
    ParallelMapped,
    Prefetched,
    checked_parallelism,
)
from tfjit.runtime.datasets.dataset import (
    UNKNOWN,
    Dataset,
    DatasetOp,
    Elements,
    dataset_kernel,
)
from tfjit.runtime.datasets.dataset_function import DatasetFunction
from tfjit.runtime.datasets.element import Element
from tfjit.runtime.datasets.element_context import ElementContext
from tfjit.runtime.datasets.interleaving import Interleaved
from tfjit.runtime.op_kernels.datasets.batch_ops import Batches, batch_count
from tfjit.runtime.op_kernels.datasets.map_ops import end_of_function, interleave_sizes

_AUTOTUNE: Final = -1
_AHEAD: Final = 4
"""Elements computed ahead where the graph leaves the number open."""


@dataset_kernel("PrefetchDataset")
def prefetch(op: DatasetOp) -> Dataset:
    """Return the elements; a thread computes `buffer_size` of them ahead."""
    source, size = op.dataset("input_dataset"), op.integer("buffer_size")
    if size < 0 and size != _AUTOTUNE:
        raise errors.InvalidArgumentError(
            None, None, "buffer_size must be >= 0 or set buffer_size to be AUTOTUNE (-1)."
        )
    if size == _AUTOTUNE:
        size = max(_AHEAD, op.attrs["buffer_size_min"])
    if size == 0:
        return op.made(source.start, source.cardinality)
    op.may_wait = False  # the thread waits, and `is_ready` tells
    return op.made(lambda run: Prefetched(source.start, run, size), source.cardinality)


def _in_order(op: DatasetOp) -> bool:
    attrs = op.attrs
    if "sloppy" in attrs:
        return not attrs["sloppy"]
    return attrs.get("deterministic", b"default") != b"false"


def _call(function: DatasetFunction, keeps: bool) -> Callable[[ElementContext, Element], Element]:
    def call(run: ElementContext, element: Element) -> Element:
        try:
            return function(run, element)
        except errors.OutOfRangeError as error:
            raise end_of_function(error, keeps) from None

    return call


@dataset_kernel("ParallelMapDataset", "ParallelMapDatasetV2")
def parallel_map(op: DatasetOp) -> Dataset:
    """Return the function's results; several calls may run at a time."""
    source, function = op.dataset("input_dataset"), op.function("f", "other_arguments")
    count = checked_parallelism(op.integer("num_parallel_calls"))
    call, in_order, waits = (
        _call(function, op.attrs["preserve_cardinality"]),
        _in_order(op),
        op.may_wait,
    )
    return op.made(
        lambda run: ParallelMapped(source.start, run, call, count, in_order, waits),
        source.cardinality,
        maps=True,
    )


@dataset_kernel("MapAndBatchDataset", "ExperimentalMapAndBatchDataset")
def map_and_batch(op: DatasetOp) -> Dataset:
    """Return stacks of results; several calls may run at a time."""
    source, function = op.dataset("input_dataset"), op.function("f", "other_arguments")
    size = op.integer("batch_size")
    if size <= 0:
        raise errors.InvalidArgumentError(None, None, "batch_size must be greater than zero.")
    count = checked_parallelism(op.integer("num_parallel_calls"))
    drops, waits = op.boolean("drop_remainder"), op.may_wait
    call = _call(function, op.attrs["preserve_cardinality"])

    def start(run: ElementContext) -> Elements:
        found = ParallelMapped(source.start, run, call, count, True, waits)
        return Batches(found, size, drops, is_whole=True)

    return op.made(start, batch_count(source.cardinality, size, drops))


@dataset_kernel(
    "ParallelInterleaveDataset",
    "ExperimentalParallelInterleaveDataset",
    "LegacyParallelInterleaveDatasetV2",
    "ParallelInterleaveDatasetV2",
    "ParallelInterleaveDatasetV3",
    "ParallelInterleaveDatasetV4",
)
def parallel_interleave(op: DatasetOp) -> Dataset:
    """Interleave datasets; a thread for each computes ahead."""
    source, function = op.dataset("input_dataset"), op.function("f", "other_arguments")
    cycle, block = interleave_sizes(op)
    if "sloppy" in op.names:
        in_order = not op.boolean("sloppy")
    else:
        in_order = _in_order(op)
    ahead = block
    if "buffer_output_elements" in op.names:
        asked = op.integer("buffer_output_elements")
        ahead = block if asked < 0 else asked
    if "num_parallel_calls" in op.names:
        checked_parallelism(op.integer("num_parallel_calls"))

    def begin(dataset: Dataset, run: ElementContext) -> Elements:
        found = Prefetched(dataset.start, run, max(ahead, 1))
        found.start()
        return found

    return op.made(
        lambda run: _ParallelInterleaved(
            source.start(run), run, function, cycle, block, begin, in_order
        ),
        0 if source.cardinality == 0 else UNKNOWN,
    )


class _ParallelInterleaved(Interleaved):
    """All datasets of the cycle are open from the start.

    in_order: elements come in the order of InterleaveDataset; else a ready one comes first.
    """

    __slots__ = ("_in_order", "_is_begun")

    def __init__(
        self,
        source: Elements,
        run: ElementContext,
        function: DatasetFunction,
        cycle: int,
        block: int,
        begin: Callable[[Dataset, ElementContext], Elements],
        in_order: bool,
    ) -> None:
        super().__init__(source, run, function, cycle, block, begin)
        self._in_order, self._is_begun = in_order, False

    def __next__(self) -> Element:
        if not self._is_begun:
            self._is_begun = True
            self.open_all()
        if not self._in_order:
            self.advance_to_ready()
        return super().__next__()
