"""Declare datasets and iterators."""

from __future__ import annotations

from typing import Final

from tfjit.framework.op_defs.op_traits import BLOCKING
from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import Shapes
from tfjit.ops.core.type_lists import INDEX
from tfjit.ops.records.csv_defaults import check_defaults

# Elements that a dataset or an iterator gives.
OUTPUT: Final = ("output_types: list(type) >= 1", "output_shapes: list(shape) >= 1")
# Attrs that most datasets end with.
DATASET: Final = (*OUTPUT, "metadata: string = ''")
# Inputs of a dataset of CSV files.
CSV: Final = (
    "filenames: string",
    "compression_type: string",
    "buffer_size: int64",
    "header: bool",
    "field_delim: string",
    "use_quote_delim: bool",
    "na_value: string",
    "select_cols: int64",
    "record_defaults: output_types",
)


def functions(*names: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the inputs and attrs of a dataset with functions."""
    captures = (f"{name}_other_arguments: T{name}_other_arguments" for name in names)
    types = (f"T{name}_other_arguments: list(type) >= 0" for name in names)
    return ("input_dataset: variant", *captures), (*(f"{name}: func" for name in names), *types)


def _csv_rows(c: ShapeContext) -> Shapes:
    first = len(CSV) - 1
    check_defaults(list(c.inputs)[first : first + len(c.attr("output_types"))])
    return [()]


REDUCER: Final = functions("key_func", "init_func", "reduce_func", "finalize_func")
WINDOW: Final = functions("key_func", "reduce_func", "window_size_func")

# Advice for an op of this family without a kernel.
INSTEAD: Final = (
    "Make the data by other datasets, with placeholders or with queues (tf.train.batch)"
)

for _op_type in ("AnonymousIterator", "AnonymousIteratorV3"):
    register_op(_op_type, outputs=("handle: resource",), attrs=OUTPUT, stateful=True)
register_op(
    "AnonymousIteratorV2",
    outputs=("handle: resource", "deleter: variant"),
    attrs=OUTPUT,
    stateful=True,
)
register_op(
    "BatchDataset",
    inputs=("input_dataset: variant", "batch_size: int64"),
    outputs=("handle: variant",),
    attrs=DATASET,
)
register_op(
    "BatchDatasetV2",
    inputs=("input_dataset: variant", "batch_size: int64", "drop_remainder: bool"),
    outputs=("handle: variant",),
    attrs=("parallel_copy: bool = false", *DATASET),
)
register_op(
    "CacheDataset",
    inputs=("input_dataset: variant", "filename: string"),
    outputs=("handle: variant",),
    attrs=DATASET,
)
register_op(
    "CacheDatasetV2",
    inputs=("input_dataset: variant", "filename: string", "cache: resource"),
    outputs=("handle: variant",),
    attrs=DATASET,
    stateful=True,
)
register_op("ComputeBatchSize", inputs=("input_dataset: variant",), outputs=("batch_size: int64",))
register_op(
    "ConcatenateDataset",
    inputs=("input_dataset: variant", "another_dataset: variant"),
    outputs=("handle: variant",),
    attrs=DATASET,
)
register_op(
    "CSVDataset",
    inputs=CSV,
    outputs=("handle: variant",),
    attrs=(
        "output_types: list({float, double, int32, int64, string}) >= 1",
        "output_shapes: list(shape) >= 1",
    ),
    shape=_csv_rows,
    stateful=True,
)
register_op(
    "CSVDatasetV2",
    inputs=(*CSV, "exclude_cols: int64"),
    outputs=("handle: variant",),
    attrs=(
        "output_types: list({float, double, int32, int64, string}) >= 1",
        "output_shapes: list(shape) >= 1",
    ),
    shape=_csv_rows,
    stateful=True,
)
register_op(
    "DatasetCardinality",
    inputs=("input_dataset: variant",),
    outputs=("cardinality: int64",),
    attrs=("cardinality_options: string = ''",),
)
register_op(
    "DatasetFingerprint", inputs=("input_dataset: variant",), outputs=("fingerprint: uint64",)
)
register_op(
    "DatasetToSingleElement",
    inputs=("dataset: variant",),
    outputs=("components: output_types",),
    attrs=DATASET,
    stateful=True,
)
register_op(
    "DatasetToTFRecord",
    inputs=("input_dataset: variant", "filename: string", "compression_type: string"),
    stateful=True,
)
register_op("DeleteIterator", inputs=("handle: resource", "deleter: variant"), stateful=True)
register_op(
    "DenseToSparseBatchDataset",
    inputs=("input_dataset: variant", "batch_size: int64", "row_shape: int64"),
    outputs=("handle: variant",),
    attrs=OUTPUT,
)
register_op(
    "DirectedInterleaveDataset",
    inputs=("selector_input_dataset: variant", "data_input_datasets: N * variant"),
    outputs=("handle: variant",),
    attrs=(*OUTPUT, "N: int >= 1", "stop_on_empty_dataset: bool = false"),
)
register_op(
    "FilterByLastComponentDataset",
    inputs=("input_dataset: variant",),
    outputs=("output: variant",),
    attrs=OUTPUT,
)
for _op_type in ("FilterDataset", "TakeWhileDataset"):
    register_op(
        _op_type,
        inputs=("input_dataset: variant", "other_arguments: Targuments"),
        outputs=("handle: variant",),
        attrs=("predicate: func", "Targuments: list(type) >= 0", *DATASET),
    )
register_op(
    "FixedLengthRecordDataset",
    inputs=(
        "filenames: string",
        "header_bytes: int64",
        "record_bytes: int64",
        "footer_bytes: int64",
        "buffer_size: int64",
    ),
    outputs=("handle: variant",),
    attrs=("metadata: string = ''",),
    stateful=True,
)
register_op(
    "FixedLengthRecordDatasetV2",
    inputs=(
        "filenames: string",
        "header_bytes: int64",
        "record_bytes: int64",
        "footer_bytes: int64",
        "buffer_size: int64",
        "compression_type: string",
    ),
    outputs=("handle: variant",),
    attrs=("metadata: string = ''",),
    stateful=True,
)
register_op(
    "FlatMapDataset",
    inputs=("input_dataset: variant", "other_arguments: Targuments"),
    outputs=("handle: variant",),
    attrs=("f: func", "Targuments: list(type) >= 0", *DATASET),
)
register_op(
    "GeneratorDataset",
    inputs=(
        "init_func_other_args: Tinit_func_args",
        "next_func_other_args: Tnext_func_args",
        "finalize_func_other_args: Tfinalize_func_args",
    ),
    outputs=("handle: variant",),
    attrs=(
        "init_func: func",
        "next_func: func",
        "finalize_func: func",
        "Tinit_func_args: list(type) >= 0",
        "Tnext_func_args: list(type) >= 0",
        "Tfinalize_func_args: list(type) >= 0",
        *DATASET,
    ),
    stateful=True,
)
register_op(
    "GetElementAtIndex",
    inputs=("dataset: variant", "index: int64"),
    outputs=("components: output_types",),
    attrs=OUTPUT,
)
register_op(
    "GroupByReducerDataset",
    inputs=REDUCER[0],
    outputs=("handle: variant",),
    attrs=(*REDUCER[1], *OUTPUT),
    stateful=True,
)
register_op(
    "GroupByWindowDataset",
    inputs=WINDOW[0],
    outputs=("handle: variant",),
    attrs=(*WINDOW[1], *DATASET),
)
register_op(
    "IgnoreErrorsDataset",
    inputs=("input_dataset: variant",),
    outputs=("handle: variant",),
    attrs=(*OUTPUT, "log_warning: bool = false"),
)
register_op(
    "InitializeTableFromDataset",
    inputs=("table_handle: resource", "dataset: variant"),
    stateful=True,
)
register_op(
    "InterleaveDataset",
    inputs=(
        "input_dataset: variant",
        "other_arguments: Targuments",
        "cycle_length: int64",
        "block_length: int64",
    ),
    outputs=("handle: variant",),
    attrs=("f: func", "Targuments: list(type) >= 0", *DATASET),
)
for _op_type in ("Iterator", "IteratorV2"):
    register_op(
        _op_type,
        outputs=("handle: resource",),
        attrs=("shared_name: string", "container: string", *OUTPUT),
        stateful=True,
    )
for _op_type in ("IteratorFromStringHandle", "IteratorFromStringHandleV2"):
    register_op(
        _op_type,
        inputs=("string_handle: string",),
        outputs=("resource_handle: resource",),
        attrs=("output_types: list(type) >= 0 = []", "output_shapes: list(shape) >= 0 = []"),
        stateful=True,
    )
register_op(
    "IteratorGetDevice", inputs=("resource: resource",), outputs=("device: string",), stateful=True
)
for _op_type in ("IteratorGetNext", "IteratorGetNextSync"):
    register_op(
        _op_type,
        inputs=("iterator: resource",),
        outputs=("components: output_types",),
        attrs=OUTPUT,
        stateful=True,
        traits=BLOCKING,
    )
register_op(
    "IteratorGetNextAsOptional",
    inputs=("iterator: resource",),
    outputs=("optional: variant",),
    attrs=OUTPUT,
    stateful=True,
    traits=BLOCKING,
)
register_op(
    "IteratorToStringHandle",
    inputs=("resource_handle: resource",),
    outputs=("string_handle: string",),
    stateful=True,
)
register_op(
    "LoadDataset",
    inputs=("path: string", "reader_func_other_args: Treader_func_args"),
    outputs=("handle: variant",),
    attrs=(
        *OUTPUT,
        "compression: string = ''",
        "reader_func: func",
        "Treader_func_args: list(type) >= 0",
    ),
    stateful=True,
)
register_op("MakeIterator", inputs=("dataset: variant", "iterator: resource"), stateful=True)
register_op(
    "MapAndBatchDataset",
    inputs=(
        "input_dataset: variant",
        "other_arguments: Targuments",
        "batch_size: int64",
        "num_parallel_calls: int64",
        "drop_remainder: bool",
    ),
    outputs=("handle: variant",),
    attrs=(
        "f: func",
        "Targuments: list(type) >= 0",
        *OUTPUT,
        "preserve_cardinality: bool = false",
        "metadata: string = ''",
    ),
)
register_op(
    "MapDataset",
    inputs=("input_dataset: variant", "other_arguments: Targuments"),
    outputs=("handle: variant",),
    attrs=(
        "f: func",
        "Targuments: list(type) >= 0",
        *OUTPUT,
        "use_inter_op_parallelism: bool = true",
        "preserve_cardinality: bool = false",
        "force_synchronous: bool = false",
        "metadata: string = ''",
    ),
)
register_op(
    "MatchingFilesDataset",
    inputs=("patterns: string",),
    outputs=("handle: variant",),
    stateful=True,
)
register_op(
    "OneShotIterator",
    outputs=("handle: resource",),
    attrs=("dataset_factory: func", *OUTPUT, "container: string = ''", "shared_name: string = ''"),
    stateful=True,
)
register_op(
    "PaddedBatchDataset",
    inputs=(
        "input_dataset: variant",
        "batch_size: int64",
        "padded_shapes: N * int64",
        "padding_values: Toutput_types",
    ),
    outputs=("handle: variant",),
    attrs=(
        "Toutput_types: list(type) >= 1",
        "output_shapes: list(shape) >= 1",
        "N: int >= 1",
        "metadata: string = ''",
    ),
)
register_op(
    "PaddedBatchDatasetV2",
    inputs=(
        "input_dataset: variant",
        "batch_size: int64",
        "padded_shapes: N * int64",
        "padding_values: Toutput_types",
        "drop_remainder: bool",
    ),
    outputs=("handle: variant",),
    attrs=(
        "parallel_copy: bool = false",
        "Toutput_types: list(type) >= 1",
        "output_shapes: list(shape) >= 1",
        "N: int >= 1",
        "metadata: string = ''",
    ),
)
register_op(
    "ParallelFilterDataset",
    inputs=("input_dataset: variant", "other_arguments: Targuments", "num_parallel_calls: int64"),
    outputs=("handle: variant",),
    attrs=(
        "predicate: func",
        "deterministic: string = 'default'",
        "Targuments: list(type) >= 0",
        *DATASET,
    ),
)
register_op(
    "ParallelInterleaveDataset",
    inputs=(
        "input_dataset: variant",
        "other_arguments: Targuments",
        "cycle_length: int64",
        "block_length: int64",
        "sloppy: bool",
        "buffer_output_elements: int64",
        "prefetch_input_elements: int64",
    ),
    outputs=("handle: variant",),
    attrs=("f: func", "Targuments: list(type) >= 0", *DATASET),
)
register_op(
    "ParallelInterleaveDatasetV2",
    inputs=(
        "input_dataset: variant",
        "other_arguments: Targuments",
        "cycle_length: int64",
        "block_length: int64",
        "num_parallel_calls: int64",
    ),
    outputs=("handle: variant",),
    attrs=(
        "f: func",
        "Targuments: list(type) >= 0",
        *OUTPUT,
        "sloppy: bool = false",
        "metadata: string = ''",
    ),
)
register_op(
    "ParallelInterleaveDatasetV3",
    inputs=(
        "input_dataset: variant",
        "other_arguments: Targuments",
        "cycle_length: int64",
        "block_length: int64",
        "num_parallel_calls: int64",
    ),
    outputs=("handle: variant",),
    attrs=("f: func", "deterministic: string = 'default'", "Targuments: list(type) >= 0", *DATASET),
)
register_op(
    "ParallelInterleaveDatasetV4",
    inputs=(
        "input_dataset: variant",
        "other_arguments: Targuments",
        "cycle_length: int64",
        "block_length: int64",
        "buffer_output_elements: int64",
        "prefetch_input_elements: int64",
        "num_parallel_calls: int64",
    ),
    outputs=("handle: variant",),
    attrs=("f: func", "deterministic: string = 'default'", "Targuments: list(type) >= 0", *DATASET),
)
register_op(
    "ParallelMapDataset",
    inputs=("input_dataset: variant", "other_arguments: Targuments", "num_parallel_calls: int32"),
    outputs=("handle: variant",),
    attrs=(
        "f: func",
        "Targuments: list(type) >= 0",
        *OUTPUT,
        "use_inter_op_parallelism: bool = true",
        "sloppy: bool = false",
        "preserve_cardinality: bool = false",
        "metadata: string = ''",
    ),
)
register_op(
    "ParallelMapDatasetV2",
    inputs=("input_dataset: variant", "other_arguments: Targuments", "num_parallel_calls: int64"),
    outputs=("handle: variant",),
    attrs=(
        "f: func",
        "Targuments: list(type) >= 0",
        *OUTPUT,
        "use_inter_op_parallelism: bool = true",
        "deterministic: string = 'default'",
        "preserve_cardinality: bool = false",
        "use_unbounded_threadpool: bool = false",
        "metadata: string = ''",
    ),
)
register_op(
    "ParseExampleDataset",
    inputs=("input_dataset: variant", "num_parallel_calls: int64", "dense_defaults: Tdense"),
    outputs=("handle: variant",),
    attrs=(
        "sparse_keys: list(string) >= 0",
        "dense_keys: list(string) >= 0",
        "sparse_types: list({float, int64, string}) >= 0",
        "Tdense: list({float, int64, string}) >= 0",
        "dense_shapes: list(shape) >= 0",
        *OUTPUT,
        "sloppy: bool = false",
        "ragged_keys: list(string) >= 0 = []",
        "ragged_value_types: list({float, int64, string}) >= 0 = []",
        f"ragged_split_types: list({INDEX}) >= 0 = []",
    ),
)
register_op(
    "ParseExampleDatasetV2",
    inputs=("input_dataset: variant", "num_parallel_calls: int64", "dense_defaults: Tdense"),
    outputs=("handle: variant",),
    attrs=(
        "sparse_keys: list(string) >= 0",
        "dense_keys: list(string) >= 0",
        "sparse_types: list({float, int64, string}) >= 0",
        "Tdense: list({float, int64, string}) >= 0",
        "dense_shapes: list(shape) >= 0",
        *OUTPUT,
        "deterministic: string = 'default'",
        "ragged_keys: list(string) >= 0 = []",
        "ragged_value_types: list({float, int64, string}) >= 0 = []",
        f"ragged_split_types: list({INDEX}) >= 0 = []",
    ),
)
register_op(
    "PrefetchDataset",
    inputs=("input_dataset: variant", "buffer_size: int64"),
    outputs=("handle: variant",),
    attrs=(
        *OUTPUT,
        "slack_period: int = 0",
        "legacy_autotune: bool = true",
        "buffer_size_min: int = 0",
        "metadata: string = ''",
    ),
)
register_op(
    "RandomDataset",
    inputs=("seed: int64", "seed2: int64"),
    outputs=("handle: variant",),
    attrs=DATASET,
    stateful=True,
)
register_op(
    "RandomDatasetV2",
    inputs=("seed: int64", "seed2: int64", "seed_generator: resource"),
    outputs=("handle: variant",),
    attrs=("rerandomize_each_iteration: bool = false", *DATASET),
    stateful=True,
)
register_op(
    "RangeDataset",
    inputs=("start: int64", "stop: int64", "step: int64"),
    outputs=("handle: variant",),
    attrs=(*DATASET, "replicate_on_split: bool = false"),
    stateful=True,
)
register_op(
    "ReduceDataset",
    inputs=("input_dataset: variant", "initial_state: Tstate", "other_arguments: Targuments"),
    outputs=("components: output_types",),
    attrs=(
        "f: func",
        "Tstate: list(type) >= 1",
        "Targuments: list(type) >= 0",
        *OUTPUT,
        "use_inter_op_parallelism: bool = true",
        "metadata: string = ''",
    ),
    stateful=True,
)
for _op_type in ("RepeatDataset", "SkipDataset", "TakeDataset"):
    register_op(
        _op_type,
        inputs=("input_dataset: variant", "count: int64"),
        outputs=("handle: variant",),
        attrs=DATASET,
    )
register_op(
    "SamplingDataset",
    inputs=("input_dataset: variant", "rate: float", "seed: int64", "seed2: int64"),
    outputs=("handle: variant",),
    attrs=OUTPUT,
)
register_op(
    "SaveDataset",
    inputs=("input_dataset: variant", "path: string", "shard_func_other_args: Tshard_func_args"),
    attrs=(
        "compression: string = ''",
        "shard_func: func",
        "use_shard_func: bool = true",
        "Tshard_func_args: list(type) >= 0",
    ),
    stateful=True,
)
register_op(
    "SaveDatasetV2",
    inputs=("input_dataset: variant", "path: string", "shard_func_other_args: Tshard_func_args"),
    outputs=("handle: variant",),
    attrs=(
        "compression: string = ''",
        "shard_func: func",
        "use_shard_func: bool = true",
        "Tshard_func_args: list(type) >= 0",
        *OUTPUT,
    ),
    stateful=True,
)
register_op(
    "ScanDataset",
    inputs=("input_dataset: variant", "initial_state: Tstate", "other_arguments: Targuments"),
    outputs=("handle: variant",),
    attrs=(
        "f: func",
        "Tstate: list(type) >= 1",
        "Targuments: list(type) >= 0",
        *OUTPUT,
        "preserve_cardinality: bool = false",
        "use_default_device: bool = true",
        "metadata: string = ''",
    ),
)
register_op(
    "ShardDataset",
    inputs=("input_dataset: variant", "num_shards: int64", "index: int64"),
    outputs=("handle: variant",),
    attrs=("require_non_empty: bool = false", *DATASET),
)
register_op(
    "ShuffleAndRepeatDataset",
    inputs=(
        "input_dataset: variant",
        "buffer_size: int64",
        "seed: int64",
        "seed2: int64",
        "count: int64",
    ),
    outputs=("handle: variant",),
    attrs=(*OUTPUT, "reshuffle_each_iteration: bool = true", "metadata: string = ''"),
)
register_op(
    "ShuffleAndRepeatDatasetV2",
    inputs=(
        "input_dataset: variant",
        "buffer_size: int64",
        "seed: int64",
        "seed2: int64",
        "count: int64",
        "seed_generator: resource",
    ),
    outputs=("handle: variant",),
    attrs=("reshuffle_each_iteration: bool = true", *DATASET),
    stateful=True,
)
register_op(
    "ShuffleDataset",
    inputs=("input_dataset: variant", "buffer_size: int64", "seed: int64", "seed2: int64"),
    outputs=("handle: variant",),
    attrs=("reshuffle_each_iteration: bool = true", *DATASET),
)
register_op(
    "ShuffleDatasetV2",
    inputs=("input_dataset: variant", "buffer_size: int64", "seed_generator: resource"),
    outputs=("handle: variant",),
    attrs=DATASET,
    stateful=True,
)
register_op(
    "ShuffleDatasetV3",
    inputs=(
        "input_dataset: variant",
        "buffer_size: int64",
        "seed: int64",
        "seed2: int64",
        "seed_generator: resource",
    ),
    outputs=("handle: variant",),
    attrs=("reshuffle_each_iteration: bool = true", *DATASET),
    stateful=True,
)
register_op(
    "SlidingWindowDataset",
    inputs=(
        "input_dataset: variant",
        "window_size: int64",
        "window_shift: int64",
        "window_stride: int64",
    ),
    outputs=("handle: variant",),
    attrs=("drop_remainder: bool = true", *OUTPUT),
)
register_op(
    "SparseTensorSliceDataset",
    inputs=("indices: int64", "values: Tvalues", "dense_shape: int64"),
    outputs=("handle: variant",),
    attrs=("Tvalues: type",),
    stateful=True,
)
register_op(
    "TensorDataset",
    inputs=("components: Toutput_types",),
    outputs=("handle: variant",),
    attrs=(
        "Toutput_types: list(type) >= 1",
        "output_shapes: list(shape) >= 1",
        "metadata: string = ''",
    ),
    stateful=True,
)
register_op(
    "TensorSliceDataset",
    inputs=("components: Toutput_types",),
    outputs=("handle: variant",),
    attrs=(
        "Toutput_types: list(type) >= 1",
        "output_shapes: list(shape) >= 1",
        "is_files: bool = false",
        "metadata: string = ''",
        "replicate_on_split: bool = false",
    ),
    stateful=True,
)
for _op_type in ("TextLineDataset", "TFRecordDataset"):
    register_op(
        _op_type,
        inputs=("filenames: string", "compression_type: string", "buffer_size: int64"),
        outputs=("handle: variant",),
        attrs=("metadata: string = ''",),
        stateful=True,
    )
register_op(
    "UncompressElement",
    inputs=("compressed: variant",),
    outputs=("components: output_types",),
    attrs=OUTPUT,
)
register_op(
    "UniqueDataset", inputs=("input_dataset: variant",), outputs=("handle: variant",), attrs=DATASET
)
register_op(
    "WindowDataset",
    inputs=(
        "input_dataset: variant",
        "size: int64",
        "shift: int64",
        "stride: int64",
        "drop_remainder: bool",
    ),
    outputs=("handle: variant",),
    attrs=DATASET,
)
register_op(
    "ZipDataset",
    inputs=("input_datasets: N * variant",),
    outputs=("handle: variant",),
    attrs=(*OUTPUT, "N: int >= 1", "metadata: string = ''"),
)
