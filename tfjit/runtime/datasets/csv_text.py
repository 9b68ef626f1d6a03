"""Read rows of CSV files.

Records are cut from the text and decoded many at once, by the kernel of DecodeCSV. A record that
this kernel refuses is read by itself, for TensorFlow's texts of errors in files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Final

import numpy as np

from tfjit.framework import errors
from tfjit.framework.errors import InvalidArgumentError
from tfjit.kernels.registry import NodeSpec, find_reference
from tfjit.runtime.datasets.element import Element

if TYPE_CHECKING:
    from tfjit.framework.types.dtypes import DType

_BLOCK_BYTES: Final = 1 << 16
_QUOTE: Final = ord('"')
_ENDS: Final = (10, 13)


@dataclass(frozen=True)
class CsvForm:
    """The form of the records.

    types, defaults: of the columns; a default has one element, or none: the field must be there.
    missing: the text of a missing field. select: the fields of the columns, all by default.
    """

    types: Sequence[DType]
    defaults: Sequence[np.ndarray]
    delimiter: bytes
    quotes: bool
    missing: bytes
    select: Sequence[int]

    def decode(self, records: Sequence[bytes]) -> list[np.ndarray]:
        """Return the columns of records. Raises InvalidArgumentError."""
        return _decoded(records, self.types, self.defaults, self)

    def row(self, record: bytes) -> Element | InvalidArgumentError:
        """Return the row of a record, or its first error."""
        found: list[np.ndarray] = []
        for number, (text, problem) in enumerate(self._fields(record)):
            if problem:
                return _error(problem)
            if self.select and number not in self.select:
                continue
            k = len(found)
            if k == len(self.types):
                return _error(f"Expect {k} fields but have more in record")
            dtype, default = self.types[k], self.defaults[k]
            if not text or text == self.missing:
                if not default.size:
                    return _error(f"Field {k} is required but missing in record!")
                found.append(np.array(default.reshape(-1)[0], dtype.as_numpy_dtype))
            elif dtype.name == "string":
                found.append(np.array(text, object))
            else:
                try:
                    (column,) = _decoded([text], [dtype], [default], self)
                except InvalidArgumentError as error:
                    kind = error.message.partition(" is not a valid ")[2]
                    return _error(f"Field {k} in record is not a valid {kind}")
                found.append(column.reshape(()))
        if len(found) < len(self.types):
            return _error(f"Expect {len(self.types)} fields but have {len(found)} in record")
        return found

    def _fields(self, record: bytes) -> Iterator[tuple[bytes, str]]:
        """Yield the fields of a record.

        Each comes with the problem of its quotes, or ""."""
        at, end, delimiter = 0, len(record), self.delimiter[0]
        while True:
            if self.quotes and record[at : at + 1] == b'"':
                stop, problem = quoted_end(record, at + 1, delimiter, True)
                text = record[at + 1 : stop - 1].replace(b'""', b'"')
            else:
                stop = record.find(self.delimiter, at)
                stop = end if stop < 0 else stop
                text = record[at:stop]
                inside = self.quotes and b'"' in text
                problem = "Unquoted fields cannot have quotes inside" if inside else ""
            yield text, problem
            if stop >= end:
                return
            at = stop + 1


def _error(message: str) -> InvalidArgumentError:
    return InvalidArgumentError(None, None, message)


def _decoded(
    records: Sequence[bytes], types: Sequence[DType], defaults: Sequence[np.ndarray], form: CsvForm
) -> list[np.ndarray]:
    attrs = {
        "OUT_TYPE": types,
        "field_delim": form.delimiter,
        "use_quote_delim": form.quotes,
        "na_value": form.missing,
        "select_cols": form.select if len(types) == len(form.types) else (),
    }
    kernel = find_reference("DecodeCSV")
    assert kernel is not None
    texts = np.empty(len(records), object)
    texts[:] = records
    return list(kernel(NodeSpec("", "DecodeCSV", attrs, (), ()), [texts, *defaults]))


def quoted_end(data: bytes, at: int, delimiter: int, is_last: bool) -> tuple[int, str]:
    """Return the place behind a quoted field, and its problem or "".

    at: behind the opening quote. is_last: the data end with the file; else the place is -1 where
    more data are needed.
    """
    problem = ""
    while True:
        quote = data.find(b'"', at)
        if quote < 0 or (quote + 1 == len(data) and not is_last):
            if not is_last:
                return -1, ""
            return len(data), "Reached end of file without closing quoted field in record"
        if quote + 1 == len(data) or data[quote + 1] == delimiter or data[quote + 1] in _ENDS:
            return quote + 1, problem
        at = quote + 2
        if data[quote + 1] != _QUOTE:
            problem = "Quote inside a string has to be escaped by another quote"
            at = quote + 1


def _record_end(data: bytes, at: int, form: CsvForm, is_last: bool) -> int:
    """Return the place behind a record; -1 where more data are needed."""
    delimiter = form.delimiter[0]
    while at < len(data):
        if form.quotes and data[at] == _QUOTE:
            at, _ = quoted_end(data, at + 1, delimiter, is_last)
            if at < 0:
                return -1
        while at < len(data) and data[at] != delimiter and data[at] not in _ENDS:
            at += 1
        if at < len(data) and data[at] in _ENDS:
            return at
        at += 1
    return len(data) if is_last else -1


def _records(file: IO[bytes], form: CsvForm) -> Iterator[list[bytes]]:
    """Yield the records of a file, some at once, without their ends."""
    data, at, is_last = b"", 0, False
    while not is_last or at < len(data):
        if not is_last:
            block = file.read(_BLOCK_BYTES)
            is_last = not block
            data, at = data[at:] + block, 0
        found: list[bytes] = []
        if not form.quotes or b'"' not in data:
            # a return at the end of the data may be the first half of a line's end
            whole = len(data) if is_last else data.rfind(b"\n") + 1
            found = data[at:whole].splitlines()
            at = max(at, whole)
        while at < len(data) and (stop := _record_end(data, at, form, is_last)) >= 0:
            after = stop + 1
            if data[stop : stop + 1] == b"\r":
                if after == len(data) and not is_last:
                    break
                after += data[after : after + 1] == b"\n"
            found.append(data[at:stop])
            at = after
        yield found


def csv_rows(file: IO[bytes], form: CsvForm, header: bool) -> Iterator[Element | errors.OpError]:
    """Yield the rows of a file.

    A record that does not fit gives an error instead. header: the first record is none.
    """
    skip = header
    for records in _records(file, form):
        rest = records[1:] if skip and records else records
        skip = skip and not records
        if not rest:
            continue
        try:
            columns = form.decode(rest)
        except InvalidArgumentError:
            yield from map(form.row, rest)
            continue
        for k in range(len(rest)):
            yield [column[k : k + 1].reshape(()) for column in columns]
    if skip:
        yield _error("Can't read header of file")
