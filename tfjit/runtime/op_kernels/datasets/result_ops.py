"""Results of whole datasets: reductions, single elements, numbers of elements, files."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from tfjit.framework import errors
from tfjit.framework.files.records import pack_record
from tfjit.runtime.datasets.dataset import (
    Dataset,
    DatasetOp,
    Elements,
    result_kernel,
)
from tfjit.runtime.datasets.element import Element
from tfjit.runtime.datasets.element_context import ElementContext
from tfjit.runtime.datasets.owned_values import given_out
from tfjit.runtime.datasets.stacking import stacked
from tfjit.runtime.resources.tables import HashTable


@contextmanager
def _elements(op: DatasetOp, dataset: Dataset) -> Iterator[tuple[ElementContext, Elements]]:
    """Begin a pass that the step ends."""
    step = op.ctx.step
    run = ElementContext(step.host, step.cancellation, step.step_id)
    elements: Elements | None = None
    try:
        elements = dataset.start(run)
        yield run, elements
    finally:
        run.close()
        if elements is not None:
            elements.close()


@result_kernel("ReduceDataset")
def reduce(op: DatasetOp) -> Element:
    """Return the state after a function of state and each element."""
    dataset, function = op.dataset("input_dataset"), op.function("f", "other_arguments")
    state: Element = op.values("initial_state")
    with _elements(op, dataset) as (run, elements):
        for element in elements:
            state = function(run, [*state, *element])
            run.check()
    return [given_out(value) for value in state]


@result_kernel("DatasetToSingleElement")
def single_element(op: DatasetOp) -> Element:
    """Return the components of the only element. Raises InvalidArgumentError without one."""
    with _elements(op, op.dataset("dataset")) as (_, elements):
        try:
            element = next(elements)
        except StopIteration:
            raise errors.InvalidArgumentError(None, None, "Dataset was empty.") from None
        if next(elements, None) is not None:
            raise errors.InvalidArgumentError(None, None, "Dataset had more than one element.")
        return [given_out(value) for value in element]


@result_kernel("GetElementAtIndex")
def element_at(op: DatasetOp) -> Element:
    """Return the components of the element at an index.

    Raises OutOfRangeError beyond the end.
    """
    dataset, index = op.dataset("dataset"), op.integer("index")
    with _elements(op, dataset) as (_, elements):
        for at, element in enumerate(elements):
            if at == index:
                return [given_out(value) for value in element]
    raise errors.OutOfRangeError(
        None,
        None,
        f"Index out of range [0, {dataset.cardinality}):{index}",
    )


@result_kernel("DatasetCardinality", "ExperimentalDatasetCardinality")
def cardinality(op: DatasetOp) -> Element:
    """Return the number of elements: -1 without end, -2 unknown."""
    return (np.array(op.dataset("input_dataset").cardinality, np.int64),)


@result_kernel("ComputeBatchSize")
def batch_size(op: DatasetOp) -> Element:
    """Return the size of the elements' first axis, -1 if unknown."""
    sizes = {shape[0] if shape else None for shape in op.dataset("input_dataset").shapes}
    (found,) = sizes if len(sizes) == 1 else (None,)
    return (np.array(-1 if found is None else found, np.int64),)


@result_kernel("DatasetToTFRecord", "ExperimentalDatasetToTFRecord")
def to_tf_record(op: DatasetOp) -> Element:
    """Write the elements, string scalars, as records of a file."""
    path, compression = op.text("filename").decode(), op.text("compression_type")
    if compression not in (b"", b"ZLIB", b"GZIP"):
        raise errors.InvalidArgumentError(
            None, None, f"Unsupported compression_type: {compression.decode()}"
        )
    records = []
    with _elements(op, op.dataset("input_dataset")) as (run, elements):
        for element in elements:
            records.append(pack_record(bytes(np.asarray(element[0], object).item())))
            run.check()
    data = b"".join(records)
    if compression == b"GZIP":
        data = gzip.compress(data)
    elif compression == b"ZLIB":
        data = zlib.compress(data)
    op.ctx.session.env.files.write(path, data)
    return ()


@result_kernel("InitializeTableFromDataset")
def initialize_table(op: DatasetOp) -> Element:
    """Fill an uninitialized table with the dataset's keys and values."""
    table = op.value("table_handle")
    if not isinstance(table, HashTable):
        raise errors.InvalidArgumentError(
            None, None, f"the handle belongs to a {type(table).__name__}, not to a table"
        )
    rows: list[Element] = []
    dataset = op.dataset("dataset")
    with _elements(op, dataset) as (run, elements):
        for element in elements:
            rows.append(element)
            run.check()
    if rows:
        table.initialize(*stacked(rows))
    else:
        table.initialize(*(np.empty(0, dtype.as_numpy_dtype) for dtype in dataset.types))
    return ()
