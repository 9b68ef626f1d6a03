"""The contents of lookup tables, from tensors or a file."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

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
from tfjit.ops.core.apply import create
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import DTypeLike, Structure, TensorLike


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
def outside() -> Iterator[None]:
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
        with outside():
            self._keys = convert_to_tensor(keys, dtype=key_dtype, name="keys")
            self._values = convert_to_tensor(values, dtype=value_dtype, name="values")
        self._name = "key_value_init" if name is None else name
        super().__init__(self._keys.dtype.base_dtype, self._values.dtype.base_dtype)

    def initialize(self, table: Table) -> Operation:
        self._check(table)
        parts: dict[str, Structure] = {"keys": self._keys, "values": self._values}
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
        with outside(), device("CPU"):
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
