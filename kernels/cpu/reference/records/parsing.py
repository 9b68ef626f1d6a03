"""Parse records: lines of CSV, raw bytes, Example messages."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from google.protobuf.message import DecodeError

from tfjit.framework.errors import InvalidArgumentError
from tfjit.framework.types.shape import TensorShape, format_shape
from tfjit.kernels.registry import NodeSpec, reference

if TYPE_CHECKING:
    from tfjit.framework.types.dtypes import DType

Arrays = Sequence[Any]
_LISTS: Final = {"float32": "float_list", "int64": "int64_list", "string": "bytes_list"}
_NAMES: Final = {"float_list": "float", "int64_list": "int64", "bytes_list": "string"}
_INTEGER: Final = re.compile(rb"[+-]?[0-9]+")


def _fail(message: str) -> InvalidArgumentError:
    return InvalidArgumentError(None, None, message)


def _column(values: Sequence[Any], dtype: DType) -> np.ndarray:
    column = np.empty(len(values), dtype.as_numpy_dtype)
    column[:] = values
    return column


# lines of CSV


@reference("DecodeCSV")
def _decode_csv(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Decode CSV records to a tensor a column, of the records' shape."""
    records = np.asarray(inputs[0], object)
    types: Sequence[DType] = node.attrs["OUT_TYPE"]
    delimiter: bytes = node.attrs.get("field_delim", b",")
    quotes: bool = node.attrs.get("use_quote_delim", True)
    missing: bytes = node.attrs.get("na_value", b"")
    select: Sequence[int] = node.attrs.get("select_cols", ())
    if len(delimiter) != 1:
        raise _fail("field_delim should be only 1 char")
    if select and len(select) != len(types):
        raise _fail("select_cols should match output size")
    rows = records.reshape(-1).tolist()
    plain = _plain_columns(rows, types, delimiter, missing, select)
    if plain is not None:
        return [column.reshape(records.shape) for column in plain]
    defaults = [np.asarray(d).reshape(-1) for d in inputs[1:]]
    columns: list[list[Any]] = [[] for _ in types]
    parsers = [_csv_parser(dtype) for dtype in types]
    for number, record in enumerate(rows):
        fields = _csv_fields(record, delimiter, quotes)
        if select:
            fields = [fields[k] for k in select if k < len(fields)]
        if len(fields) != len(types):
            raise _fail(f"Expect {len(types)} fields but have {len(fields)} in record {number}")
        for k, text in enumerate(fields):
            if not text or text == missing:
                if not defaults[k].size:
                    raise _fail(f"Field {k} is required but missing in record {number}!")
                columns[k].append(defaults[k][0])
                continue
            try:
                columns[k].append(parsers[k](text))
            except ValueError:
                shown = text.decode(errors="replace")
                kind = {"float32": "float", "float64": "double"}.get(types[k].name, types[k].name)
                raise _fail(
                    f"Field {k} in record {number} is not a valid {kind}: {shown}"
                ) from None
    with np.errstate(over="ignore"):
        return [
            _column(column, dtype).reshape(records.shape)
            for column, dtype in zip(columns, types, strict=True)
        ]


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
        return _column(list(map(float, fields)), dtype)
    numbers = list(map(int, fields))
    limit = 1 << 8 * dtype.size - 1
    if not -limit <= min(numbers) <= max(numbers) < limit:
        raise ValueError
    return _column(numbers, dtype)


def _csv_parser(dtype: DType) -> Callable[[bytes], Any]:
    """Return a function from a field's text to its value.

    The function raises ValueError.
    """
    if dtype.name == "string":
        return lambda text: text
    if not dtype.is_integer:
        return _float
    limit = 1 << 8 * dtype.size - 1

    def parse(text: bytes) -> int:
        text = text.strip()
        number = int(text) if _INTEGER.fullmatch(text) else limit
        if not -limit <= number < limit:
            raise ValueError
        return number

    return parse


def _float(text: bytes) -> float:
    if b"_" in text:  # Python's alone
        raise ValueError
    return float(text)


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


# raw bytes


@reference("DecodeRaw")
def _decode_raw(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Read each string's bytes as numbers along a new last axis."""
    strings = np.asarray(inputs[0], object)
    dtype: DType = node.attrs["out_type"]
    target = np.dtype(dtype.as_numpy_dtype)
    flat = list(strings.reshape(-1))
    length = len(flat[0]) if flat else 0
    for k, item in enumerate(flat):
        if len(item) != length:
            raise _fail(
                f"DecodeRaw requires input strings to all be the same size, but element {k} has "
                f"size {length} != {len(item)}"
            )
    if length % target.itemsize:
        raise _fail(
            f"Input to DecodeRaw has length {length} that is not a multiple of {target.itemsize}, "
            f"the size of {dtype.name}"
        )
    found = (
        np.frombuffer(b"".join(flat), target)
        .reshape(*strings.shape, length // target.itemsize)
        .copy()
    )
    if not node.attrs.get("little_endian", True):
        found = found.byteswap()
    return (found,)


# Example messages


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Describe the features that a parsing node reads.

    dense: (key, dtype, shape, default); sparse: (key, dtype); ragged: (key, dtype, dtype of
    splits).
    """

    dense: list[tuple[str, DType, tuple[int | None, ...], np.ndarray]]
    sparse: list[tuple[str, DType]]
    ragged: list[tuple[str, DType, DType]]


class _Place:
    """Name the example of an error.

    An example is one of a batch, or the only one.
    """

    def __init__(self, names: Sequence[bytes], index: int | None) -> None:
        self.index = index
        self.name = (
            names[index].decode(errors="replace")
            if index is not None and index < len(names)
            else "<unknown>"
        )

    def missing(self, key: str, dtype: DType) -> InvalidArgumentError:
        name = f"Name: {self.name}, " if self.index is not None else ""
        kind = _NAMES[_LISTS[dtype.name]]
        return _fail(
            f"{name}Feature: {key} (data type: {kind}) is required but could not be found."
        )

    def wrong(self, key: str, what: str) -> InvalidArgumentError:
        return _fail(
            f"Name: {self.name}, Key: {key}, Index: {self.index}.  {what}"
            if self.index is not None
            else f"Key: {key}.  {what}"
        )


def _parse_examples(
    serialized: np.ndarray, names: Sequence[bytes], wanted: _Wanted
) -> list[np.ndarray]:
    """Return the outputs in the order of the ops.

    The order: sparse indices, values, shapes; dense values; ragged values, splits.
    """
    from tfjit.protos import Example

    single = serialized.ndim == 0
    messages = []
    for item in serialized.reshape(-1):
        try:
            messages.append(Example.FromString(item).features.feature)
        except DecodeError:
            text = item.decode(errors="replace")
            raise _fail(f"Could not parse example input, value: '{text}'") from None
    places = [_Place(names, None if single else k) for k in range(len(messages))]

    def values(k: int, key: str, dtype: DType, sparse: bool) -> Any:
        """Return the repeated field, or None for a missing feature."""
        if key not in messages[k]:
            return None
        feature = messages[k][key]
        kind = feature.WhichOneof("kind")
        if kind is None:
            return None
        if kind != _LISTS[dtype.name]:
            given, expected = _NAMES[kind], _NAMES[_LISTS[dtype.name]]
            what = (
                f"Expected type: {expected}, Actual type: {given}"
                if sparse
                else f"Data type: {given} but expected type: {expected}"
            )
            raise places[k].wrong(key, f"Data types don't match. {what}")
        return getattr(feature, kind).value

    dense = [_dense(*asked, values, places, single) for asked in wanted.dense]
    sparse = [_sparse(key, dtype, values, len(messages), single) for key, dtype in wanted.sparse]
    ragged = []
    for key, dtype, splits in wanted.ragged:
        lists = [values(k, key, dtype, True) or () for k in range(len(messages))]
        row_splits = np.cumsum([0, *map(len, lists)])
        flat = _column([v for found in lists for v in found], dtype)
        ragged.append(
            (flat, (row_splits if not single else np.empty(0)).astype(splits.as_numpy_dtype))
        )
    outputs = [part for k in range(3) for part in (found[k] for found in sparse)]
    return [*outputs, *dense, *(found[0] for found in ragged), *(found[1] for found in ragged)]


def _dense(
    key: str,
    dtype: DType,
    shape: tuple[int | None, ...],
    default: np.ndarray,
    values: Any,
    places: Sequence[_Place],
    single: bool,
) -> np.ndarray:
    """Stack all examples' values of a dense feature.

    Features of variable length are padded.
    """
    kind = _NAMES[_LISTS[dtype.name]]
    varies = bool(shape) and shape[0] is None
    row = tuple(d or 0 for d in shape[1:]) if varies else tuple(d or 0 for d in shape)
    stride = int(np.prod(row, dtype=np.int64))
    found: list[Any] = []
    for k, place in enumerate(places):
        given = values(k, key, dtype, False)
        if given is None:
            if varies:
                given = ()
            elif default.size == 0 and stride > 0:
                raise place.missing(key, dtype)
            else:
                found.append(
                    np.broadcast_to(
                        default.reshape(row) if default.size == stride else default, row
                    ).reshape(-1)
                )
                continue
        count = len(given)
        if varies and (count % stride if stride else count):
            shown = f"[{','.join('?' if d is None else str(d) for d in shape)}]"
            if single:
                raise _fail(
                    f"Error while parsing feature with key {key}: number of elements should be "
                    f"divisible by {stride}, found {count} instead"
                )
            what = (
                f"Number of {kind} values is not a multiple of stride length. Saw {count} "
                f"values but output shape is: {shown}"
            )
            raise place.wrong(key, what)
        if not varies and count != stride:
            if single:
                raise place.wrong(
                    key,
                    f"Can't parse serialized Example: Some {_LISTS[dtype.name]} slice was not "
                    "parsed.",
                )
            what = (
                f"Number of {kind} values != expected.  Values size: {count} but output shape: "
                f"{format_shape(row)}"
            )
            raise place.wrong(key, what)
        found.append(given)
    longest = max(map(len, found), default=0) if varies else stride
    if found and all(len(given) == longest for given in found):
        result = _column(list(chain.from_iterable(found)), dtype).reshape(len(found), longest)
        row = (longest // stride if stride else 0, *row) if varies else row
        return result.reshape(row if single else (len(found), *row))
    result = np.empty((len(found), longest), dtype.as_numpy_dtype)
    if varies:
        result[...] = (
            default.reshape(-1)[0] if default.size else (b"" if dtype.name == "string" else 0)
        )
    for k, given in enumerate(found):
        result[k, : len(given)] = given
    if varies:
        row = (longest // stride if stride else 0, *row)
    return result.reshape(row if single else (len(found), *row))


def _sparse(
    key: str, dtype: DType, values: Any, count: int, single: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (indices, values, dense shape)."""
    lists = [values(k, key, dtype, True) or () for k in range(count)]
    sizes = np.array([len(found) for found in lists], np.int64)
    flat = _column([v for found in lists for v in found], dtype)
    columns = np.concatenate([np.arange(n) for n in sizes]) if count else np.empty(0)
    if single:
        return columns.astype(np.int64).reshape(-1, 1), flat, sizes
    indices = np.stack([np.repeat(np.arange(count), sizes), columns], 1).astype(np.int64)
    return indices, flat, np.array([count, sizes.max(initial=0)], np.int64)


def _keys(values: Any) -> list[str]:
    return [
        item.decode(errors="surrogateescape") for item in np.asarray(values, object).reshape(-1)
    ]


def _dense_wanted(
    node: NodeSpec, keys: Sequence[str], defaults: Arrays
) -> list[tuple[str, DType, tuple[int | None, ...], np.ndarray]]:
    shapes: Sequence[TensorShape] = node.attrs["dense_shapes"]
    types: Sequence[DType] = node.attrs["Tdense"]
    return [
        (key, dtype, shape.dims_tuple or (), np.asarray(default))
        for key, dtype, shape, default in zip(keys, types, shapes, defaults, strict=True)
    ]


def _names(value: Any, serialized: np.ndarray) -> list[bytes]:
    names = list(np.asarray(value, object).reshape(-1))
    if names and len(names) != serialized.size:
        raise _fail(
            f"Expected len(names) == len(serialized), but got {len(names)} vs. {serialized.size}"
        )
    return names


@reference("ParseExample")
def _parse_example(node: NodeSpec, inputs: Arrays) -> Arrays:
    serialized = np.asarray(inputs[0], object)
    sparse, dense = int(node.attrs["Nsparse"]), int(node.attrs["Ndense"])
    keys = [_keys(value)[0] for value in inputs[2 : 2 + sparse + dense]]
    wanted = _Wanted(
        _dense_wanted(node, keys[sparse:], inputs[2 + sparse + dense :]),
        list(zip(keys[:sparse], node.attrs["sparse_types"], strict=True)),
        [],
    )
    return _parse_examples(serialized, _names(inputs[1], serialized), wanted)


@reference("ParseExampleV2")
def _parse_example_v2(node: NodeSpec, inputs: Arrays) -> Arrays:
    serialized = np.asarray(inputs[0], object)
    sparse, dense, ragged = (_keys(value) for value in inputs[2:5])
    a = node.attrs
    wanted = _Wanted(
        _dense_wanted(node, dense, inputs[5:]),
        list(zip(sparse, a["sparse_types"], strict=True)),
        list(zip(ragged, a["ragged_value_types"], a["ragged_split_types"], strict=True)),
    )
    return _parse_examples(serialized, _names(inputs[1], serialized), wanted)


@reference("ParseSingleExample")
def _parse_single_example(node: NodeSpec, inputs: Arrays) -> Arrays:
    a = node.attrs
    wanted = _Wanted(
        _dense_wanted(node, _keys(list(a["dense_keys"])), inputs[1:]),
        list(zip(_keys(list(a["sparse_keys"])), a["sparse_types"], strict=True)),
        [],
    )
    return _parse_examples(np.asarray(inputs[0], object).reshape(()), (), wanted)
