"""Read lines of CSV to columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from tfjit.framework.errors import InvalidArgumentError
from tfjit.framework.types.dtypes import DType
from tfjit.kernels.cpu.reference.records.number_parsing import float_parser, float_values
from tfjit.kernels.cpu.strings.csv import read_records

_INTEGER: Final = re.compile(rb"[+-]?[0-9]+")


def _fail(message: str) -> InvalidArgumentError:
    return InvalidArgumentError(None, None, message)


def columns_of(
    records: Sequence[bytes],
    types: Sequence[DType],
    defaults: Sequence[np.ndarray],
    delimiter: bytes,
    quotes: bool,
    missing: bytes,
    select: Sequence[int],
) -> list[np.ndarray]:
    """Return the columns of records.

    types, defaults: of the columns; a default has one element, or none: the field must be there.
    select: the fields of the columns, all by default. Raises InvalidArgumentError for a record
    that does not fit.
    """
    if len(delimiter) != 1:
        raise _fail("field_delim should be only 1 char")
    if select and len(select) != len(types):
        raise _fail("select_cols should match output size")
    items = np.empty(len(records), object)
    items[:] = records
    dtypes = [np.dtype(dtype.as_numpy_dtype) for dtype in types]
    read = read_records(items, dtypes, defaults, delimiter, quotes, missing, select)
    if read is not None:
        columns, left = read
    else:
        plain = _plain_columns(records, types, delimiter, missing, select)
        if plain is not None:
            return plain
        columns, left = [np.empty(items.size, dtype) for dtype in dtypes], np.arange(items.size)
    parsers = [_csv_parser(dtype) for dtype in types]
    with np.errstate(over="ignore"):
        for number in left.tolist():
            fields = _csv_fields(records[number], delimiter, quotes)
            if select:
                fields = [fields[k] for k in select if k < len(fields)]
            if len(fields) != len(types):
                raise _fail(f"Expect {len(types)} fields but have {len(fields)} in record {number}")
            for k, text in enumerate(fields):
                columns[k][number] = (
                    _default(defaults[k], k, number)
                    if not text or text == missing
                    else _parsed(text, parsers[k], types[k], k, number)
                )
    return columns


def _default(default: np.ndarray, field: int, record: int) -> object:
    if not default.size:
        raise _fail(f"Field {field} is required but missing in record {record}!")
    return default.reshape(-1)[0]


def _parsed(
    text: bytes, parse: Callable[[bytes], object], dtype: DType, field: int, record: int
) -> object:
    try:
        return parse(text)
    except ValueError:
        shown = text.decode(errors="replace")
        kind = {"float32": "float", "float64": "double"}.get(dtype.name, dtype.name)
        raise _fail(f"Field {field} in record {record} is not a valid {kind}: {shown}") from None


def _column(values: Sequence[object], dtype: DType) -> np.ndarray:
    column = np.empty(len(values), dtype.as_numpy_dtype)
    column[:] = values
    return column


def _plain_columns(
    rows: Sequence[bytes],
    types: Sequence[DType],
    delimiter: bytes,
    missing: bytes,
    select: Sequence[int],
) -> list[np.ndarray] | None:
    """Return the columns of plain records, each converted at once.

    None for records with quotes, missing fields or errors.
    """
    everything = b"\n".join(rows)
    marks = (b'"', b"_", b"\r")
    if any(mark in everything for mark in marks) or everything.count(b"\n") != len(rows) - 1:
        return None
    split = [row.split(delimiter) for row in rows]
    if select:
        if max(select) >= min(map(len, split)):
            return None
        columns = [[fields[k] for fields in split] for k in select]
    else:
        if {len(fields) for fields in split} != {len(types)}:
            return None
        columns = [list(column) for column in zip(*split, strict=True)]
    if any(b"" in column or missing in column for column in columns):
        return None
    try:
        with np.errstate(over="ignore"):
            return [_plain_column(*both) for both in zip(columns, types, strict=True)]
    except ValueError:
        return None


def _plain_column(fields: Sequence[bytes], dtype: DType) -> np.ndarray:
    """Return the values of a column. Raises ValueError."""
    if dtype.name == "string":
        return _column(fields, dtype)
    if not dtype.is_integer:
        return float_values(fields, dtype)
    numbers = list(map(int, fields))
    limit = 1 << 8 * dtype.size - 1
    if not -limit <= min(numbers) <= max(numbers) < limit:
        raise ValueError
    return _column(numbers, dtype)


def _csv_parser(dtype: DType) -> Callable[[bytes], object]:
    """Return a function from a field's text to its value.

    The function raises ValueError.
    """
    if dtype.name == "string":
        return lambda text: text
    if not dtype.is_integer:
        return float_parser(dtype)
    limit = 1 << 8 * dtype.size - 1

    def parse(text: bytes) -> int:
        text = text.strip()
        number = int(text) if _INTEGER.fullmatch(text) else limit
        if not -limit <= number < limit:
            raise ValueError
        return number

    return parse


def _csv_fields(record: bytes, delimiter: bytes, quotes: bool) -> list[bytes]:
    """Return the fields of a record by RFC 4180.

    Raises InvalidArgumentError for quotes that do not fit.
    """
    if not record:
        return []
    if not quotes or b'"' not in record:
        if b"\n" in record or b"\r" in record:
            raise _fail("Unquoted fields cannot have quotes/CRLFs inside")
        return record.split(delimiter)
    fields: list[bytes] = []
    at, end = 0, len(record)
    while at < end:
        if record[at : at + 1] != b'"':
            stop = record.find(delimiter, at)
            stop = end if stop < 0 else stop
            text = record[at:stop]
            if any(mark in text for mark in (b'"', b"\n", b"\r")):
                raise _fail("Unquoted fields cannot have quotes/CRLFs inside")
            fields.append(text)
            at = stop + 1
        else:
            at += 1
            parts = bytearray()
            while at < end - 1 and record[at : at + 2] != b'"' + delimiter:
                if record[at : at + 1] == b'"':
                    if record[at + 1 : at + 2] != b'"':
                        raise _fail("Quote inside a string has to be escaped by another quote")
                    at += 1
                parts += record[at : at + 1]
                at += 1
            if record[at : at + 1] != b'"':
                raise _fail("Quoted field has to end with quote followed by delim or end")
            fields.append(bytes(parts))
            at += 2
        if at == end:  # a delimiter ends the record: an empty field follows
            fields.append(b"")
    return fields
