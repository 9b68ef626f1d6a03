"""`tfjit.lookup`: tables from keys to values."""

from __future__ import annotations

import enum
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tfjit import ops
from tfjit.framework.graphs.default_graph import add_to_collection, name_scope
from tfjit.framework.graphs.graph_keys import GraphKeys
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.types import dtypes
from tfjit.framework.types.dtypes import DType, as_dtype
from tfjit.framework.types.shape import TensorShape
from tfjit.ops.core.apply import call, create, tensor
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import TensorLike


class TextFileIndex(enum.IntEnum):
    """The part of a line that is a key or value.

    A number from 0 on is a column.
    """

    WHOLE_LINE = -2
    LINE_NUMBER = -1


class TableInitializerBase:
    """The contents of a table."""

    def __init__(self, key_dtype: object, value_dtype: object) -> None:
        self._key_dtype, self._value_dtype = as_dtype(key_dtype), as_dtype(value_dtype)

    @property
    def key_dtype(self) -> DType:
        """Dtype of the keys."""
        return self._key_dtype

    @property
    def value_dtype(self) -> DType:
        """Dtype of the values."""
        return self._value_dtype

    def initialize(self, table: object) -> Operation:
        """Return the operation that fills a table."""
        raise NotImplementedError


class KeyValueTensorInitializer(TableInitializerBase):
    """Fills a table from two vectors."""

    def __init__(
        self,
        keys: Any,
        values: Any,
        key_dtype: Any = None,
        value_dtype: Any = None,
        name: str | None = None,
    ) -> None:
        with name_scope(name, "key_value_init"):
            self._keys = convert_to_tensor(keys, dtype=key_dtype, name="keys")
            self._values = convert_to_tensor(values, dtype=value_dtype, name="values")
        super().__init__(self._keys.dtype.base_dtype, self._values.dtype.base_dtype)

    def initialize(self, table: Any) -> Operation:
        return create(
            "InitializeTableV2",
            table_handle=table.resource_handle,
            keys=self._keys,
            values=self._values,
        )


class TextFileInitializer(TableInitializerBase):
    """Fills a table from the lines of a file.

    key_index, value_index: columns, or of TextFileIndex. value_index_offset: added to the values
    that are line numbers.
    """

    def __init__(
        self,
        filename: object,
        key_dtype: object,
        key_index: int,
        value_dtype: object,
        value_index: int,
        vocab_size: int | None = None,
        delimiter: str = "\t",
        name: str | None = None,
        value_index_offset: int = 0,
    ) -> None:
        super().__init__(key_dtype, value_dtype)
        for what, dtype, index in (
            ("Key", self._key_dtype, key_index),
            ("Value", self._value_dtype, value_index),
        ):
            if index == TextFileIndex.LINE_NUMBER and dtype is not dtypes.int64:
                raise ValueError(f"{what}_dtype must be int64 for a line number, got {dtype.name}")
            if index == TextFileIndex.WHOLE_LINE and not (
                dtype.is_integer or dtype is dtypes.string
            ):
                raise ValueError(
                    f"{what}_dtype must be string or integer for a whole line, got {dtype.name}"
                )
            if index < -2:
                raise ValueError(f"Invalid {what.lower()} index {index}.")
        if key_index == value_index:
            raise ValueError(
                f"Filename: {filename}, Key index and value index are both {key_index}."
            )
        if (vocab_size is not None and vocab_size <= 0) or len(delimiter) != 1:
            raise ValueError(
                f"vocab_size {vocab_size} must be positive, and the delimiter {delimiter!r} one "
                "character"
            )
        with name_scope(name, "text_file_init"):
            self._filename = convert_to_tensor(filename, dtype=dtypes.string, name="asset_filepath")
        self._indices = int(key_index), int(value_index)
        self._vocab_size, self._delimiter, self._offset = (
            vocab_size,
            delimiter,
            int(value_index_offset),
        )
        if self._filename.op.type == "Const":
            add_to_collection(GraphKeys.ASSET_FILEPATHS, self._filename)

    def initialize(self, table: Any) -> Operation:
        return create(
            "InitializeTableFromTextFileV2",
            table_handle=table.resource_handle,
            filename=self._filename,
            key_index=self._indices[0],
            value_index=self._indices[1],
            vocab_size=-1 if self._vocab_size is None else self._vocab_size,
            delimiter=self._delimiter,
            offset=self._offset,
        )


class _Table:
    """Base of tables: the handle, lookups, the size."""

    def __init__(
        self, handle: Tensor, key_dtype: DType, value_dtype: DType, value_shape: object = ()
    ) -> None:
        self._handle = handle
        self._key_dtype, self._value_dtype = key_dtype, value_dtype
        self._value_shape = TensorShape(value_shape)
        self._key_rank = 0
        self._default: Any = None

    @property
    def resource_handle(self) -> Tensor:
        """The handle."""
        return self._handle

    @property
    def key_dtype(self) -> DType:
        """Dtype of the keys."""
        return self._key_dtype

    @property
    def value_dtype(self) -> DType:
        """Dtype of the values."""
        return self._value_dtype

    @property
    def name(self) -> str:
        """Name of the table's operation."""
        return self._handle.op.name

    @property
    def default_value(self) -> Any:
        """The value of unknown keys."""
        return self._default

    def size(self, name: str | None = None) -> Tensor:
        """Return the number of keys, int64."""
        return tensor(
            "LookupTableSizeV2",
            name or f"{self._handle.op.name.rpartition('/')[2]}_Size",
            table_handle=self._handle,
        )

    def lookup(self, keys: TensorLike, name: str | None = None) -> Tensor:
        """Return the values of keys, the default for unknown ones.

        Raises TypeError for keys of another dtype.
        """
        given = convert_to_tensor(
            keys, dtype=None if isinstance(keys, Tensor) else self._key_dtype, name="keys"
        )
        if given.dtype.base_dtype is not self._key_dtype:
            raise TypeError(
                f"Dtype of argument `keys` must be {self._key_dtype.name}, received: "
                f"{given.dtype.name}"
            )
        short = self._handle.op.name.rpartition("/")[2]
        found = tensor(
            "LookupTableFindV2",
            name or f"{short}_Lookup",
            table_handle=self._handle,
            keys=given,
            default_value=self._default,
        )
        shape = given.shape_tuple
        if shape is not None and self._value_shape.dims_tuple is not None:
            found.set_shape((*shape[: len(shape) - self._key_rank], *self._value_shape.dims_tuple))
        return found

    def __getitem__(self, keys: TensorLike) -> Tensor:
        return self.lookup(keys)

    def export(self, name: str | None = None) -> tuple[Tensor, Tensor]:
        """Return all keys, and their values."""
        found = call(
            "LookupTableExportV2",
            name,
            table_handle=self._handle,
            Tkeys=self._key_dtype,
            Tvalues=self._value_dtype,
        )
        return found.keys, found.values


class StaticHashTable(_Table):
    """A table that `initializer` fills once, among TABLE_INITIALIZERS.

    default_value: of unknown keys. experimental_is_anonymous: each run of the table's operation
    makes another table, as in TensorFlow.
    """

    def __init__(
        self,
        initializer: TableInitializerBase,
        default_value: object,
        name: str | None = None,
        experimental_is_anonymous: bool = False,
        *,
        shared_name: str | None = None,
    ) -> None:
        types = {"key_dtype": initializer.key_dtype, "value_dtype": initializer.value_dtype}
        with name_scope(name, "hash_table") as scope:
            if experimental_is_anonymous:
                handle = tensor("AnonymousHashTable", scope, **types)
            else:
                handle = tensor(
                    "HashTableV2",
                    scope,
                    shared_name=shared_name or "",
                    use_node_name_sharing=True,
                    **types,
                )
            super().__init__(handle, initializer.key_dtype, initializer.value_dtype)
            self._default = convert_to_tensor(
                default_value, dtype=initializer.value_dtype, name="Const"
            )
            with name_scope("table_init"):
                self._initializer = initializer.initialize(self)
        add_to_collection(GraphKeys.TABLE_INITIALIZERS, self._initializer)

    @property
    def initializer(self) -> Operation:
        """The operation that fills it."""
        return self._initializer


HashTable = StaticHashTable


class StaticVocabularyTable:
    """A table of strings to ids, with buckets for unknown words.

    Unknown words get one of `num_oov_buckets` ids after the known ones, by their hash. Raises
    TypeError for keys other than strings, or ids other than int64; ValueError for less than one
    bucket.
    """

    def __init__(
        self,
        initializer: TableInitializerBase,
        num_oov_buckets: int,
        lookup_key_dtype: object = None,
        name: str | None = None,
        experimental_is_anonymous: bool = False,
    ) -> None:
        if num_oov_buckets <= 0:
            raise ValueError(
                f"Argument `num_oov_buckets` must be greater than 0. Received: {num_oov_buckets}."
            )
        if initializer.value_dtype is not dtypes.int64:
            raise TypeError(
                f"Invalid `value_dtype`, expected {dtypes.int64} but got {initializer.value_dtype}."
            )
        if initializer.key_dtype is not dtypes.string or lookup_key_dtype not in (
            None,
            dtypes.string,
        ):
            raise TypeError(
                f"only strings have hash buckets here, got keys of {initializer.key_dtype.name}"
            )
        self._buckets = int(num_oov_buckets)
        self._table = StaticHashTable(initializer, -1, name, experimental_is_anonymous)

    @property
    def initializer(self) -> Operation:
        """The operation that fills it."""
        return self._table.initializer

    @property
    def resource_handle(self) -> Tensor:
        """The handle of the table of known words."""
        return self._table.resource_handle

    @property
    def key_dtype(self) -> DType:
        """Dtype of the keys."""
        return self._table.key_dtype

    @property
    def value_dtype(self) -> DType:
        """Dtype of the ids."""
        return self._table.value_dtype

    @property
    def name(self) -> str:
        """Name of the table's operation."""
        return self._table.name

    def size(self, name: str | None = None) -> Tensor:
        """Return the number of ids: known words and buckets."""
        with name_scope(name, f"{self._table.name.rpartition('/')[2]}_Size"):
            return ops.add(self._table.size(), np.int64(self._buckets))

    def lookup(self, keys: TensorLike, name: str | None = None) -> Tensor:
        """Return the ids of words. Raises TypeError for values other than strings."""
        given = convert_to_tensor(
            keys, dtype=None if isinstance(keys, Tensor) else dtypes.string, name="keys"
        )
        with name_scope(name, f"{self._table.name.rpartition('/')[2]}_Lookup"):
            ids = self._table.lookup(given)
            hashed = tensor(
                "StringToHashBucketFast", "hash_bucket", input=given, num_buckets=self._buckets
            )
            return ops.where(
                ops.not_equal(ids, np.int64(-1)), ids, ops.add(hashed, self._table.size())
            )

    def __getitem__(self, keys: TensorLike) -> Tensor:
        return self.lookup(keys)


class MutableHashTable(_Table):
    """A table that runs change.

    default_value: of unknown keys; its shape is the shape of all values (a scalar or vector).
    """

    def __init__(
        self,
        key_dtype: object,
        value_dtype: object,
        default_value: object,
        name: str = "MutableHashTable",
        checkpoint: bool = True,
        experimental_is_anonymous: bool = False,
    ) -> None:
        keys, values = as_dtype(key_dtype), as_dtype(value_dtype)
        default = convert_to_tensor(default_value, dtype=values)
        shape = default.shape
        attrs: dict[str, Any] = {"key_dtype": keys, "value_dtype": values}
        if not experimental_is_anonymous:
            attrs["use_node_name_sharing"] = True
        kind = "AnonymousMutableHashTable" if experimental_is_anonymous else "MutableHashTable"
        version = "" if experimental_is_anonymous else "V2"
        if shape.rank == 0:
            handle = tensor(kind + version, name, **attrs)
        else:
            handle = tensor(f"{kind}OfTensors{version}", name, value_shape=shape, **attrs)
        super().__init__(handle, keys, values, shape)
        self._default = default

    def insert(self, keys: TensorLike, values: TensorLike, name: str | None = None) -> Operation:
        """Set the values of keys."""
        pair = (
            convert_to_tensor(keys, self._key_dtype, name="keys"),
            convert_to_tensor(values, self._value_dtype, name="values"),
        )
        return create(
            "LookupTableInsertV2", name, table_handle=self._handle, keys=pair[0], values=pair[1]
        )

    def remove(self, keys: TensorLike, name: str | None = None) -> Operation:
        """Drop keys."""
        return create(
            "LookupTableRemoveV2",
            name,
            table_handle=self._handle,
            keys=convert_to_tensor(keys, self._key_dtype, name="keys"),
        )


class DenseHashTable(MutableHashTable):
    """A mutable table with reserved keys.

    `empty_key` and `deleted_key` are two keys that are never used. Keys may be vectors.
    """

    def __init__(
        self,
        key_dtype: object,
        value_dtype: object,
        default_value: object,
        empty_key: object,
        deleted_key: object,
        initial_num_buckets: int | None = None,
        name: str = "MutableDenseHashTable",
        checkpoint: bool = True,
        experimental_is_anonymous: bool = False,
    ) -> None:
        keys, values = as_dtype(key_dtype), as_dtype(value_dtype)
        default = convert_to_tensor(default_value, dtype=values, name="default_value")
        empty = convert_to_tensor(empty_key, dtype=keys, name="empty_key")
        handle = tensor(
            "MutableDenseHashTableV2",
            name,
            empty_key=empty,
            deleted_key=convert_to_tensor(deleted_key, dtype=keys, name="deleted_key"),
            value_dtype=values,
            value_shape=default.shape,
            initial_num_buckets=initial_num_buckets,
            use_node_name_sharing=True,
        )
        _Table.__init__(self, handle, keys, values, default.shape)
        self._default = default
        self._key_rank = empty.shape.rank or 0


experimental: Final = SimpleNamespace(
    DenseHashTable=DenseHashTable, MutableHashTable=MutableHashTable
)
