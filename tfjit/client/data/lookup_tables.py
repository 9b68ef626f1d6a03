"""Tables from keys to values that one operation fills."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from tfjit import ops
from tfjit.client.data.sparse_tensors import SparseTensor
from tfjit.framework.graphs.default_graph import (
    add_to_collection,
    control_dependencies,
    device,
    get_default_graph,
    name_scope,
)
from tfjit.framework.graphs.graph_keys import GraphKeys
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.types import dtypes
from tfjit.framework.types.dtypes import DType, as_dtype
from tfjit.framework.types.shape import TensorShape
from tfjit.ops.core.apply import call, create, tensor
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import DenseOrSparse, DTypeLike, TensorLike


class Table(Protocol):
    """A table that an initializer fills."""

    @property
    def resource_handle(self) -> Tensor:
        """The handle."""
        ...

    @property
    def key_dtype(self) -> DType:
        """Dtype of the keys."""
        ...

    @property
    def value_dtype(self) -> DType:
        """Dtype of the values."""
        ...


class TextFileIndex(enum.IntEnum):
    """The part of a line that is a key or value.

    A number from 0 on is a column.
    """

    WHOLE_LINE = -2
    LINE_NUMBER = -1


@contextlib.contextmanager
def _outside() -> Iterator[None]:
    """Build outside of functions, conditionals and loops: a table is made once."""
    graph = get_default_graph()
    while outer := getattr(graph, "outer_graph", None):
        graph = outer
    if graph is get_default_graph():
        with control_dependencies(None):
            yield
        return
    with graph.as_default(), control_dependencies(None):
        yield


class TableInitializerBase:
    """The contents of a table."""

    def __init__(self, key_dtype: DTypeLike, value_dtype: DTypeLike) -> None:
        self._key_dtype, self._value_dtype = as_dtype(key_dtype), as_dtype(value_dtype)

    @property
    def key_dtype(self) -> DType:
        """Dtype of the keys."""
        return self._key_dtype

    @property
    def value_dtype(self) -> DType:
        """Dtype of the values."""
        return self._value_dtype

    @property
    def shared_name(self) -> str:
        """Name under which equal tables are one.

        "" is a table of its own.
        """
        return ""

    def initialize(self, table: Table) -> Operation:
        """Return the operation that fills a table, which TABLE_INITIALIZERS gets."""
        raise NotImplementedError

    def _check(self, table: Table) -> None:
        """Raise TypeError for a table of other dtypes."""
        for what, own, wanted in (
            ("key", self._key_dtype, table.key_dtype),
            ("value", self._value_dtype, table.value_dtype),
        ):
            if own is not wanted:
                raise TypeError(f"Invalid {what} dtype for table, expected {wanted} but got {own}.")


class KeyValueTensorInitializer(TableInitializerBase):
    """Fills a table from two vectors."""

    def __init__(
        self,
        keys: TensorLike,
        values: TensorLike,
        key_dtype: DTypeLike | None = None,
        value_dtype: DTypeLike | None = None,
        name: str | None = None,
    ) -> None:
        with _outside():
            self._keys = convert_to_tensor(keys, dtype=key_dtype, name="keys")
            self._values = convert_to_tensor(values, dtype=value_dtype, name="values")
        self._name = "key_value_init" if name is None else name
        super().__init__(self._keys.dtype.base_dtype, self._values.dtype.base_dtype)

    def initialize(self, table: Table) -> Operation:
        self._check(table)
        parts = {"keys": self._keys, "values": self._values}
        with name_scope(self._name, None, [table.resource_handle, self._keys, self._values]):
            made = create("LookupTableImportV2", table_handle=table.resource_handle, **parts)
        add_to_collection(GraphKeys.TABLE_INITIALIZERS, made)
        return made


class TextFileInitializer(TableInitializerBase):
    """Fills a table from the lines of a file.

    key_index, value_index: columns, or of TextFileIndex. value_index_offset: added to the values
    that are line numbers. Raises ValueError for an index below -2, a dtype that does not fit its
    index, a vocab_size below 1 or no filename.
    """

    def __init__(
        self,
        filename: TensorLike,
        key_dtype: DTypeLike,
        key_index: int,
        value_dtype: DTypeLike,
        value_index: int,
        vocab_size: int | None = None,
        delimiter: str = "\t",
        name: str | None = None,
        value_index_offset: int = 0,
    ) -> None:
        if not isinstance(filename, Tensor) and not filename:
            raise ValueError("`filename` argument required for tf.lookup.TextFileInitializer")
        super().__init__(key_dtype, value_dtype)
        _check_index("key", key_index, self._key_dtype)
        _check_index("value", value_index, self._value_dtype)
        if vocab_size is not None and vocab_size <= 0:
            raise ValueError(f"`vocab_size` should be > 0, received: {vocab_size}")
        self._given = filename
        with _outside(), device("CPU"):
            self._filename = convert_to_tensor(filename, dtype=dtypes.string, name="asset_path")
        self._indices = int(key_index), int(value_index)
        self._vocab_size, self._delimiter = vocab_size, delimiter
        self._offset, self._name = int(value_index_offset), name

    @property
    def shared_name(self) -> str:
        parts = [self._given, self._vocab_size, *self._indices, self._offset]
        kept = [part for k, part in enumerate(parts) if k not in (1, 4) or part]
        return "_".join(["hash_table", *map(str, kept)])

    def initialize(self, table: Table) -> Operation:
        self._check(table)
        with name_scope(self._name, "text_file_init", [table.resource_handle]):
            made = create(
                "InitializeTableFromTextFileV2",
                table_handle=table.resource_handle,
                filename=self._filename,
                key_index=self._indices[0],
                value_index=self._indices[1],
                vocab_size=-1 if self._vocab_size is None else self._vocab_size,
                delimiter=self._delimiter,
                offset=self._offset,
            )
        add_to_collection(GraphKeys.TABLE_INITIALIZERS, made)
        if self._filename.op.type == "Const":
            add_to_collection(GraphKeys.ASSET_FILEPATHS, self._filename)
        return made


def _check_index(what: str, index: int, dtype: DType) -> None:
    if index < -2:
        end = "." if what == "key" else ""
        raise ValueError(f"`{what}_index` should be >= -2, received: {index}{end}")
    if index == TextFileIndex.LINE_NUMBER and dtype is not dtypes.int64:
        raise ValueError(
            f"`{what}_dtype` must be int64 if `{what}_index` is {index:d}, received: {dtype}"
        )
    if index == TextFileIndex.WHOLE_LINE and not (dtype.is_integer or dtype is dtypes.string):
        raise ValueError(
            f"`{what}_dtype` should be either integer or string for `{what}_index` {index:d}, "
            f"received: {dtype}"
        )


class _FilledTable:
    """Base of tables that one operation fills: lookups by key."""

    def __init__(self, key_dtype: DType, value_dtype: DType, name: str) -> None:
        self._key_dtype, self._value_dtype, self._name = key_dtype, value_dtype, name

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
        """Name of the table, in those of its lookups."""
        return self._name

    def lookup(self, keys: TensorLike, name: str | None = None) -> DenseOrSparse:
        """Return the values of keys, a sparse tensor for sparse keys.

        Raises TypeError for keys of another dtype.
        """
        if not isinstance(keys, (Tensor, SparseTensor)):
            keys = convert_to_tensor(keys, dtype=self._key_dtype, name="keys")
        if keys.dtype.base_dtype is not self._key_dtype:
            raise TypeError(
                f"Dtype of argument `keys` must be {self._key_dtype}, received: {keys.dtype}"
            )
        if isinstance(keys, SparseTensor):
            found = self._find(keys.values, name)
            return SparseTensor(keys.indices, found, keys.dense_shape)
        return self._find(keys, name)

    def __getitem__(self, keys: TensorLike) -> DenseOrSparse:
        return self.lookup(keys)

    def _find(self, keys: Tensor, name: str | None) -> Tensor:
        raise NotImplementedError


class StaticHashTable(_FilledTable):
    """A table that `initializer` fills once, among TABLE_INITIALIZERS.

    default_value: of unknown keys. experimental_is_anonymous: each run of the table's operation
    makes another table, as in TensorFlow. Raises ValueError for a default that is no scalar.
    """

    def __init__(
        self,
        initializer: TableInitializerBase,
        default_value: TensorLike,
        name: str | None = None,
        experimental_is_anonymous: bool = False,
        *,
        shared_name: str | None = None,
    ) -> None:
        kinds = {"key_dtype": initializer.key_dtype, "value_dtype": initializer.value_dtype}
        self._default = convert_to_tensor(default_value, dtype=initializer.value_dtype)
        self._default.shape.merge_with(TensorShape([]))
        with _outside():
            if experimental_is_anonymous:
                self._handle = tensor("AnonymousHashTable", name or "hash_table", **kinds)
            else:
                # TensorFlow invents a random name, with which no process would find its plans again
                self._handle = tensor(
                    "HashTableV2",
                    name or "hash_table",
                    shared_name=shared_name or initializer.shared_name,
                    use_node_name_sharing=True,
                    **kinds,
                )
        super().__init__(**kinds, name=self._handle.op.name.rpartition("/")[2])
        if get_default_graph()._get_control_flow_context() is None:
            self._initializer = initializer.initialize(self)
        else:
            with _outside():
                self._initializer = initializer.initialize(self)

    @property
    def resource_handle(self) -> Tensor:
        """The handle."""
        return self._handle

    @property
    def initializer(self) -> Operation:
        """The operation that fills the table."""
        return self._initializer

    @property
    def default_value(self) -> Tensor:
        """The value of unknown keys."""
        return self._default

    def size(self, name: str | None = None) -> Tensor:
        """Return the number of keys, int64."""
        with name_scope(name, f"{self._name}_Size", [self._handle]):
            return tensor("LookupTableSizeV2", None, table_handle=self._handle)

    def export(self, name: str | None = None) -> tuple[Tensor, Tensor]:
        """Return all keys, and their values."""
        kinds = {"Tkeys": self._key_dtype, "Tvalues": self._value_dtype}
        with name_scope(name, f"{self._name}_Export", [self._handle]):
            found = call("LookupTableExportV2", None, table_handle=self._handle, **kinds)
        found.values.set_shape(found.keys.shape)
        return found.keys, found.values

    def _find(self, keys: Tensor, name: str | None) -> Tensor:
        parts = {"table_handle": self._handle, "keys": keys, "default_value": self._default}
        with name_scope(name, f"{self._name}_Lookup", list(parts.values())):
            found = tensor("LookupTableFindV2", None, **parts)
        found.set_shape(keys.shape)
        return found


class HashTable(StaticHashTable):
    """A StaticHashTable; `init` is another name of its `initializer`."""

    @property
    def init(self) -> Operation:
        """The operation that fills the table."""
        return self.initializer


class BucketedTable(_FilledTable):
    """A table of ids, with buckets for keys that it has not.

    An unknown key has one of the ids after the known ones, by the hash of its text. key_dtype: of
    lookups; an integer where the table's is one. Without a table every key is unknown. Raises
    TypeError for other dtypes.
    """

    def __init__(
        self,
        table: StaticHashTable | None,
        num_oov_buckets: int,
        key_dtype: DType | None = None,
        name: str | None = None,
    ) -> None:
        kind = dtypes.string
        if table is not None:
            kind = key_dtype or table.key_dtype
            name = name or table.name
        if not kind.is_integer and kind is not dtypes.string:
            raise TypeError(f"Invalid `key_dtype`, expected integer or string, got {kind}")
        self._table, self._buckets = table, int(num_oov_buckets)
        short = (name or "hash_bucket").rstrip("/").rpartition("/")[2]
        super().__init__(kind, dtypes.int64, short)

    @property
    def initializer(self) -> Operation:
        """The operation that fills the table."""
        if self._table is not None:
            return self._table.initializer
        with name_scope(None, "init"):
            return ops.no_op()

    @property
    def resource_handle(self) -> Tensor | None:
        """The handle of the table of known keys."""
        return None if self._table is None else self._table.resource_handle

    def size(self, name: str | None = None) -> Tensor:
        """Return the number of ids: known keys and buckets."""
        with name_scope(name, f"{self._name}_Size"):
            known = (
                convert_to_tensor(0, dtypes.int64) if self._table is None else self._table.size()
            )
            return ops.add(known, self._buckets, name="add")

    def _find(self, keys: Tensor, name: str | None) -> Tensor:
        if self._table is not None and self._table.key_dtype is dtypes.int64:
            keys = ops.cast(keys, dtypes.int64)
        with name_scope(name, f"{self._name}_Lookup"):
            text = keys if keys.dtype is dtypes.string else tensor("AsString", None, input=keys)
            buckets = {"num_buckets": self._buckets}
            hashed = tensor("StringToHashBucketFast", "hash_bucket", input=text, **buckets)
            if self._table is None:
                return hashed
            ids = self._table._find(keys, None)
            hashed = ops.add(hashed, self._table.size())
            known = ops.not_equal(ids, self._table.default_value)
            return tensor("SelectV2", None, condition=known, t=ids, e=hashed)


class StaticVocabularyTable(BucketedTable):
    """A table of keys to ids, with buckets for unknown keys.

    Unknown keys get one of `num_oov_buckets` ids after the known ones, by their hash. initializer:
    of string or integer keys, int64 ids; None for no known keys. Raises TypeError for other dtypes,
    ValueError for less than one bucket.
    """

    def __init__(
        self,
        initializer: TableInitializerBase | None,
        num_oov_buckets: int,
        lookup_key_dtype: DTypeLike | None = None,
        name: str | None = None,
        experimental_is_anonymous: bool = False,
    ) -> None:
        if num_oov_buckets <= 0:
            raise ValueError("`num_oov_buckets` must be > 0; use StaticHashTable.")
        if initializer is None:
            super().__init__(None, num_oov_buckets, None, name)
            return
        kind = initializer.key_dtype
        wanted = kind if lookup_key_dtype is None else as_dtype(lookup_key_dtype)
        if kind not in (dtypes.int64, dtypes.string):
            raise TypeError(
                f"Invalid `key_dtype`, expected one of {(dtypes.int64, dtypes.string)}, but got "
                f"{kind}."
            )
        if kind.is_integer != wanted.is_integer:
            expected = "integer" if wanted.is_integer else "non-integer"
            raise TypeError(f"Invalid `key_dtype`, expected {expected} but got {kind}.")
        if initializer.value_dtype is not dtypes.int64:
            raise TypeError(
                f"Invalid `value_dtype`, expected {dtypes.int64} but got {initializer.value_dtype}."
            )
        anonymous = experimental_is_anonymous
        table = HashTable(initializer, -1, experimental_is_anonymous=anonymous)
        super().__init__(table, num_oov_buckets, wanted, name)


def index_table_from_file(
    vocabulary_file: str,
    num_oov_buckets: int,
    vocab_size: int,
    default_value: int,
    key_dtype: DType,
    name: str,
) -> StaticHashTable | BucketedTable:
    """Return a table of the numbers of a file's lines."""
    with name_scope(name):
        with name_scope(None, "hash_table"):
            source = TextFileInitializer(
                vocabulary_file,
                dtypes.int64 if key_dtype.is_integer else key_dtype,
                TextFileIndex.WHOLE_LINE,
                dtypes.int64,
                TextFileIndex.LINE_NUMBER,
                vocab_size,
                name="table_init",
            )
            table = StaticHashTable(source, default_value)
        return _with_buckets(table, num_oov_buckets, key_dtype)


def index_table_from_tensor(
    vocabulary: TensorLike, num_oov_buckets: int, default_value: int, dtype: DType, name: str
) -> StaticHashTable | BucketedTable:
    """Return a table of the places of keys in a vector."""
    with name_scope(name):
        keys = convert_to_tensor(vocabulary)
        places = ops.cast(ops.range(ops.size(keys)), dtypes.int64)
        with name_scope(None, "hash_table"):
            known = ops.cast(keys, dtypes.int64) if keys.dtype.is_integer else keys
            source = KeyValueTensorInitializer(known, places, name="table_init")
            table = StaticHashTable(source, default_value)
        return _with_buckets(table, num_oov_buckets, dtype)


def _with_buckets(
    table: StaticHashTable, buckets: int, dtype: DType
) -> StaticHashTable | BucketedTable:
    return BucketedTable(table, buckets, dtype) if buckets else table
