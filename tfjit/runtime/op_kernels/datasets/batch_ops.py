"""Datasets of batches, windows and rows of elements."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np

from tfjit.framework import errors
from tfjit.framework.types import dtypes
from tfjit.framework.types.shape import format_shape
from tfjit.runtime.datasets.dataset import (
    UNKNOWN,
    Dataset,
    DatasetOp,
    Elements,
    Known,
    dataset_kernel,
)
from tfjit.runtime.datasets.element import Element, Value
from tfjit.runtime.datasets.element_context import ElementContext
from tfjit.runtime.datasets.stacking import padded_stack, stacked


def batch_count(count: int, size: int, drops: bool) -> int:
    """Return the number of batches of `count` elements."""
    return count if count < 0 else count // size if drops else -(-count // size)


@dataset_kernel("BatchDataset", "BatchDatasetV2", "ParallelBatchDataset")
def batch(op: DatasetOp) -> Dataset:
    """Return stacks of `batch_size` elements."""
    source, size = op.dataset("input_dataset"), op.integer("batch_size")
    if size <= 0:
        raise errors.InvalidArgumentError(None, None, "Batch size must be greater than zero.")
    drops = op.ctx.op != "BatchDataset" and op.boolean("drop_remainder")
    count = batch_count(source.cardinality, size, drops)
    table, places = source.table, source.places
    if table is not None and places is not None:
        return op.made(lambda run: _Gathered(table, places(run), size, drops), count)
    return op.made(lambda run: Batches(source.start(run), size, drops, source.maps), count)


class Batches(Elements):
    """Stacks of elements.

    is_whole: a batch ends where it would without the error of an element in it. TensorFlow fuses a
    map with the batches on it, and then has such batches.
    """

    __slots__ = ("_drops", "_is_over", "_is_whole", "_size")

    def __init__(self, source: Elements, size: int, drops: bool, is_whole: bool = False) -> None:
        super().__init__(source)
        self._size, self._drops, self._is_whole = size, drops, is_whole
        self._is_over = False

    def __next__(self) -> Element:
        return stacked(self._rows())

    def _rows(self) -> Sequence[Element]:
        if self._is_over:
            raise StopIteration
        rows: list[Element] = []
        source, size = self.sources[0], self._size
        add = rows.append
        try:
            while len(rows) < size:
                add(next(source))
        except StopIteration:
            self._is_over = True
            self.close()
            if not rows or self._drops:
                raise
        except errors.OpError:
            if self._is_whole:
                self._pass_over(size - len(rows) - 1)
            raise
        return rows

    def _pass_over(self, count: int) -> None:
        """Drop the elements behind an error in its batch."""
        for _ in range(count):
            try:
                next(self.sources[0])
            except StopIteration:
                self._is_over = True
                self.close()
                return
            except errors.OpError:
                continue


class _Gathered(Batches):
    """Batches of rows of arrays: no row is an array for itself."""

    __slots__ = ("_table",)

    def __init__(
        self, table: tuple[np.ndarray, ...], places: Elements, size: int, drops: bool
    ) -> None:
        super().__init__(places, size, drops)
        self._table = table

    def __next__(self) -> Element:
        places: Value = self._rows()
        return [array.take(places, axis=0) for array in self._table]


@dataset_kernel("PaddedBatchDataset", "PaddedBatchDatasetV2")
def padded_batch(op: DatasetOp) -> Dataset:
    """Return stacks of `batch_size` elements, which are padded to one shape."""
    source, size = op.dataset("input_dataset"), op.integer("batch_size")
    if size <= 0:
        raise errors.InvalidArgumentError(None, None, "Batch size must be greater than zero.")
    drops = op.ctx.op == "PaddedBatchDatasetV2" and op.boolean("drop_remainder")
    shapes = [
        tuple(None if d < 0 else d for d in np.asarray(shape).tolist())
        for shape in op.values("padded_shapes")
    ]
    fill = op.values("padding_values")
    for value in fill:
        if np.ndim(value):
            raise errors.InvalidArgumentError(None, None, "All padding values must be scalars")
    return op.made(
        lambda run: _PaddedBatches(source.start(run), size, drops, shapes, fill),
        batch_count(source.cardinality, size, drops),
    )


class _PaddedBatches(Batches):
    __slots__ = ("_fill", "_shapes")

    def __init__(
        self,
        source: Elements,
        size: int,
        drops: bool,
        shapes: Sequence[tuple[int | None, ...]],
        fill: Sequence[np.ndarray],
    ) -> None:
        super().__init__(source, size, drops)
        self._shapes, self._fill = shapes, fill

    def __next__(self) -> Element:
        return padded_stack(self._rows(), self._shapes, self._fill)


@dataset_kernel("DenseToSparseBatchDataset", "ExperimentalDenseToSparseBatchDataset")
def dense_to_sparse(op: DatasetOp) -> Dataset:
    """Return batches as sparse tensors: one component, three variants."""
    source, size = op.dataset("input_dataset"), op.integer("batch_size")
    if size <= 0:
        raise errors.InvalidArgumentError(None, None, "Batch size must be greater than zero.")
    row = [None if d < 0 else d for d in np.asarray(op.value("row_shape")).reshape(-1).tolist()]
    if len(source.types) != 1:
        raise errors.InvalidArgumentError(
            None, None, "DenseToSparseDataset only supports inputs with a single component."
        )
    return op.made(
        lambda run: _SparseBatches(source.start(run), size, row),
        batch_count(source.cardinality, size, False),
    )


class _SparseBatches(Batches):
    __slots__ = ("_row",)

    def __init__(self, source: Elements, size: int, row: Sequence[int | None]) -> None:
        super().__init__(source, size, False)
        self._row = row

    def __next__(self) -> Element:
        rows = [row[0] for row in self._rows()]
        sizes = [0 if d is None else d for d in self._row]
        for value in rows:
            if value.ndim != len(sizes):
                raise errors.InvalidArgumentError(
                    None,
                    None,
                    f"Input element had shape ({format_shape(value.shape)}) that is incompatible "
                    f"with the row shape ({format_shape(tuple(self._row))}).",
                )
            for axis, wanted in enumerate(self._row):
                if wanted is None:
                    sizes[axis] = max(sizes[axis], value.shape[axis])
                elif value.shape[axis] > wanted:
                    raise errors.DataLossError(
                        None,
                        None,
                        f"Input element had shape ({format_shape(value.shape)}) that is "
                        f"incompatible with the row shape ({format_shape(tuple(self._row))}).",
                    )
        indices = [
            np.concatenate(
                [
                    np.full((value.size, 1), i, np.int64),
                    np.indices(value.shape, np.int64).reshape(value.ndim, -1).T,
                ],
                axis=1,
            )
            for i, value in enumerate(rows)
        ]
        three = np.empty(3, object)
        three[0] = np.concatenate(indices)
        three[1] = np.concatenate([value.reshape(-1) for value in rows])
        three[2] = np.array([len(rows), *sizes], np.int64)
        return [three]


@dataset_kernel("UnbatchDataset", "ExperimentalUnbatchDataset")
def unbatch(op: DatasetOp) -> Dataset:
    """Return the rows of the elements."""
    source = op.dataset("input_dataset")
    found = source.cardinality
    if found > 0:
        sizes = [shape[0] for shape in source.shapes if shape]
        rows = next((size for size in sizes if size is not None), None)
        found = UNKNOWN if rows is None else found * rows
    variants = [i for i, dtype in enumerate(source.types) if dtype == dtypes.variant]
    return op.made(lambda run: _Rows(source.start(run), variants), found)


class _Rows(Elements):
    __slots__ = ("_at", "_count", "_parts", "_variants")

    def __init__(self, source: Elements, variants: Sequence[int]) -> None:
        super().__init__(source)
        self._variants = variants
        self._parts: Element = ()
        self._at = self._count = 0

    def __next__(self) -> Element:
        while self._at >= self._count:
            parts = next(self.sources[0])
            for i, part in enumerate(parts):
                if np.ndim(part) == 0:
                    raise errors.InvalidArgumentError(
                        None, None, f"Input element must have a non-scalar value in component {i}."
                    )
                if len(part) != len(parts[0]):
                    raise errors.InvalidArgumentError(
                        None,
                        None,
                        "Input element must have the same batch size in each component. Component "
                        f"0 had size {len(parts[0])} but component {i} had size, {len(part)}.",
                    )
            self._parts, self._at, self._count = parts, 0, len(parts[0])
        at = self._at
        self._at = at + 1
        row = [part[at, ...] for part in self._parts]
        for i in self._variants:
            row[i] = row[i].item() if row[i].ndim == 0 else row[i]  # a variant scalar is its object
        return row


@dataset_kernel("WindowDataset")
def window(op: DatasetOp) -> Dataset:
    """Return windows: elements with a dataset for each component."""
    source = op.dataset("input_dataset")
    size, shift, stride = (op.integer(name) for name in ("size", "shift", "stride"))
    for name, value in (("Window size", size), ("Window shift", shift), ("Window stride", stride)):
        if value <= 0:
            raise errors.InvalidArgumentError(None, None, f"{name} must be greater than zero.")
    drops = op.boolean("drop_remainder")
    known = source.cardinality
    if known < 0:
        found = known
    elif drops:
        found = max(0, (known - (size - 1) * stride - 1) // shift + 1)
    else:
        found = -(-known // shift)
    types, shapes = source.types, source.shapes

    def part(rows: Sequence[Element], i: int) -> Dataset:
        return Dataset(
            "WindowDataset",
            (types[i],),
            (shapes[i],),
            len(rows),
            lambda run: Known(iter([[row[i]] for row in rows])),
        )

    def start(run: ElementContext) -> Elements:
        found = _Windows(source.start(run), size, shift, stride, drops)
        return _OfDatasets(found, part)

    return op.made(start, found)


class _OfDatasets(Elements):
    __slots__ = ("_part",)

    def __init__(self, windows: _Windows, part: Value) -> None:
        super().__init__(windows)
        self._part = part

    def __next__(self) -> Element:
        rows = next(self.sources[0])
        return [self._part(rows, i) for i in range(len(rows[0]))]


class _Windows(Elements):
    """Lists of elements; an element's error is raised once."""

    __slots__ = ("_buffer", "_drops", "_is_over", "_shift", "_size", "_stride")

    def __init__(self, source: Elements, size: int, shift: int, stride: int, drops: bool) -> None:
        super().__init__(source)
        self._size, self._shift, self._stride, self._drops = size, shift, stride, drops
        self._buffer: deque[Element] = deque()
        self._is_over = False

    def __next__(self) -> Sequence[Element]:
        buffer, span = self._buffer, (self._size - 1) * self._stride + 1
        source = self.sources[0]
        while len(buffer) < span and not self._is_over:
            try:
                buffer.append(next(source))
            except StopIteration:
                self._is_over = True
                self.close()
        if not buffer or (self._drops and len(buffer) < span):
            raise StopIteration
        rows = [buffer[i] for i in range(0, min(span, len(buffer)), self._stride)]
        for _ in range(min(self._shift, len(buffer))):
            buffer.popleft()
        left = self._shift - span
        while left > 0 and not self._is_over:  # elements between windows
            try:
                next(source)
            except StopIteration:
                self._is_over = True
                self.close()
            left -= 1
        return rows


@dataset_kernel("SlidingWindowDataset", "ExperimentalSlidingWindowDataset")
def sliding_window(op: DatasetOp) -> Dataset:
    """Return stacks of the elements in windows."""
    source = op.dataset("input_dataset")
    size, shift, stride = (
        op.integer(name) for name in ("window_size", "window_shift", "window_stride")
    )
    for name, value in (
        ("Window size", size),
        ("Window shift", shift),
        ("window_stride", stride),
    ):
        if value <= 0:
            raise errors.InvalidArgumentError(None, None, f"{name} must be greater than zero.")
    drops = op.attrs.get("drop_remainder", True)
    known = source.cardinality
    found = known if known < 0 else max(0, (known - (size - 1) * stride - 1) // shift + 1)

    def start(run: ElementContext) -> Elements:
        return _Stacks(_Windows(source.start(run), size, shift, stride, drops))

    return op.made(start, found if drops or known < 0 else -(-known // shift))


class _Stacks(Elements):
    __slots__ = ()

    def __next__(self) -> Element:
        return stacked(next(self.sources[0]))
