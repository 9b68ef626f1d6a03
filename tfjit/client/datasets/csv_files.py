"""Datasets of CSV files."""

from __future__ import annotations

import csv
import glob
import gzip
import itertools
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import IO, TYPE_CHECKING, Final

import numpy as np

from tfjit import ops
from tfjit.client.datasets.dataset import Dataset
from tfjit.client.datasets.dataset_base import AUTOTUNE
from tfjit.client.datasets.parsed_examples import interleaved_files, shuffled
from tfjit.framework.errors import NotFoundError
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.graphs.static_value import get_static_value
from tfjit.framework.graphs.tensor_spec import TensorSpec
from tfjit.framework.types import dtypes as dt
from tfjit.framework.types.dtypes import DType
from tfjit.ops.core.apply import tensor
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Structure, TensorLike

_BUFFER: Final = 4 << 20
_SHUFFLED: Final = 10_000
_PROBED: Final = 100
_TYPES: Final = (dt.float32, dt.float64, dt.int32, dt.int64, dt.string)


class CsvDataset(Dataset):
    """The rows of CSV files, a scalar for each column.

    record_defaults: a value a column, or a dtype: the field must be there. compression_type: "",
    "ZLIB" or "GZIP". header: the first line of each file is left out. select_cols: the columns to
    keep, in ascending order. A row that does not fit raises InvalidArgumentError in its place.
    """

    def __init__(
        self,
        filenames: TensorLike,
        record_defaults: Sequence[Structure],
        compression_type: TensorLike | None = None,
        buffer_size: TensorLike | None = None,
        header: TensorLike = False,
        field_delim: TensorLike = ",",
        use_quote_delim: TensorLike = True,
        na_value: TensorLike = "",
        select_cols: TensorLike | None = None,
    ) -> None:
        files = convert_to_tensor(filenames, dtype=dt.string, name="filenames")
        compression = convert_to_tensor(
            "" if compression_type is None else compression_type,
            dtype=dt.string,
            name="compression_type",
        )
        given = _default_tensors(record_defaults)
        defaults = [
            convert_to_tensor(value, name=f"record_defaults_{k}") for k, value in enumerate(given)
        ]
        size = _BUFFER if buffer_size is None else buffer_size
        select = np.zeros(0, np.int64) if select_cols is None else select_cols
        spec = tuple(TensorSpec((), value.dtype) for value in defaults)
        made = tensor(
            "CSVDatasetV2",
            None,
            filenames=files,
            compression_type=compression,
            buffer_size=convert_to_tensor(size, dtype=dt.int64, name="buffer_size"),
            header=convert_to_tensor(header, dtype=dt.bool, name="header"),
            field_delim=convert_to_tensor(field_delim, dtype=dt.string, name="field_delim"),
            use_quote_delim=convert_to_tensor(
                use_quote_delim, dtype=dt.bool, name="use_quote_delim"
            ),
            na_value=convert_to_tensor(na_value, dtype=dt.string, name="na_value"),
            select_cols=convert_to_tensor(select, dtype=dt.int64, name="select_cols"),
            record_defaults=defaults,
            exclude_cols=convert_to_tensor(
                np.zeros(0, np.int64), dtype=dt.int64, name="exclude_cols"
            ),
            output_types=[value.dtype for value in defaults],
            output_shapes=[()] * len(defaults),
        )
        super().__init__(made, spec)


def _default_tensors(values: Sequence[Structure]) -> list[Structure]:
    """Return the defaults of columns; a dtype becomes an empty one."""
    return [
        ops.constant(np.zeros(0, value.as_numpy_dtype), dtype=value)
        if isinstance(value, DType) and value in _TYPES
        else value
        for value in values
    ]


def make_csv_dataset(
    file_pattern: str | Sequence[str],
    batch_size: TensorLike,
    column_names: Sequence[str] | None = None,
    column_defaults: Sequence[Structure] | None = None,
    label_name: str | None = None,
    select_columns: Sequence[str | int] | None = None,
    field_delim: str = ",",
    use_quote_delim: bool = True,
    na_value: str = "",
    header: bool = True,
    num_epochs: int | None = None,
    shuffle: bool = True,
    shuffle_buffer_size: TensorLike = _SHUFFLED,
    shuffle_seed: TensorLike | None = None,
    prefetch_buffer_size: TensorLike | None = None,
    num_parallel_reads: int | None = None,
    sloppy: bool = False,
    num_rows_for_inference: int | None = _PROBED,
    compression_type: TensorLike | None = None,
    ignore_errors: bool = False,
    encoding: str = "utf-8",
) -> Dataset:
    """Return batches of the columns of CSV files, by name.

    column_names: by default those in the first lines. column_defaults: as CsvDataset's; by default
    the types follow from the first `num_rows_for_inference` rows. label_name: the column that
    becomes the second part of a pair. select_columns: names or places. num_epochs: None repeats for
    ever. Raises ValueError for names, places and rows that do not fit.
    """
    names = _matching(file_pattern)
    files = Dataset.from_tensor_slices(names)
    if shuffle:
        files = files.shuffle(len(names), shuffle_seed)
    probe = _Probe(names, field_delim, use_quote_delim, compression_type, encoding)
    if column_names is None:
        if not header:
            raise ValueError("Expected `column_names` or `header` arguments. Neither is provided.")
        column_names = probe.column_names()
    if len(column_names) != len(set(column_names)):
        raise ValueError(
            "Either `column_names` argument or CSV header row contains duplicate column names: "
            f"{_repeated(column_names)}."
        )
    select = None if select_columns is None else _places(select_columns, column_names)
    if column_defaults is not None:
        defaults = _default_tensors(column_defaults)
    else:
        rows = probe.rows(len(column_names), header)
        chosen = range(len(column_names)) if select is None else select
        defaults = _inferred(itertools.islice(rows, num_rows_for_inference), chosen, na_value)
    if select is not None and len(defaults) != len(select):
        raise ValueError(
            "If specified, `column_defaults` and `select_columns` must have the same length: "
            f"`column_defaults` has length {len(defaults)}, `select_columns` has length "
            f"{len(select)}."
        )
    if select is not None and len(column_names) > len(select):
        column_names = [column_names[k] for k in select]
    if label_name is not None and label_name not in column_names:
        raise ValueError(
            f"`label_name` provided must be one of the columns: {column_names}. Received: "
            f"{label_name}."
        )
    columns = tuple(column_names)

    def read(name: Structure) -> Dataset:
        made = CsvDataset(
            name,
            defaults,
            compression_type,
            None,
            header,
            field_delim,
            use_quote_delim,
            na_value,
            select,
        )
        return made.ignore_errors() if ignore_errors else made

    def named(*parts: Structure) -> Structure:
        features = OrderedDict(zip(columns, parts, strict=True))
        return features if label_name is None else (features, features.pop(label_name))

    dataset = interleaved_files(files, read, num_parallel_reads, sloppy)
    dataset = shuffled(dataset, num_epochs, shuffle, shuffle_buffer_size, shuffle_seed)
    dataset = dataset.batch(batch_size, drop_remainder=num_epochs is None).map(named)
    return dataset.prefetch(AUTOTUNE if prefetch_buffer_size is None else prefetch_buffer_size)


def _matching(pattern: str | Sequence[str]) -> list[str]:
    """Return the names of files that match a pattern or several, sorted."""
    if isinstance(pattern, list) and not pattern:
        raise ValueError("Argument `file_pattern` should not be empty.")
    patterns = pattern if isinstance(pattern, list) else [pattern]
    names = sorted(name for one in patterns for name in glob.glob(str(one)))
    if not names:
        raise ValueError(f"No files match `file_pattern` {pattern}.")
    return names


def _repeated(names: Sequence[Structure]) -> set[Structure]:
    ordered = sorted(names)
    return {a for a, b in itertools.pairwise(ordered) if a == b}


def _places(select: Sequence[str | int], names: Sequence[str]) -> list[int]:
    """Return the places of columns in ascending order."""
    known = {name: place for place, name in enumerate(names)}
    found = []
    for column in select:
        if isinstance(column, int):
            if not 0 <= column < len(names):
                raise ValueError(
                    f"Column index {column} specified in `select_columns` should be > 0  and <= "
                    f"{len(names)}, which is the number of columns."
                )
            found.append(column)
        elif column not in known:
            raise ValueError(
                f"Column {column} specified in `select_columns` must be of one of the columns: "
                f"{known.keys()}."
            )
        else:
            found.append(known[column])
    distinct = sorted(set(found))
    if len(distinct) != len(found):
        raise ValueError(
            f"The `select_columns` argument contains duplicate columns: {_repeated(distinct)}."
        )
    return distinct


class _Probe:
    """Read the first rows of files while the graph is built."""

    def __init__(
        self,
        names: Sequence[str],
        delimiter: str,
        quotes: bool,
        compression: Structure,
        encoding: str,
    ) -> None:
        self._names, self._encoding = names, encoding
        self._compression = compression
        self._form: dict[str, Structure] = {
            "delimiter": delimiter,
            "quoting": csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE,
        }

    def _open(self, name: str) -> IO[str]:
        kind: Structure = self._compression
        if isinstance(kind, Tensor):
            found = get_static_value(kind)
            kind = None if found is None else found.item().decode()
        if kind == "GZIP":
            return gzip.open(name, "rt", encoding=self._encoding)
        if kind == "ZLIB":
            raise ValueError(
                f"`compression_type` {self._compression} is not supported for probing columns."
            )
        if kind not in (None, ""):
            raise ValueError(
                f"Received unknown `compression_type` {self._compression}. Expected: GZIP, ZLIB or "
                " (empty string)."
            )
        try:
            return open(name, encoding=self._encoding)
        except FileNotFoundError:
            raise NotFoundError(None, None, f"{name}; No such file or directory") from None

    def column_names(self) -> list[str]:
        """Return the first row, which all files have."""
        first: list[str] | None = None
        for name in self._names:
            with self._open(name) as file:
                row = next(csv.reader(file, **self._form), None)
            if row is None:
                raise ValueError(
                    f"Failed when reading the header line of {name}. Is it an empty file?"
                )
            if first is not None and row != first:
                raise ValueError(
                    "All input CSV files should have the same column names in the header row. File "
                    f"{name} has different column names."
                )
            first = row
        return first or []

    def rows(self, count: int, header: bool) -> Iterator[list[str]]:
        """Yield the rows of all files.

        Raises ValueError for one without `count` fields."""
        for name in self._names:
            with self._open(name) as file:
                for number, row in enumerate(csv.reader(file, **self._form), 1):
                    if header and number == 1:
                        continue
                    if len(row) != count:
                        raise ValueError(
                            f"Problem inferring types: CSV row {number} has {len(row)} number of "
                            f"fields. Expected: {count}."
                        )
                    yield row


def _inferred(rows: Iterator[list[str]], columns: Sequence[int], missing: str) -> list[Structure]:
    """Return the defaults of columns.

    Their types are the narrowest that hold all fields."""
    found: list[int | None] = [None] * len(columns)
    for row in rows:
        for k, column in enumerate(columns):
            if row[column] not in ("", missing):
                found[k] = max(found[k] or 0, _narrowest(row[column]))
    kinds = [dt.string if place is None else _ORDER[place][0] for place in found]
    return [ops.constant(["" if kind is dt.string else 0], dtype=kind) for kind in kinds]


def _narrowest(text: str) -> int:
    """Return the place of the first type that holds a field."""
    return next(place for place, (_, holds) in enumerate(_ORDER) if holds(text))


def _is_integer(dtype: type[np.integer]) -> Callable[[str], bool]:
    limits = np.iinfo(dtype)

    def holds(text: str) -> bool:
        try:
            return bool(limits.min <= int(text) <= limits.max)
        except ValueError:
            return False

    return holds


def _is_float(dtype: type[np.floating]) -> Callable[[str], bool]:
    def holds(text: str) -> bool:
        try:
            with np.errstate(over="ignore"):
                return bool(dtype(text) < np.inf)
        except ValueError:
            return False

    return holds


_ORDER: Final = (
    (dt.int32, _is_integer(np.int32)),
    (dt.int64, _is_integer(np.int64)),
    (dt.float32, _is_float(np.float32)),
    (dt.float64, _is_float(np.float64)),
    (dt.string, lambda text: True),
)
"""The types of columns, the narrowest first."""

__all__ = ["CsvDataset", "make_csv_dataset"]
