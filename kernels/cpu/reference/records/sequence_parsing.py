"""Parse SequenceExample messages by the library of protocol buffers.

Errors have TensorFlow's texts, of its parser of batches and of that of single messages, which
differ.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from google.protobuf.message import DecodeError

from tfjit.framework.types.shape import format_shape
from tfjit.kernels.cpu.reference.inputs import Arrays, invalid
from tfjit.kernels.cpu.reference.records.example_features import LISTS, NAMES, column_of
from tfjit.kernels.registry import NodeSpec, reference

if TYPE_CHECKING:
    from tfjit.framework.types.dtypes import DType
    from tfjit.framework.types.shape import TensorShape
    from tfjit.protos import Feature, SequenceExample

Values = Sequence[float | bytes]


class _Dense(NamedTuple):
    """A feature of fixed shape.

    default: of the context's, empty for none. may_miss: a list that is empty where it is missing.
    """

    key: str
    dtype: DType
    shape: tuple[int, ...]
    default: np.ndarray
    may_miss: bool


class _Reader:
    """The messages of a node, with the names that errors give them."""

    def __init__(self, messages: Sequence[SequenceExample], names: Sequence[str], one: bool):
        """Make a reader.

        one: the op parses a single message, in whose errors the feature is shown.
        """
        self.messages, self.names, self._one = messages, names, one

    def context(self, k: int, key: str, dtype: DType, dense: bool) -> Values | None:
        """Return the values of a context feature; None without it."""
        features = self.messages[k].context.feature
        if key not in features:
            return None
        return self._values(features[key], dtype, f"{self._at(k)}Context feature: {key}", dense)

    def frames(self, k: int, key: str, dtype: DType, dense: bool) -> list[Values] | None:
        """Return the values of each frame; None without the list."""
        lists = self.messages[k].feature_lists.feature_list
        if key not in lists:
            return None
        kind = "Feature List" if self._one and not dense else "Feature list"
        return [
            self._values(feature, dtype, f"{self._at(k)}{kind}: {key}, Index: {frame}", dense)
            for frame, feature in enumerate(lists[key].feature)
        ]

    def _values(self, feature: Feature, dtype: DType, place: str, dense: bool) -> Values:
        kind = feature.WhichOneof("kind")
        if kind == LISTS[dtype.name]:
            values: Values = getattr(feature, kind).value
            return values
        if kind is None and not (self._one and dense):
            return ()
        shown = f"  Feature is: {feature}" if self._one else ""
        expected = NAMES[LISTS[dtype.name]]
        invalid(f"{place}.  Data types don't match. Expected type: {expected}{shown}")

    def _at(self, k: int) -> str:
        return f"Name: {self.names[k]}, "

    def wrong_size(self, k: int, key: str, frame: int, count: int, wanted: _Dense) -> None:
        """Raise the error of a frame of another size."""
        shape = format_shape(wanted.shape)
        if self._one and wanted.dtype.name == "string":
            invalid(
                f"{self._at(k)}Key {key}, Index: {frame}.  Number of bytes values != expected.  "
                f"Values size: {count} but output shape: {shape}"
            )
        kind = f"{NAMES[LISTS[wanted.dtype.name]]} " if self._one else ""
        invalid(
            f"{self._at(k)}Key: {key}, Index: {frame}.  Number of {kind}values != expected.  "
            f"values size: {count} but output shape: {shape}"
        )

    def dense_context(self, wanted: _Dense) -> list[Values]:
        """Return the values of a context feature in each message."""
        key, dtype, shape, default, _ = wanted
        found = [self.context(k, key, dtype, True) for k in range(len(self.messages))]
        size = math.prod(shape)
        if not self._one:
            most = max((len(values) for values in found if values is not None), default=0)
            if default.size:
                most = max(most, size)
            if most != size:
                invalid(
                    f"Inconsistent max number of elements for feature {key}: expected {size}, but "
                    f"found {most}"
                )
        for k, values in enumerate(found):
            if values is None:
                if not default.size:
                    invalid(
                        f"{self._at(k)}Context feature '{key}' is required but could not be found."
                        if self._one
                        else f"Feature: {key} (data type: {NAMES[LISTS[dtype.name]]}) is required "
                        "but could not be found."
                    )
                found[k] = np.broadcast_to(default, shape).reshape(-1).tolist()
            elif len(values) != size:
                if self._one:
                    self.wrong_size(k, key, 0, len(values), wanted)
                invalid(f"Unexpected number of elements in example {self.names[k]}")
        return [values for values in found if values is not None]

    def dense_lists(self, wanted: _Dense) -> list[list[Values]]:
        """Return the values of each frame in each message."""
        size, key = math.prod(wanted.shape), wanted.key
        found = [self.frames(k, key, wanted.dtype, True) for k in range(len(self.messages))]
        for frames in found:
            total = sum(map(len, frames or ()))
            if not self._one and (total % size if size else total):
                shape = ",".join(map(str, ("?", *wanted.shape)))
                invalid(
                    f"Feature list '{key}' has an unexpected number of values.  Total values size: "
                    f"{total} is not consistent with output shape: [{shape}]"
                )
        for k, frames in enumerate(found):
            if frames is None and not wanted.may_miss:
                invalid(
                    f"{self._at(k)}Feature list '{key}' is required but could not be found.  Did "
                    "you mean to include it in feature_list_dense_missing_assumed_empty or "
                    "feature_list_dense_defaults?"
                )
            for frame, values in enumerate(frames or ()):
                if len(values) != size:
                    self.wrong_size(k, key, frame, len(values), wanted)
        return [frames or [] for frames in found]


def _flat(rows: Sequence[Values], dtype: DType) -> np.ndarray:
    return column_of([value for row in rows for value in row], dtype)


def _sparse(
    lists: Sequence[Sequence[Values]], dtype: DType, axes: Sequence[int]
) -> tuple[np.ndarray, ...]:
    """Return the values in frames of messages as a sparse tensor.

    axes: those of the result, of the messages (0), frames (1) and values (2).
    """
    places = [
        (k, frame, place)
        for k, frames in enumerate(lists)
        for frame, values in enumerate(frames)
        for place in range(len(values))
    ]
    flat = list(itertools.chain.from_iterable(lists))
    shape = [len(lists), max(map(len, lists), default=0), max(map(len, flat), default=0)]
    indices = np.array(places, np.int64).reshape(-1, 3)[:, list(axes)]
    return indices, _flat(flat, dtype), np.array(shape, np.int64)[list(axes)]


def _padded(lists: Sequence[Sequence[Values]], wanted: _Dense, single: bool) -> np.ndarray:
    """Return the frames of all messages, padded with zeros."""
    longest = max(map(len, lists), default=0)
    out = np.zeros((len(lists), longest, math.prod(wanted.shape)), wanted.dtype.as_numpy_dtype)
    if wanted.dtype.name == "string":
        out[...] = b""
    for row, frames in zip(out, lists, strict=True):
        for place, values in zip(row, frames, strict=False):
            place[:] = values
    shape = (longest, *wanted.shape) if single else (len(lists), longest, *wanted.shape)
    return out.reshape(shape)


def _splits(sizes: Sequence[int], dtype: DType) -> np.ndarray:
    return np.cumsum([0, *sizes]).astype(dtype.as_numpy_dtype)


def _strings(value: np.ndarray | Sequence[bytes]) -> list[str]:
    return [item.decode(errors="surrogateescape") for item in np.asarray(value, object).reshape(-1)]


def _messages(serialized: np.ndarray, fail: Callable[[int], str]) -> list[SequenceExample]:
    from tfjit.protos import SequenceExample

    found = []
    for k, item in enumerate(serialized.reshape(-1).tolist()):
        try:
            found.append(SequenceExample.FromString(item))
        except DecodeError:
            invalid(fail(k))
    return found


def _dense(
    keys: Sequence[str],
    types: Sequence[DType],
    shapes: Sequence[TensorShape],
    defaults: Sequence[np.ndarray],
    may_miss: Sequence[bool],
) -> list[_Dense]:
    return [
        _Dense(
            key,
            dtype,
            tuple(dim or 0 for dim in shape.as_list()),
            np.asarray(default),
            bool(missing),
        )
        for key, dtype, shape, default, missing in zip(
            keys, types, shapes, defaults, may_miss, strict=True
        )
    ]


class _Wanted(NamedTuple):
    """The features that a node reads.

    ragged: (key, dtype, dtype of splits)."""

    sparse: Sequence[tuple[str, DType]]
    dense: Sequence[_Dense]
    ragged: Sequence[tuple[str, DType, DType]] = ()


def _parsed(
    serialized: np.ndarray, names: np.ndarray, context: _Wanted, lists: _Wanted, one: bool
) -> list[np.ndarray]:
    """Return the outputs in the order of the ops.

    one: the op parses a single message, and has no outputs for lengths.
    """
    single, given = serialized.ndim == 0, _strings(names)
    if given and len(given) != serialized.size:
        invalid("example_names must be empty or have the correct number of elements")
    named = given or ["<unknown>"] * serialized.size
    kind = "Could not parse single sequence_example input" if one else ""
    messages = _messages(
        serialized, lambda k: kind or f"Invalid protocol message input, example id: {named[k]}"
    )
    reader, every = _Reader(messages, named, one), range(len(messages))
    outputs: list[np.ndarray] = []
    axes = [2] if single else [0, 2]
    sparse = [
        _sparse([[reader.context(k, key, dtype, False) or ()] for k in every], dtype, axes)
        for key, dtype in context.sparse
    ]
    outputs += itertools.chain.from_iterable(zip(*sparse, strict=True))
    for wanted in context.dense:
        flat = _flat(reader.dense_context(wanted), wanted.dtype)
        outputs.append(flat.reshape((() if single else (len(messages),)) + wanted.shape))
    parts: list[tuple[np.ndarray, ...]] = []
    for key, dtype, splits in context.ragged:
        rows = [reader.context(k, key, dtype, False) or () for k in every]
        ends = _splits(list(map(len, rows)), splits)
        parts.append((_flat(rows, dtype), ends[:0] if single else ends))
    outputs += itertools.chain.from_iterable(zip(*parts, strict=True))
    axes = [1, 2] if single else [0, 1, 2]
    sparse = [
        _sparse([reader.frames(k, key, dtype, False) or [] for k in every], dtype, axes)
        for key, dtype in lists.sparse
    ]
    outputs += itertools.chain.from_iterable(zip(*sparse, strict=True))
    lengths = []
    for wanted in lists.dense:
        found = reader.dense_lists(wanted)
        outputs.append(_padded(found, wanted, single))
        sizes = np.array(list(map(len, found)), np.int64)
        lengths.append(sizes.reshape(()) if single else sizes)
    outputs += [] if one else lengths
    parts = []
    for key, dtype, splits in lists.ragged:
        frames = [reader.frames(k, key, dtype, False) or [] for k in every]
        outer = _splits(list(map(len, frames)), splits)
        flat_rows = list(itertools.chain.from_iterable(frames))
        inner = _splits(list(map(len, flat_rows)), splits)
        parts.append((_flat(flat_rows, dtype), outer[:0] if single else outer, inner))
    return [*outputs, *itertools.chain.from_iterable(zip(*parts, strict=True))]


def _context_dense(node: NodeSpec, keys: Sequence[str], defaults: Arrays) -> list[_Dense]:
    types, shapes = node.attrs["Tcontext_dense"], node.attrs["context_dense_shapes"]
    return _dense(keys, types, shapes, defaults, [False] * len(keys))


def _list_dense(node: NodeSpec, keys: Sequence[str], may_miss: Sequence[bool]) -> list[_Dense]:
    types, shapes = node.attrs["feature_list_dense_types"], node.attrs["feature_list_dense_shapes"]
    return _dense(keys, types, shapes, [np.empty(0)] * len(keys), may_miss)


@reference("ParseSequenceExample")
def _parse_sequence_example(node: NodeSpec, inputs: Arrays) -> Arrays:
    a = node.attrs
    keys = {key: _strings(list(a[key])) for key in a if key.endswith("_keys")}
    allowed = set(_strings(list(a["feature_list_dense_missing_assumed_empty"])))
    dense = keys["feature_list_dense_keys"]
    return _parsed(
        np.asarray(inputs[0], object),
        inputs[1],
        _Wanted(
            list(zip(keys["context_sparse_keys"], a["context_sparse_types"], strict=True)),
            _context_dense(node, keys["context_dense_keys"], inputs[2:]),
        ),
        _Wanted(
            list(
                zip(keys["feature_list_sparse_keys"], a["feature_list_sparse_types"], strict=True)
            ),
            _list_dense(node, dense, [key in allowed for key in dense]),
        ),
        False,
    )


@reference("ParseSequenceExampleV2")
def _parse_sequence_example_v2(node: NodeSpec, inputs: Arrays) -> Arrays:
    a = node.attrs
    kinds = ("value_types", "split_types")
    context, lists = ([a[f"{part}_ragged_{kind}"] for kind in kinds]
                      for part in ("context", "feature_list"))  # fmt: skip
    return _parsed(
        np.asarray(inputs[0], object),
        inputs[1],
        _Wanted(
            list(zip(_strings(inputs[2]), a["context_sparse_types"], strict=True)),
            _context_dense(node, _strings(inputs[3]), inputs[9:]),
            list(zip(_strings(inputs[4]), *context, strict=True)),
        ),
        _Wanted(
            list(zip(_strings(inputs[5]), a["feature_list_sparse_types"], strict=True)),
            _list_dense(node, _strings(inputs[6]), np.asarray(inputs[8]).reshape(-1).tolist()),
            list(zip(_strings(inputs[7]), *lists, strict=True)),
        ),
        False,
    )


@reference("ParseSingleSequenceExample")
def _parse_single_sequence_example(node: NodeSpec, inputs: Arrays) -> Arrays:
    a, at = node.attrs, 2
    groups = []
    for part in ("context_sparse", "context_dense", "feature_list_sparse", "feature_list_dense"):
        groups.append([_strings(value)[0] for value in inputs[at : at + a[f"N{part}"]]])
        at += a[f"N{part}"]
    for k, (default, shape) in enumerate(
        zip(inputs[at:-1], a["context_dense_shapes"], strict=True)
    ):
        found, wanted = np.shape(default), shape.dims_tuple or ()
        if np.size(default) and found != wanted:
            invalid(
                f"def_value[{k}].shape() == {format_shape(found)} != context_dense_shapes_[{k}] == "
                f"{format_shape(wanted)}"
            )
    allowed = set(_strings(inputs[1]))
    sparse, dense, list_sparse, list_dense = groups
    return _parsed(
        np.asarray(inputs[0], object).reshape(()),
        inputs[-1],
        _Wanted(
            list(zip(sparse, a["context_sparse_types"], strict=True)),
            _context_dense(node, dense, inputs[at:-1]),
        ),
        _Wanted(
            list(zip(list_sparse, a["feature_list_sparse_types"], strict=True)),
            _list_dense(node, list_dense, [key in allowed for key in list_dense]),
        ),
        True,
    )
