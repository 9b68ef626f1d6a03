"""Parse Example messages.

Compiled functions serve most; the library of protocol buffers serves the first messages, and those
with errors and rare forms.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from google.protobuf.message import DecodeError

from tfjit.framework.errors import InvalidArgumentError
from tfjit.framework.types.shape import format_shape
from tfjit.kernels.cpu.reference.records.compiled_examples import (
    WantedFeatures,
    parsed_by_functions,
)

if TYPE_CHECKING:
    from tfjit.framework.types.dtypes import DType

LISTS: Final = {"float32": "float_list", "int64": "int64_list", "string": "bytes_list"}
NAMES: Final = {"float_list": "float", "int64_list": "int64", "bytes_list": "string"}


def _fail(message: str) -> InvalidArgumentError:
    return InvalidArgumentError(None, None, message)


def column_of(values: Sequence[object], dtype: DType) -> np.ndarray:
    column = np.empty(len(values), dtype.as_numpy_dtype)
    column[:] = values
    return column


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
        kind = NAMES[LISTS[dtype.name]]
        return _fail(
            f"{name}Feature: {key} (data type: {kind}) is required but could not be found."
        )

    def wrong(self, key: str, what: str) -> InvalidArgumentError:
        return _fail(
            f"Name: {self.name}, Key: {key}, Index: {self.index}.  {what}"
            if self.index is not None
            else f"Key: {key}.  {what}"
        )


def parse_examples(
    serialized: np.ndarray, names: Sequence[bytes], wanted: WantedFeatures
) -> list[np.ndarray]:
    """Return the outputs in the order of the ops.

    The order: sparse indices, values, shapes; dense values; ragged values, splits.
    """
    parsed = parsed_by_functions(serialized, wanted)
    if parsed is not None:
        return parsed
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
        if kind != LISTS[dtype.name]:
            given, expected = NAMES[kind], NAMES[LISTS[dtype.name]]
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
        flat = column_of([v for found in lists for v in found], dtype)
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
    kind = NAMES[LISTS[dtype.name]]
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
                    f"Can't parse serialized Example: Some {LISTS[dtype.name]} slice was not "
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
        result = column_of(list(chain.from_iterable(found)), dtype).reshape(len(found), longest)
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
    flat = column_of([v for found in lists for v in found], dtype)
    columns = np.concatenate([np.arange(n) for n in sizes]) if count else np.empty(0)
    if single:
        return columns.astype(np.int64).reshape(-1, 1), flat, sizes
    indices = np.stack([np.repeat(np.arange(count), sizes), columns], 1).astype(np.int64)
    return indices, flat, np.array([count, sizes.max(initial=0)], np.int64)
