"""Declare seed generators, caches in memory, and datasets that carry options."""

from __future__ import annotations

from typing import Final

from tfjit.ops.core.declare import register_op
from tfjit.ops.records.dataset import DATASET, INSTEAD, OUTPUT, REDUCER, WINDOW

__all__: Final = ["INSTEAD"]

register_op(
    "AnonymousSeedGenerator",
    inputs=("seed: int64", "seed2: int64", "reshuffle: bool"),
    outputs=("handle: resource", "deleter: variant"),
    stateful=True,
)
register_op(
    "AnonymousRandomSeedGenerator",
    inputs=("seed: int64", "seed2: int64"),
    outputs=("handle: resource", "deleter: variant"),
    stateful=True,
)
register_op("AnonymousMemoryCache", outputs=("handle: resource", "deleter: variant"), stateful=True)
for _op_type in ("DummySeedGenerator", "DummyMemoryCache"):
    register_op(_op_type, outputs=("handle: resource",), stateful=True)
for _op_type in ("DeleteSeedGenerator", "DeleteRandomSeedGenerator", "DeleteMemoryCache"):
    register_op(_op_type, inputs=("handle: resource", "deleter: variant"), stateful=True)
register_op(
    "OptionsDataset",
    inputs=("input_dataset: variant",),
    outputs=("handle: variant",),
    attrs=("serialized_options: string", *DATASET),
)
register_op(
    "ModelDataset",
    inputs=("input_dataset: variant",),
    outputs=("handle: variant",),
    attrs=("algorithm: int = 0", "cpu_budget: int = 0", "ram_budget: int = 0", *OUTPUT),
)
register_op(
    "FinalizeDataset",
    inputs=("input_dataset: variant",),
    outputs=("handle: variant",),
    attrs=("has_captured_ref: bool = false", *OUTPUT),
)
register_op(
    "OptimizeDataset",
    inputs=("input_dataset: variant", "optimizations: string"),
    outputs=("handle: variant",),
    attrs=(*OUTPUT, "optimization_configs: list(string) = []"),
)
register_op(
    "OptimizeDatasetV2",
    inputs=(
        "input_dataset: variant",
        "optimizations_enabled: string",
        "optimizations_disabled: string",
        "optimizations_default: string",
    ),
    outputs=("handle: variant",),
    attrs=(*OUTPUT, "optimization_configs: list(string) = []"),
)
for _op_type in ("AssertNextDataset", "AssertPrevDataset"):
    register_op(
        _op_type,
        inputs=("input_dataset: variant", "transformations: string"),
        outputs=("handle: variant",),
        attrs=OUTPUT,
    )
register_op(
    "AssertCardinalityDataset",
    inputs=("input_dataset: variant", "cardinality: int64"),
    outputs=("handle: variant",),
    attrs=OUTPUT,
)
register_op(
    "RewriteDataset",
    inputs=("input_dataset: variant", "rewrite_name: string"),
    outputs=("handle: variant",),
    attrs=OUTPUT,
)
# the same ops before and after TensorFlow moved them out of its experiments
for _before in ("", "Experimental"):
    register_op(
        f"{_before}MaxIntraOpParallelismDataset",
        inputs=("input_dataset: variant", "max_intra_op_parallelism: int64"),
        outputs=("handle: variant",),
        attrs=OUTPUT,
    )
    register_op(
        f"{_before}PrivateThreadPoolDataset",
        inputs=("input_dataset: variant", "num_threads: int64"),
        outputs=("handle: variant",),
        attrs=OUTPUT,
    )
    register_op(
        f"{_before}NonSerializableDataset",
        inputs=("input_dataset: variant",),
        outputs=("handle: variant",),
        attrs=OUTPUT,
    )
    for _kind in ("BytesProducedStatsDataset", "LatencyStatsDataset"):
        register_op(
            f"{_before}{_kind}",
            inputs=("input_dataset: variant", "tag: string"),
            outputs=("handle: variant",),
            attrs=OUTPUT,
        )
for _op_type in ("ExperimentalIgnoreErrorsDataset", "ExperimentalUniqueDataset"):
    register_op(
        _op_type,
        inputs=("input_dataset: variant",),
        outputs=("handle: variant",),
        attrs=(*OUTPUT, "log_warning: bool = false") if "Ignore" in _op_type else OUTPUT,
    )
register_op(
    "ExperimentalUnbatchDataset",
    inputs=("input_dataset: variant",),
    outputs=("handle: variant",),
    attrs=OUTPUT,
)
register_op(
    "ExperimentalAssertNextDataset",
    inputs=("input_dataset: variant", "transformations: string"),
    outputs=("handle: variant",),
    attrs=OUTPUT,
)
register_op(
    "ExperimentalDatasetCardinality",
    inputs=("input_dataset: variant",),
    outputs=("cardinality: int64",),
)
register_op(
    "ExperimentalDatasetToTFRecord",
    inputs=("input_dataset: variant", "filename: string", "compression_type: string"),
    stateful=True,
)
register_op(
    "ExperimentalDirectedInterleaveDataset",
    inputs=("selector_input_dataset: variant", "data_input_datasets: N * variant"),
    outputs=("handle: variant",),
    attrs=(*OUTPUT, "N: int >= 1"),
)
register_op(
    "ExperimentalDenseToSparseBatchDataset",
    inputs=("input_dataset: variant", "batch_size: int64", "row_shape: int64"),
    outputs=("handle: variant",),
    attrs=OUTPUT,
)
register_op(
    "ExperimentalRandomDataset",
    inputs=("seed: int64", "seed2: int64"),
    outputs=("handle: variant",),
    attrs=OUTPUT,
    stateful=True,
)
register_op(
    "ExperimentalMatchingFilesDataset",
    inputs=("patterns: string",),
    outputs=("handle: variant",),
    stateful=True,
)
register_op(
    "ExperimentalIteratorGetDevice",
    inputs=("resource: resource",),
    outputs=("device: string",),
    stateful=True,
)
register_op(
    "ExperimentalSlidingWindowDataset",
    inputs=(
        "input_dataset: variant",
        "window_size: int64",
        "window_shift: int64",
        "window_stride: int64",
    ),
    outputs=("handle: variant",),
    attrs=OUTPUT,
)
register_op(
    "ExperimentalTakeWhileDataset",
    inputs=("input_dataset: variant", "other_arguments: Targuments"),
    outputs=("handle: variant",),
    attrs=("predicate: func", "Targuments: list(type) >= 0", *OUTPUT),
)
register_op(
    "ExperimentalMapDataset",
    inputs=("input_dataset: variant", "other_arguments: Targuments"),
    outputs=("handle: variant",),
    attrs=(
        "f: func",
        "Targuments: list(type) >= 0",
        *OUTPUT,
        "use_inter_op_parallelism: bool = true",
        "preserve_cardinality: bool = false",
        "force_synchronous: bool = false",
    ),
)
register_op(
    "ExperimentalMapAndBatchDataset",
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
    ),
)
register_op(
    "ExperimentalScanDataset",
    inputs=("input_dataset: variant", "initial_state: Tstate", "other_arguments: Targuments"),
    outputs=("handle: variant",),
    attrs=(
        "f: func",
        "Tstate: list(type) >= 1",
        "Targuments: list(type) >= 0",
        *OUTPUT,
        "preserve_cardinality: bool = false",
    ),
)
register_op(
    "ExperimentalParallelInterleaveDataset",
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
    attrs=("f: func", "Targuments: list(type) >= 0", *OUTPUT),
)
register_op(
    "ExperimentalGroupByWindowDataset",
    inputs=WINDOW[0],
    outputs=("handle: variant",),
    attrs=(*WINDOW[1], *OUTPUT),
)
register_op(
    "ExperimentalGroupByReducerDataset",
    inputs=REDUCER[0],
    outputs=("handle: variant",),
    attrs=(*REDUCER[1], *OUTPUT),
    stateful=True,
)
register_op(
    "UnbatchDataset",
    inputs=("input_dataset: variant",),
    outputs=("handle: variant",),
    attrs=DATASET,
)
register_op(
    "ParallelBatchDataset",
    inputs=(
        "input_dataset: variant",
        "batch_size: int64",
        "num_parallel_calls: int64",
        "drop_remainder: bool",
    ),
    outputs=("handle: variant",),
    attrs=(
        "parallel_copy: bool = false",
        *OUTPUT,
        "deterministic: string = 'default'",
        "metadata: string = ''",
    ),
)
register_op(
    "LegacyParallelInterleaveDatasetV2",
    inputs=(
        "input_dataset: variant",
        "other_arguments: Targuments",
        "cycle_length: int64",
        "block_length: int64",
        "buffer_output_elements: int64",
        "prefetch_input_elements: int64",
    ),
    outputs=("handle: variant",),
    attrs=("f: func", "deterministic: string = 'default'", "Targuments: list(type) >= 0", *DATASET),
)
register_op(
    "TFRecordDatasetV2",
    inputs=(
        "filenames: string",
        "compression_type: string",
        "buffer_size: int64",
        "byte_offsets: int64",
    ),
    outputs=("handle: variant",),
    attrs=("metadata: string = ''",),
    stateful=True,
)
