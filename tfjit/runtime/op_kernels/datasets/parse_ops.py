"""Datasets of parsed Example messages and of rows of CSV files."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import IO, NoReturn

import numpy as np

from tfjit.framework import errors
from tfjit.kernels.registry import NodeSpec, find_reference
from tfjit.runtime.datasets.csv_text import CsvForm, csv_rows
from tfjit.runtime.datasets.dataset import UNKNOWN, Dataset, DatasetOp, Elements, dataset_kernel
from tfjit.runtime.datasets.element import Element, Value
from tfjit.runtime.op_kernels.containers.sparse_variant_ops import three_variants
from tfjit.runtime.op_kernels.datasets.file_ops import Records


def _invalid(message: str) -> NoReturn:
    raise errors.InvalidArgumentError(None, None, message)


@dataset_kernel("ParseExampleDataset", "ParseExampleDatasetV2")
def parsed_examples(op: DatasetOp) -> Dataset:
    """Return the features of vectors of messages, by key.

    A sparse feature is three variants. Raises UnimplementedError for ragged features.
    """
    source, attrs = op.dataset("input_dataset"), op.attrs
    if attrs.get("ragged_keys", ()):
        raise errors.UnimplementedError(
            None, None, f"{op.ctx.op} has no kernel for ragged features."
        )
    if op.integer("num_parallel_calls") == 0:
        _invalid("num_parallel_calls must be greater than zero.")
    sparse, dense = tuple(attrs["sparse_keys"]), tuple(attrs["dense_keys"])
    spec = NodeSpec(
        op.ctx.name,
        "ParseExampleV2",
        {**attrs, "num_sparse": len(sparse), "ragged_value_types": (), "ragged_split_types": ()},
        (),
        (),
    )
    nothing = np.empty(0, object)
    keys = [np.array(part, object) for part in (sparse, dense)]
    defaults = op.values("dense_defaults")
    parse, count = find_reference("ParseExampleV2"), len(sparse)
    assert parse is not None
    order = sorted(range(count + len(dense)), key=(sparse + dense).__getitem__)

    def features(element: Element) -> Element:
        outputs = parse(spec, [element[0], nothing, *keys, nothing, *defaults])
        found: list[Value] = [three_variants(*outputs[k : 3 * count : count]) for k in range(count)]
        found += outputs[3 * count :]
        return [found[k] for k in order]

    return op.made(lambda run: _Parsed(source.start(run), features), source.cardinality)


class _Parsed(Elements):
    __slots__ = ("_features",)

    def __init__(self, source: Elements, features: Callable[[Element], Element]) -> None:
        super().__init__(source)
        self._features = features

    def __next__(self) -> Element:
        return self._features(next(self.sources[0]))


@dataset_kernel("CSVDataset", "CSVDatasetV2")
def csv_files(op: DatasetOp) -> Dataset:
    """Return the rows of CSV files, a scalar for each column.

    Raises InvalidArgumentError for arguments that do not fit; a row that does not fit raises it in
    its place.
    """
    names, files = op.strings("filenames"), op.ctx.session.env.files
    compression = op.text("compression_type").decode()
    if compression not in ("", "ZLIB", "GZIP"):
        _invalid(f"Unsupported compression_type: {compression}.")
    if op.integer("buffer_size") <= 0:
        _invalid("buffer_size should be positive")
    delimiter, types = op.text("field_delim"), op.attrs["output_types"]
    if len(delimiter) != 1:
        _invalid("field_delim should be only 1 char")
    select = [int(column) for column in np.asarray(op.value("select_cols")).reshape(-1)]
    if "exclude_cols" in op.names and np.size(op.value("exclude_cols")):
        raise errors.UnimplementedError(None, None, f"{op.ctx.op} has no kernel for exclude_cols.")
    if select and len(select) != len(types):
        _invalid("select_cols should match output size")
    if any(column < 0 for column in select):
        _invalid("select_cols should be non-negative indices")
    if any(a >= b for a, b in itertools.pairwise(select)):
        _invalid("select_cols should be strictly increasing indices")
    form = CsvForm(
        tuple(types),
        [np.asarray(default) for default in op.values("record_defaults")],
        delimiter,
        op.boolean("use_quote_delim"),
        op.text("na_value"),
        tuple(select),
    )
    header = op.boolean("header")

    def read(file: IO[bytes], name: str) -> Iterator[Value]:
        return csv_rows(file, form, header)

    return op.made(lambda run: _CsvRows(names, files, compression, read), UNKNOWN)


class _CsvRows(Records):
    __slots__ = ()

    def _element(self, record: Value) -> Element:
        if isinstance(record, errors.OpError):
            raise record
        row: Element = record
        return row
