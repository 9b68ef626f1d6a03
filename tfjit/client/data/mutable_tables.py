"""Tables from keys to values that runs change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.types.dtypes import DType, as_dtype
from tfjit.framework.types.shape import TensorShape
from tfjit.ops.core.apply import call, create, tensor
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import TensorLike


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
