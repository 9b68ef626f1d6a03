"""Parse records: lines of CSV, raw bytes, Example messages."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tfjit.framework.errors import InvalidArgumentError
from tfjit.kernels.cpu.reference.records.compiled_examples import WantedFeatures
from tfjit.kernels.cpu.reference.records.csv_records import columns_of
from tfjit.kernels.cpu.reference.records.example_features import parse_examples
from tfjit.kernels.registry import NodeSpec, reference

if TYPE_CHECKING:
    from tfjit.framework.types.dtypes import DType
    from tfjit.framework.types.shape import TensorShape

Arrays = Sequence[Any]


def _fail(message: str) -> InvalidArgumentError:
    return InvalidArgumentError(None, None, message)


# lines of CSV


@reference("DecodeCSV")
def _decode_csv(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Decode CSV records to a tensor a column, of the records' shape."""
    records = np.asarray(inputs[0], object)
    columns = columns_of(
        records.reshape(-1).tolist(),
        node.attrs["OUT_TYPE"],
        [np.asarray(default) for default in inputs[1:]],
        node.attrs.get("field_delim", b","),
        node.attrs.get("use_quote_delim", True),
        node.attrs.get("na_value", b""),
        node.attrs.get("select_cols", ()),
    )
    return [column.reshape(records.shape) for column in columns]


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


def _keys(values: Any) -> Sequence[str]:
    return _decoded(tuple(np.asarray(values, object).reshape(-1).tolist()))


@functools.lru_cache(maxsize=256)
def _decoded(keys: tuple[bytes, ...]) -> tuple[str, ...]:
    return tuple(key.decode(errors="surrogateescape") for key in keys)


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
    wanted = WantedFeatures(
        _dense_wanted(node, keys[sparse:], inputs[2 + sparse + dense :]),
        list(zip(keys[:sparse], node.attrs["sparse_types"], strict=True)),
        [],
    )
    return parse_examples(serialized, _names(inputs[1], serialized), wanted)


@reference("ParseExampleV2")
def _parse_example_v2(node: NodeSpec, inputs: Arrays) -> Arrays:
    serialized = np.asarray(inputs[0], object)
    sparse, dense, ragged = (_keys(value) for value in inputs[2:5])
    a = node.attrs
    wanted = WantedFeatures(
        _dense_wanted(node, dense, inputs[5:]),
        list(zip(sparse, a["sparse_types"], strict=True)),
        list(zip(ragged, a["ragged_value_types"], a["ragged_split_types"], strict=True)),
    )
    return parse_examples(serialized, _names(inputs[1], serialized), wanted)


@reference("ParseSingleExample")
def _parse_single_example(node: NodeSpec, inputs: Arrays) -> Arrays:
    a = node.attrs
    wanted = WantedFeatures(
        _dense_wanted(node, _keys(list(a["dense_keys"])), inputs[1:]),
        list(zip(_keys(list(a["sparse_keys"])), a["sparse_types"], strict=True)),
        [],
    )
    return parse_examples(np.asarray(inputs[0], object).reshape(()), (), wanted)
