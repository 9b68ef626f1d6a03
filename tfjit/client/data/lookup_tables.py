"""Tables from keys to values that one operation fills."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit import ops
from tfjit.client.data.sparse_tensors import SparseTensor
from tfjit.client.data.table_initializers import (
    KeyValueTensorInitializer,
    TableInitializerBase,
    TextFileIndex,
    TextFileInitializer,
    outside,
)
from tfjit.framework.graphs.default_graph import (
    get_default_graph,
    name_scope,
)
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.types import dtypes
from tfjit.framework.types.dtypes import DType, as_dtype
from tfjit.framework.types.shape import TensorShape
from tfjit.ops.core.apply import call, tensor
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import DenseOrSparse, DTypeLike, Structure, TensorLike


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
        with outside():
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
            with outside():
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
        parts: dict[str, Structure] = {
            "table_handle": self._handle,
            "keys": keys,
            "default_value": self._default,
        }
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
