"""Declare lookup tables."""

from __future__ import annotations

from typing import Final

from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import Shapes, scalar, vector_of_two

# A table of the session: its names, and the types of keys and values.
TABLE: Final = (
    "container: string = ''",
    "shared_name: string = ''",
    "use_node_name_sharing: bool = false",
    "key_dtype: type",
    "value_dtype: type",
)


def _handle(c: ShapeContext) -> None:
    """Check that input 0 is a handle.

    A handle is a scalar of the second kind, a vector of two strings of the first.
    """
    if c.op.endswith("V2"):
        c.with_rank(0, 0)
    else:
        c.with_value(c.dim(c.with_rank(0, 1), 0), 2)


def _find(c: ShapeContext) -> Shapes:
    _handle(c)
    if not c.op.endswith("V2"):
        c.with_rank_at_most(2, 1)
    return [None]


def _change(c: ShapeContext) -> Shapes:
    _handle(c)
    return []


def _import(c: ShapeContext) -> Shapes:
    _handle(c)
    if c.op.endswith("V2"):
        keys = c.with_rank(1, 1)
        c.merge_dim(c.dim(keys, 0), c.dim(c.inputs[2], 0))
    return []


def _export(c: ShapeContext) -> Shapes:
    _handle(c)
    return [None if c.op.endswith("V2") else (None,), None]


def _size(c: ShapeContext) -> Shapes:
    _handle(c)
    return [()]


def _initialize(c: ShapeContext) -> Shapes:
    _handle(c)
    c.merge(c.with_rank(1, 1), c.inputs[2])
    return []


def _initialize_from_file(c: ShapeContext) -> Shapes:
    _handle(c)
    c.with_rank(1, 0)
    return []


for _op_type in ("AnonymousHashTable", "AnonymousMutableHashTable"):
    register_op(
        _op_type,
        outputs=("table_handle: resource",),
        attrs=("key_dtype: type", "value_dtype: type"),
        stateful=True,
        shape=scalar,
    )
register_op(
    "AnonymousMutableDenseHashTable",
    inputs=("empty_key: key_dtype", "deleted_key: key_dtype"),
    outputs=("table_handle: resource",),
    attrs=(
        "key_dtype: type",
        "value_dtype: type",
        "value_shape: shape = []",
        "initial_num_buckets: int = 131072",
        "max_load_factor: float = 0.8",
    ),
    stateful=True,
    shape=scalar,
)
register_op(
    "AnonymousMutableHashTableOfTensors",
    outputs=("table_handle: resource",),
    attrs=("key_dtype: type", "value_dtype: type", "value_shape: shape = []"),
    stateful=True,
    shape=scalar,
)
for _op_type in ("HashTable", "MutableHashTable"):
    register_op(
        _op_type,
        outputs=("table_handle: Ref(string)",),
        attrs=TABLE,
        stateful=True,
        shape=vector_of_two,
    )
for _op_type in ("HashTableV2", "MutableHashTableV2"):
    register_op(
        _op_type, outputs=("table_handle: resource",), attrs=TABLE, stateful=True, shape=scalar
    )
register_op(
    "InitializeTable",
    inputs=("table_handle: Ref(string)", "keys: Tkey", "values: Tval"),
    attrs=("Tkey: type", "Tval: type"),
    shape=_initialize,
)
register_op(
    "InitializeTableFromTextFile",
    inputs=("table_handle: Ref(string)", "filename: string"),
    attrs=(
        "key_index: int >= -2",
        "value_index: int >= -2",
        "vocab_size: int >= -1 = -1",
        "delimiter: string = '\\t'",
        "offset: int = 0",
    ),
    shape=_initialize_from_file,
)
register_op(
    "InitializeTableFromTextFileV2",
    inputs=("table_handle: resource", "filename: string"),
    attrs=(
        "key_index: int >= -2",
        "value_index: int >= -2",
        "vocab_size: int >= -1 = -1",
        "delimiter: string = '\\t'",
        "offset: int = 0",
    ),
    stateful=True,
    shape=_initialize_from_file,
)
register_op(
    "InitializeTableV2",
    inputs=("table_handle: resource", "keys: Tkey", "values: Tval"),
    attrs=("Tkey: type", "Tval: type"),
    stateful=True,
    shape=_initialize,
)
register_op(
    "LookupTableExport",
    inputs=("table_handle: Ref(string)",),
    outputs=("keys: Tkeys", "values: Tvalues"),
    attrs=("Tkeys: type", "Tvalues: type"),
    shape=_export,
)
register_op(
    "LookupTableExportV2",
    inputs=("table_handle: resource",),
    outputs=("keys: Tkeys", "values: Tvalues"),
    attrs=("Tkeys: type", "Tvalues: type"),
    stateful=True,
    shape=_export,
)
register_op(
    "LookupTableFind",
    inputs=("table_handle: Ref(string)", "keys: Tin", "default_value: Tout"),
    outputs=("values: Tout",),
    attrs=("Tin: type", "Tout: type"),
    shape=_find,
)
register_op(
    "LookupTableFindV2",
    inputs=("table_handle: resource", "keys: Tin", "default_value: Tout"),
    outputs=("values: Tout",),
    attrs=("Tin: type", "Tout: type"),
    stateful=True,
    shape=_find,
)
register_op(
    "LookupTableImport",
    inputs=("table_handle: Ref(string)", "keys: Tin", "values: Tout"),
    attrs=("Tin: type", "Tout: type"),
    shape=_import,
)
register_op(
    "LookupTableImportV2",
    inputs=("table_handle: resource", "keys: Tin", "values: Tout"),
    attrs=("Tin: type", "Tout: type"),
    stateful=True,
    shape=_import,
)
register_op(
    "LookupTableInsert",
    inputs=("table_handle: Ref(string)", "keys: Tin", "values: Tout"),
    attrs=("Tin: type", "Tout: type"),
    shape=_change,
)
register_op(
    "LookupTableInsertV2",
    inputs=("table_handle: resource", "keys: Tin", "values: Tout"),
    attrs=("Tin: type", "Tout: type"),
    stateful=True,
    shape=_change,
)
register_op(
    "LookupTableRemoveV2",
    inputs=("table_handle: resource", "keys: Tin"),
    attrs=("Tin: type",),
    stateful=True,
    shape=_change,
)
register_op(
    "LookupTableSize", inputs=("table_handle: Ref(string)",), outputs=("size: int64",), shape=_size
)
register_op(
    "LookupTableSizeV2",
    inputs=("table_handle: resource",),
    outputs=("size: int64",),
    stateful=True,
    shape=_size,
)
register_op(
    "MutableDenseHashTable",
    inputs=("empty_key: key_dtype",),
    outputs=("table_handle: Ref(string)",),
    attrs=(
        *TABLE,
        "value_shape: shape = []",
        "initial_num_buckets: int = 131072",
        "max_load_factor: float = 0.8",
    ),
    stateful=True,
    shape=vector_of_two,
)
register_op(
    "MutableDenseHashTableV2",
    inputs=("empty_key: key_dtype", "deleted_key: key_dtype"),
    outputs=("table_handle: resource",),
    attrs=(
        *TABLE,
        "value_shape: shape = []",
        "initial_num_buckets: int = 131072",
        "max_load_factor: float = 0.8",
    ),
    stateful=True,
    shape=scalar,
)
register_op(
    "MutableHashTableOfTensors",
    outputs=("table_handle: Ref(string)",),
    attrs=(*TABLE, "value_shape: shape = []"),
    stateful=True,
    shape=vector_of_two,
)
register_op(
    "MutableHashTableOfTensorsV2",
    outputs=("table_handle: resource",),
    attrs=(*TABLE, "value_shape: shape = []"),
    stateful=True,
    shape=scalar,
)
