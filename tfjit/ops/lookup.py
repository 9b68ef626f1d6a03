"""Lookup tables."""

from __future__ import annotations

from tfjit.ops.declare import register_op

register_op("AnonymousHashTable", outputs=("table_handle: resource",), attrs=("key_dtype: type", "value_dtype: type"), stateful=True)
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
)
register_op("AnonymousMutableHashTable", outputs=("table_handle: resource",), attrs=("key_dtype: type", "value_dtype: type"), stateful=True)
register_op(
    "AnonymousMutableHashTableOfTensors",
    outputs=("table_handle: resource",),
    attrs=("key_dtype: type", "value_dtype: type", "value_shape: shape = []"),
    stateful=True,
)
register_op(
    "HashTable",
    outputs=("table_handle: Ref(string)",),
    attrs=(
        "container: string = ''",
        "shared_name: string = ''",
        "use_node_name_sharing: bool = false",
        "key_dtype: type",
        "value_dtype: type",
    ),
    stateful=True,
)
register_op(
    "HashTableV2",
    outputs=("table_handle: resource",),
    attrs=(
        "container: string = ''",
        "shared_name: string = ''",
        "use_node_name_sharing: bool = false",
        "key_dtype: type",
        "value_dtype: type",
    ),
    stateful=True,
)
register_op("InitializeTable", inputs=("table_handle: Ref(string)", "keys: Tkey", "values: Tval"), attrs=("Tkey: type", "Tval: type"))
register_op(
    "InitializeTableFromTextFile",
    inputs=("table_handle: Ref(string)", "filename: string"),
    attrs=("key_index: int >= -2", "value_index: int >= -2", "vocab_size: int >= -1 = -1", "delimiter: string = '\\t'", "offset: int = 0"),
)
register_op(
    "InitializeTableFromTextFileV2",
    inputs=("table_handle: resource", "filename: string"),
    attrs=("key_index: int >= -2", "value_index: int >= -2", "vocab_size: int >= -1 = -1", "delimiter: string = '\\t'", "offset: int = 0"),
    stateful=True,
)
register_op(
    "InitializeTableV2", inputs=("table_handle: resource", "keys: Tkey", "values: Tval"), attrs=("Tkey: type", "Tval: type"), stateful=True
)
register_op(
    "LookupTableExport",
    inputs=("table_handle: Ref(string)",),
    outputs=("keys: Tkeys", "values: Tvalues"),
    attrs=("Tkeys: type", "Tvalues: type"),
)
register_op(
    "LookupTableExportV2",
    inputs=("table_handle: resource",),
    outputs=("keys: Tkeys", "values: Tvalues"),
    attrs=("Tkeys: type", "Tvalues: type"),
    stateful=True,
)
register_op(
    "LookupTableFind",
    inputs=("table_handle: Ref(string)", "keys: Tin", "default_value: Tout"),
    outputs=("values: Tout",),
    attrs=("Tin: type", "Tout: type"),
)
register_op(
    "LookupTableFindV2",
    inputs=("table_handle: resource", "keys: Tin", "default_value: Tout"),
    outputs=("values: Tout",),
    attrs=("Tin: type", "Tout: type"),
    stateful=True,
)
register_op("LookupTableImport", inputs=("table_handle: Ref(string)", "keys: Tin", "values: Tout"), attrs=("Tin: type", "Tout: type"))
register_op(
    "LookupTableImportV2", inputs=("table_handle: resource", "keys: Tin", "values: Tout"), attrs=("Tin: type", "Tout: type"), stateful=True
)
register_op("LookupTableInsert", inputs=("table_handle: Ref(string)", "keys: Tin", "values: Tout"), attrs=("Tin: type", "Tout: type"))
register_op(
    "LookupTableInsertV2", inputs=("table_handle: resource", "keys: Tin", "values: Tout"), attrs=("Tin: type", "Tout: type"), stateful=True
)
register_op("LookupTableRemoveV2", inputs=("table_handle: resource", "keys: Tin"), attrs=("Tin: type",), stateful=True)
register_op("LookupTableSize", inputs=("table_handle: Ref(string)",), outputs=("size: int64",))
register_op("LookupTableSizeV2", inputs=("table_handle: resource",), outputs=("size: int64",), stateful=True)
register_op(
    "MutableDenseHashTable",
    inputs=("empty_key: key_dtype",),
    outputs=("table_handle: Ref(string)",),
    attrs=(
        "container: string = ''",
        "shared_name: string = ''",
        "use_node_name_sharing: bool = false",
        "key_dtype: type",
        "value_dtype: type",
        "value_shape: shape = []",
        "initial_num_buckets: int = 131072",
        "max_load_factor: float = 0.8",
    ),
    stateful=True,
)
register_op(
    "MutableDenseHashTableV2",
    inputs=("empty_key: key_dtype", "deleted_key: key_dtype"),
    outputs=("table_handle: resource",),
    attrs=(
        "container: string = ''",
        "shared_name: string = ''",
        "use_node_name_sharing: bool = false",
        "key_dtype: type",
        "value_dtype: type",
        "value_shape: shape = []",
        "initial_num_buckets: int = 131072",
        "max_load_factor: float = 0.8",
    ),
    stateful=True,
)
register_op(
    "MutableHashTable",
    outputs=("table_handle: Ref(string)",),
    attrs=(
        "container: string = ''",
        "shared_name: string = ''",
        "use_node_name_sharing: bool = false",
        "key_dtype: type",
        "value_dtype: type",
    ),
    stateful=True,
)
register_op(
    "MutableHashTableOfTensors",
    outputs=("table_handle: Ref(string)",),
    attrs=(
        "container: string = ''",
        "shared_name: string = ''",
        "use_node_name_sharing: bool = false",
        "key_dtype: type",
        "value_dtype: type",
        "value_shape: shape = []",
    ),
    stateful=True,
)
register_op(
    "MutableHashTableOfTensorsV2",
    outputs=("table_handle: resource",),
    attrs=(
        "container: string = ''",
        "shared_name: string = ''",
        "use_node_name_sharing: bool = false",
        "key_dtype: type",
        "value_dtype: type",
        "value_shape: shape = []",
    ),
    stateful=True,
)
register_op(
    "MutableHashTableV2",
    outputs=("table_handle: resource",),
    attrs=(
        "container: string = ''",
        "shared_name: string = ''",
        "use_node_name_sharing: bool = false",
        "key_dtype: type",
        "value_dtype: type",
    ),
    stateful=True,
)
