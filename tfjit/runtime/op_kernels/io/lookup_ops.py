"""Runtime kernels of lookup tables.

A handle, of either kind, is the table itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tfjit.framework import errors
from tfjit.framework.types.dtypes import DType
from tfjit.framework.types.shape import TensorShape, format_shape
from tfjit.runtime.kernel_api.op_kernel import OpContext, runtime_kernel
from tfjit.runtime.op_kernels.io.io_ops import file_kernel, path_of, system_errors
from tfjit.runtime.op_kernels.state.signatures import check_signature
from tfjit.runtime.resources.tables import (
    DenseMarks,
    DenseTable,
    HashTable,
    Table,
    read_vocabulary,
    type_name,
)


def _shared(ctx: OpContext, make: Callable[[str], Table]) -> Table:
    """Return the session's table of the node's name.

    Raises InvalidArgumentError for one of other dtypes.
    """
    a = ctx.attrs
    name = a.get("shared_name", b"").decode() or ctx.name
    manager = ctx.session.manager(ctx.device.name)
    found: Table = manager.lookup_or_create(
        a.get("container", b"").decode(), "LookupTable", name, lambda: make(name)
    )
    if found.key_dtype != a["key_dtype"] or found.value_dtype != a["value_dtype"]:
        raise errors.InvalidArgumentError(
            None,
            None,
            "Conflicting key/value dtypes "
            f"{type_name(a['key_dtype'])}->{type_name(a['value_dtype'])} with "
            f"{type_name(found.key_dtype)}-{type_name(found.value_dtype)} for table {name}",
        )
    return found


def _value_shape(ctx: OpContext) -> tuple[int, ...]:
    shape: TensorShape = ctx.attrs.get("value_shape", TensorShape(()))
    if shape.dims_tuple is None or None in shape.dims_tuple:
        raise errors.InvalidArgumentError(
            None, None, f"Default value must be fully defined, got shape {shape}"
        )
    return tuple(d for d in shape.dims_tuple if d is not None)


@runtime_kernel("HashTable", "HashTableV2")
def hash_table(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return a table that is initialised once."""
    a = ctx.attrs
    return (_shared(ctx, lambda name: HashTable(name, a["key_dtype"], a["value_dtype"])),)


@runtime_kernel("MutableHashTable", "MutableHashTableV2")
def mutable_hash_table(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return a table of scalars."""
    a = ctx.attrs
    return (_shared(ctx, lambda name: Table(name, a["key_dtype"], a["value_dtype"])),)


def _of_tensors(ctx: OpContext, name: str) -> Table:
    shape = _value_shape(ctx)
    if len(shape) != 1:
        raise errors.InvalidArgumentError(
            None, None, f"Default value must be a vector, got shape {format_shape(shape)}"
        )
    return Table(name, ctx.attrs["key_dtype"], ctx.attrs["value_dtype"], (), shape)


@runtime_kernel("MutableHashTableOfTensors", "MutableHashTableOfTensorsV2")
def mutable_hash_table_of_tensors(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return a table of vectors."""
    return (_shared(ctx, lambda name: _of_tensors(ctx, name)),)


def _dense(ctx: OpContext, inputs: Sequence[Any], name: str) -> Table:
    a = ctx.attrs
    deleted = np.asarray(inputs[1]) if len(inputs) > 1 else None
    marks = DenseMarks(
        np.asarray(inputs[0]), deleted, a["initial_num_buckets"], a["max_load_factor"]
    )
    return DenseTable(name, a["key_dtype"], a["value_dtype"], _value_shape(ctx), marks)


@runtime_kernel("MutableDenseHashTable", "MutableDenseHashTableV2")
def mutable_dense_hash_table(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return a table with an empty and a deleted key."""
    return (_shared(ctx, lambda name: _dense(ctx, inputs, name)),)


@runtime_kernel(
    "AnonymousHashTable",
    "AnonymousMutableHashTable",
    "AnonymousMutableHashTableOfTensors",
    "AnonymousMutableDenseHashTable",
)
def anonymous_table(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return a table that lasts for the step."""
    a, kind = ctx.attrs, ctx.op
    if kind == "AnonymousHashTable":
        return (HashTable(ctx.name, a["key_dtype"], a["value_dtype"]),)
    if kind == "AnonymousMutableHashTable":
        return (Table(ctx.name, a["key_dtype"], a["value_dtype"]),)
    return (
        _of_tensors(ctx, ctx.name) if kind.endswith("OfTensors") else _dense(ctx, inputs, ctx.name),
    )


def _table(value: Any) -> Table:
    if not isinstance(value, Table):
        raise errors.InvalidArgumentError(
            None, None, f"the handle belongs to a {type(value).__name__}, not to a lookup table"
        )
    return value


def _check_signature(
    ctx: OpContext,
    table: Table,
    given: Sequence[DType],
    gives: Sequence[DType],
    values: bool = True,
) -> None:
    """Check that a node's dtypes are the table's.

    values: the node takes values too. Raises InvalidArgumentError where they differ.
    """
    key, value = table.key_dtype, table.value_dtype
    expected = [key, value] if values else [key]
    check_signature(ctx, given, gives, expected, [value] if gives else [])


@runtime_kernel("LookupTableFind", "LookupTableFindV2")
def find(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return the values of keys, the default for missing ones."""
    table = _table(inputs[0])
    _check_signature(ctx, table, (ctx.attrs["Tin"], ctx.attrs["Tout"]), (ctx.attrs["Tout"],))
    return (table.find(np.asarray(inputs[1]), np.asarray(inputs[2])),)


@runtime_kernel("LookupTableSize", "LookupTableSizeV2")
def size(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return the number of keys, an int64 scalar."""
    return (np.array(_table(inputs[0]).size(), np.int64),)


@runtime_kernel("LookupTableExport", "LookupTableExportV2")
def export(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return all keys and values."""
    return _table(inputs[0]).export()


def _changeable(ctx: OpContext, handle: Any, what: str) -> Table:
    table = _table(handle)
    if not table.can_change:
        raise errors.UnimplementedError(
            None, None, f"{what} not supported by InitializableLookupTable implementations"
        )
    return table


@runtime_kernel("LookupTableInsert", "LookupTableInsertV2")
def insert(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Set values of keys."""
    _check_signature(ctx, _table(inputs[0]), (ctx.attrs["Tin"], ctx.attrs["Tout"]), ())
    _changeable(ctx, inputs[0], "Insert").insert(np.asarray(inputs[1]), np.asarray(inputs[2]))
    return ()


@runtime_kernel("LookupTableRemoveV2")
def remove(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Drop keys."""
    _check_signature(ctx, _table(inputs[0]), (ctx.attrs["Tin"],), (), values=False)
    _changeable(ctx, inputs[0], "Remove").remove(np.asarray(inputs[1]))
    return ()


@runtime_kernel("LookupTableImport", "LookupTableImportV2")
def import_values(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Replace all contents; of a HashTable, initialise it."""
    table, keys, values = _table(inputs[0]), np.asarray(inputs[1]), np.asarray(inputs[2])
    _check_signature(ctx, table, (ctx.attrs["Tin"], ctx.attrs["Tout"]), ())
    if isinstance(table, HashTable):
        table.check_values(keys, values)
        table.initialize(keys.reshape(-1), values.reshape(-1))
    else:
        table.import_values(keys, values)
    return ()


def _initializable(handle: Any) -> HashTable:
    table = _table(handle)
    if not isinstance(table, HashTable):
        raise errors.InvalidArgumentError(
            None, None, f"Table localhost {table.name} is not initializable"
        )
    return table


@runtime_kernel("InitializeTable", "InitializeTableV2")
def initialize(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Fill a HashTable from two vectors."""
    table, keys, values = _initializable(inputs[0]), np.asarray(inputs[1]), np.asarray(inputs[2])
    _check_signature(ctx, table, (ctx.attrs["Tkey"], ctx.attrs["Tval"]), ())
    if keys.ndim != 1:
        raise errors.InvalidArgumentError(
            None, None, f"Keys must be a vector, but received shape{format_shape(keys.shape)}"
        )
    if keys.size != values.size:
        raise errors.InvalidArgumentError(
            None, None, f"Keys and values must have the same size {keys.size} vs {values.size}"
        )
    table.initialize(keys, values.reshape(-1))
    return ()


@file_kernel("InitializeTableFromTextFile", "InitializeTableFromTextFileV2")
def initialize_from_file(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Fill a HashTable from the lines of a file.

    A table that is filled stays as it is.
    """
    table, a = _initializable(inputs[0]), ctx.attrs
    delimiter: bytes = a.get("delimiter", b"\t")
    if len(delimiter) != 1:
        raise errors.InvalidArgumentError(None, None, "delimiter should be only 1 char")
    if np.shape(inputs[1]) != ():
        raise errors.InvalidArgumentError(
            None,
            None,
            f"filename should be a single string, but got {format_shape(np.shape(inputs[1]))}",
        )
    path = path_of(inputs[1], "filename")
    if not path:
        raise errors.InvalidArgumentError(None, None, "filename cannot be empty.")
    with system_errors(path):
        keys, values = read_vocabulary(
            ctx.session.env.files,
            path,
            table.key_dtype,
            table.value_dtype,
            a["key_index"],
            a["value_index"],
            a.get("vocab_size", -1),
            delimiter,
            a.get("offset", 0),
        )
    if not table.is_initialized:
        table.initialize(keys, values)
    return ()
