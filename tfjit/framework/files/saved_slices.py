"""Read and write checkpoints of version 1: tables of tensors' slices.

A file is a sorted table. The empty key holds a SavedTensorSlices with names, shapes, dtypes and
slices; each other key (`slices.slice_key`) one with the elements of a slice. A sharded checkpoint
is several such files, which a pattern names.
"""

from __future__ import annotations

import contextlib
import math
import os
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from tfjit.framework.env import LOCAL_FILES, FileSystem
from tfjit.framework.errors import (
    DataLossError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    OpError,
    UnimplementedError,
)
from tfjit.framework.files.positioned_reads import PositionedReads
from tfjit.framework.files.slices import (
    FULL,
    Extents,
    bounds,
    extent_shape,
    fill_slice,
    overlap,
    slice_extents,
    slice_key,
    slice_text,
)
from tfjit.framework.files.sorted_table import Table, write_table
from tfjit.framework.types import shape as shapes
from tfjit.framework.types import tensors
from tfjit.framework.types.dtypes import DType, as_dtype, short_name, string
from tfjit.framework.types.shape import format_shape

if TYPE_CHECKING:
    from tfjit.protos import SavedSliceMeta

_VERSION: Final = 1
_META_KEY: Final = b""
_MOST_ELEMENTS: Final = 1 << 58  # of 16 bytes at most, NumPy can count the bytes
_TYPES: Final = frozenset(
    [
        "float32",
        "float64",
        "float16",
        "complex64",
        "complex128",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "bool",
        "string",
        "qint8",
        "quint8",
        "qint32",
    ]
)


class SlicesWriter:
    """Writer of a file of a checkpoint, which `finish` makes."""

    def __init__(self, path: str, files: FileSystem = LOCAL_FILES) -> None:
        from tfjit.protos import SavedTensorSlices

        self._path, self._files = path, files
        self._meta = SavedTensorSlices()
        self._meta.meta.versions.producer = _VERSION
        self._tensors: dict[str, SavedSliceMeta] = {}
        self._values: dict[bytes, bytes] = {}

    def add(self, name: str, shape: tuple[int, ...], extents: Extents, value: np.ndarray) -> None:
        """Store a slice of the tensor `name` of `shape`.

        Raises UnimplementedError or InvalidArgumentError for a dtype that the format lacks,
        InternalError where the name has another shape or dtype already.
        """
        from tfjit.protos import SavedTensorSlices

        dtype = as_dtype(value.dtype)
        if dtype.name in ("uint32", "uint64"):
            raise InvalidArgumentError(
                None,
                None,
                f"Tensor slice serialization not implemented for dtype {dtype.as_datatype_enum}",
            )
        if dtype.name not in _TYPES:
            raise UnimplementedError(
                None, None, f"Saving data type {short_name(dtype)} not yet supported"
            )
        self._register(name, shape, dtype, extents)
        saved = SavedTensorSlices()
        saved.data.name = name
        fill_slice(saved.data.slice, extents)
        saved.data.slice.SetInParent()
        saved.data.data.SetInParent()
        flat = value.reshape(-1)
        if dtype is string:
            saved.data.data.string_val.extend(tensors.as_bytes(item) for item in flat)
        else:
            tensors.append_values(saved.data.data, dtype, flat)
        self._values[slice_key(name, extents)] = saved.SerializeToString(deterministic=True)

    def _register(self, name: str, shape: tuple[int, ...], dtype: DType, extents: Extents) -> None:
        known = self._tensors.get(name)
        if known is None:
            known = self._tensors[name] = self._meta.meta.tensor.add(name=name)
            # the stubs want their own int
            known.type = dtype.as_datatype_enum  # type: ignore[assignment]
            known.shape.SetInParent()
            shapes.fill_proto(known.shape, shape)
        stored, kind = shapes.from_proto(known.shape), as_dtype(known.type)
        if stored != shape:
            raise InternalError(
                None,
                None,
                f"Mismatching shapes: existing tensor = {format_shape(stored)}, trying to add name "
                f"{name}, shape = {format_shape(shape)}",
            )
        if kind != dtype:
            raise InternalError(
                None,
                None,
                f"Mismatching types: existing type = {short_name(kind)}, trying to add name "
                f"{name}, type = {short_name(dtype)}",
            )
        fill_slice(known.slice.add(), extents)

    def finish(self) -> None:
        """Write the file in the place of an older one."""
        entries = [(_META_KEY, self._meta.SerializeToString(deterministic=True))]
        entries += sorted(self._values.items())
        temporary = f"{self._path}.tempstate{uuid.uuid4().int >> 64}"
        try:
            self._files.write(temporary, write_table(entries))
            self._files.replace(temporary, self._path)
        except OSError:
            with contextlib.suppress(OSError):
                self._files.remove(temporary)
            raise


@dataclass(slots=True)
class _Tensor:
    """A tensor, and the table that has each of its slices."""

    dtype: DType
    shape: tuple[int, ...]
    slices: dict[Extents, Table] = field(default_factory=dict)


class SlicesReader:
    """Reader of a checkpoint, one file or more.

    pattern: of the files' names. Raises NotFoundError where it matches none, DataLossError for
    files of another format, InternalError for files that contradict each other.
    """

    def __init__(self, pattern: str, files: FileSystem = LOCAL_FILES) -> None:
        self._files = files
        self._reads = PositionedReads(files)
        self._tensors: dict[str, _Tensor] = {}
        paths = [pattern] if files.exists(pattern) else sorted(files.glob(pattern))
        if not paths:
            raise NotFoundError(
                None,
                None,
                "Unsuccessful TensorSliceReader constructor: Failed to find any matching files "
                f"for {pattern}",
            )
        for path in paths:
            self._load(path)

    def _load(self, path: str) -> None:
        from google.protobuf.message import DecodeError

        from tfjit.protos import SavedTensorSlices

        table = self._open(path)
        try:
            value = table.get(_META_KEY)
            meta = None if value is None else SavedTensorSlices.FromString(value).meta
        except (DataLossError, UnimplementedError, DecodeError):
            meta = None
        if meta is None:
            raise InternalError(
                None,
                None,
                "Failed to find the saved tensor slices at the beginning of the checkpoint file: "
                f"{path}",
            )
        if meta.versions.min_consumer > _VERSION:
            raise InvalidArgumentError(
                None,
                None,
                f"Checkpoint min consumer version {meta.versions.min_consumer} above current "
                f"version {_VERSION} for TensorFlow: {path}",
            )
        for tensor in meta.tensor:
            shape = shapes.from_proto(tensor.shape)
            if shape is None or not shapes.is_fully_defined(shape):
                raise DataLossError(None, None, f"{path}: {tensor.name} has no full shape")
            sizes = tuple(int(size or 0) for size in shape)
            if math.prod(max(size, 1) for size in sizes) > _MOST_ELEMENTS:
                raise DataLossError(
                    None, None, f"{path}: {tensor.name} is too large: {format_shape(sizes)}"
                )
            for proto in tensor.slice:
                self._register(path, tensor, sizes, slice_extents(proto), table)

    def _open(self, path: str) -> Table:
        def read(offset: int, size: int) -> bytes:
            data = np.empty(min(size, max(0, size_bytes - offset)), np.uint8)
            return data[: self._reads.read_into(path, offset, data)].tobytes()

        try:
            with self._files.open(path, "rb") as file:
                size_bytes = file.seek(0, os.SEEK_END)
            return Table(read, size_bytes, path)
        except IsADirectoryError:
            reason = f"FAILED_PRECONDITION: {path}; Is a directory"
        except (DataLossError, UnimplementedError) as error:
            reason = f"DATA_LOSS: {error.message.removeprefix(f'{path}: ')}"
        raise DataLossError(
            None,
            None,
            f"Unable to open table file {path}: {reason}: perhaps your file is in a different file "
            "format and you need to use a different restore operator?",
        )

    def _register(
        self,
        path: str,
        proto: SavedSliceMeta,
        shape: tuple[int, ...],
        extents: Extents,
        table: Table,
    ) -> None:
        name = proto.name
        try:
            dtype = as_dtype(proto.type)
        except TypeError:
            dtype = None
        if dtype is None or dtype.name not in _TYPES:
            raise DataLossError(None, None, f"{path}: {name} has dtype {proto.type}")
        known = self._tensors.setdefault(name, _Tensor(dtype, shape))
        if known.shape != shape:
            raise InternalError(
                None,
                None,
                f"Incompatible tensor shapes detected for tensor {name}: existing = "
                f"{format_shape(shape)}, new = {format_shape(known.shape)}",
            )
        if known.dtype != dtype:
            raise InternalError(
                None,
                None,
                f"Incompatible tensor types detected for tensor {name}: existing = "
                f"{short_name(dtype)}, new = {short_name(known.dtype)}",
            )
        where = f"shape = {format_shape(shape)}, slice = {slice_text(extents)}"
        if len(extents) != len(shape):
            raise InternalError(None, None, f"Incompatible tensor shape and slice: {where}")
        places = bounds(shape, extents)
        for axis, (size, (start, length)) in enumerate(zip(shape, places, strict=True)):
            if start < 0 or length < 0 or start + length > size:
                raise InternalError(
                    None, None, f"Extent in dimension {axis} out of bounds: {where}"
                )
        for other in known.slices:
            if overlap(bounds(shape, other), places) is not None:
                raise InternalError(
                    None,
                    None,
                    f"Overlapping slices: existing slice = {slice_text(other)}, new slice = "
                    f"{slice_text(extents)}",
                )
        known.slices[extents] = table

    def names(self) -> list[str]:
        """Return the names of the tensors, sorted."""
        return sorted(self._tensors)

    def dtype_and_shape(self, name: str) -> tuple[DType, tuple[int, ...]]:
        """Return dtype and shape of a tensor. Raises KeyError."""
        tensor = self._tensors[name]
        return tensor.dtype, tensor.shape

    def slice_count(self, name: str) -> int:
        """Return the number of stored slices of a tensor. Raises KeyError."""
        return len(self._tensors[name].slices)

    def read(self, name: str, extents: Extents | None = None) -> np.ndarray:
        """Return a tensor or a slice, joined from the stored slices.

        Strings are an object array of bytes. Raises InvalidArgumentError where the slices do not
        cover it or are damaged, KeyError for an unknown name.
        """
        tensor = self._tensors[name]
        whole = tuple((0, FULL) for _ in tensor.shape)
        wanted = bounds(tensor.shape, whole if extents is None else extents)
        sizes: Sequence[int] = [length for _, length in wanted]
        parts = []
        covered = 0
        for stored, table in tensor.slices.items():
            common = overlap(bounds(tensor.shape, stored), wanted)
            if common is not None:
                source, target = common
                parts.append((target, self._elements(name, tensor, stored, table)[source]))
                covered += math.prod(place.stop - place.start for place in target)
        if covered < math.prod(sizes):  # before memory is taken for them
            raise _not_copied()
        out = np.empty(sizes, object if tensor.dtype is string else tensor.dtype.as_numpy_dtype)
        for target, part in parts:
            out[target] = part
        return out

    def _elements(self, name: str, tensor: _Tensor, extents: Extents, table: Table) -> np.ndarray:
        from google.protobuf.message import DecodeError

        from tfjit.protos import SavedTensorSlices

        shape = extent_shape(tensor.shape, extents)
        try:
            value = table.get(slice_key(name, extents))
            if value is None:
                raise _not_copied()
            proto = SavedTensorSlices.FromString(value).data.data
        except (OpError, DecodeError):
            raise _not_copied() from None
        proto.dtype = tensor.dtype.as_datatype_enum  # type: ignore[assignment]
        proto.tensor_shape.Clear()
        shapes.fill_proto(proto.tensor_shape, shape)
        if tensors.value_count(proto) < math.prod(shape):
            raise _not_copied()
        found: np.ndarray = tensors.from_proto(proto)
        return found


def _not_copied() -> InvalidArgumentError:
    return InvalidArgumentError(None, None, "Error copying slice data")
