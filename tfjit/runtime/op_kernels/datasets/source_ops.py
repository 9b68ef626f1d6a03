"""Datasets of tensors, of ranges and of random numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tfjit.framework import errors
from tfjit.framework.types import dtypes
from tfjit.framework.types.shape import format_shape
from tfjit.runtime.datasets.dataset import (
    INFINITE,
    Dataset,
    DatasetOp,
    Elements,
    Known,
    RowsAt,
    dataset_kernel,
)
from tfjit.runtime.datasets.element import Element
from tfjit.runtime.datasets.element_context import ElementContext
from tfjit.runtime.datasets.seed_generator import RandomNumbers, SeedGenerator


@dataset_kernel("TensorDataset")
def tensors(op: DatasetOp) -> Dataset:
    """Return a dataset of one element: the components."""
    element = op.values("components")
    return op.made(lambda run: Known(iter([element])), 1)


@dataset_kernel("TensorSliceDataset")
def tensor_slices(op: DatasetOp) -> Dataset:
    """Return a dataset of the components' rows.

    Raises InvalidArgumentError for components without rows or with different numbers of them.
    """
    components = op.values("components")
    shapes = [np.shape(component) for component in components]
    for shape in shapes:
        if not shape:
            raise errors.InvalidArgumentError(
                None, None, "All components must be at least 1-dimensional"
            )
    count = shapes[0][0]
    for i, shape in enumerate(shapes):
        if shape[0] != count:
            raise errors.InvalidArgumentError(
                None,
                None,
                "All components must have the same size in the 0th dimension. "
                f"Component {i} has {shape[0]} rows, component 0 {count}.",
            )
    types = op.attrs["Toutput_types"]
    variants = [i for i, dtype in enumerate(types) if dtype == dtypes.variant]
    if not variants:
        return op.of_table(tuple(components), lambda run: Known(iter(range(count))), count)
    return op.made(lambda run: _Slices(components, variants), count)


class _Slices(RowsAt):
    """Rows of which some components are variants."""

    __slots__ = ("_variants",)

    def __init__(self, components: Sequence[np.ndarray], variants: Sequence[int]) -> None:
        super().__init__(tuple(components), Known(iter(range(len(components[0])))))
        self._variants = variants

    def __next__(self) -> Element:
        row = list(super().__next__())
        for i in self._variants:
            row[i] = row[i].item() if row[i].ndim == 0 else row[i]  # a variant scalar is its object
        return row


@dataset_kernel("RangeDataset")
def numbers(op: DatasetOp) -> Dataset:
    """Return a dataset of numbers from start to stop, by step.

    Raises InvalidArgumentError for a step of zero.
    """
    start, stop, step = (op.integer(name) for name in ("start", "stop", "step"))
    if step == 0:
        raise errors.InvalidArgumentError(None, None, "step must be a non-zero integer.")
    wanted = range(start, stop, step)
    dtype = np.dtype(op.attrs["output_types"][0].as_numpy_dtype)
    array = np.array
    return op.made(lambda run: Known([array(i, dtype)] for i in wanted), len(wanted))


@dataset_kernel("RandomDataset", "ExperimentalRandomDataset")
def random_numbers(op: DatasetOp) -> Dataset:
    """Return a dataset of random numbers, int64 of 32 bits."""
    seeds = op.integer("seed"), op.integer("seed2")

    def start(run: ElementContext) -> Elements:
        return Known(_random(RandomNumbers(*SeedGenerator(*seeds, reshuffles=False).seeds())))

    return op.made(start, INFINITE)


@dataset_kernel("RandomDatasetV2")
def random_numbers_again(op: DatasetOp) -> Dataset:
    """Return a dataset of random numbers.

    Each epoch has others where the attr asks for it.
    """
    seeds = op.integer("seed"), op.integer("seed2")
    renews = op.attrs["rerandomize_each_iteration"]
    given = op.value("seed_generator")
    key = object()

    def start(run: ElementContext) -> Elements:
        generator = (
            given
            if isinstance(given, SeedGenerator) and renews
            else run.shared(key, lambda: SeedGenerator(*seeds, reshuffles=renews))
        )
        return Known(_random(RandomNumbers(*generator.seeds())))

    return op.made(start, INFINITE)


def _random(numbers: RandomNumbers) -> Iterator[Element]:
    while True:
        yield [np.array(numbers(), np.int64)]


@dataset_kernel("SparseTensorSliceDataset")
def sparse_slices(op: DatasetOp) -> Dataset:
    """Return a dataset of the rows of a sparse tensor.

    A row has indices, values and dense shape.

    Raises InvalidArgumentError for parts that do not fit and for rows out of order.
    """
    indices, values, sizes = (op.values(name)[0] for name in ("indices", "values", "dense_shape"))
    if indices.ndim != 2 or values.ndim != 1 or sizes.ndim != 1:
        raise errors.InvalidArgumentError(
            None,
            None,
            "Input indices should be a matrix, values and dense_shape vectors. Received shapes "
            f"{', '.join(format_shape(np.shape(part)) for part in (indices, values, sizes))}",
        )
    if indices.shape != (len(values), len(sizes)):
        raise errors.InvalidArgumentError(
            None,
            None,
            f"Number of values must match first dimension of indices. Got {len(values)} values, "
            f"indices shape: {format_shape(indices.shape)}",
        )
    rows = indices[:, 0]
    if np.any(rows[1:] < rows[:-1]):
        at = int(np.flatnonzero(rows[1:] < rows[:-1])[0])
        raise errors.UnimplementedError(
            None,
            None,
            "The SparseTensor must be ordered in the batch dimension; handling arbitrarily ordered "
            "input is not currently supported. Got "
            f"{rows[at]} at position {at}, then {rows[at + 1]}",
        )
    count = int(sizes[0])
    starts = np.searchsorted(rows, np.arange(count + 1))

    def elements() -> Iterator[Element]:
        for row in range(count):
            part = slice(starts[row], starts[row + 1])
            yield [indices[part, 1:], values[part], sizes[1:]]

    rank = len(sizes) - 1
    return op.made(
        lambda run: Known(elements()),
        count,
        (dtypes.int64, op.attrs["Tvalues"], dtypes.int64),
        ((None, rank), (None,), (rank,)),
    )
