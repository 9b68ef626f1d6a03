"""Names of `tf.data.experimental`: functions for `Dataset.apply`, and others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tfjit.client.data.sparse_specs import SparseTensorSpec
from tfjit.client.datasets.csv_files import CsvDataset, make_csv_dataset
from tfjit.client.datasets.dataset import Dataset
from tfjit.client.datasets.dataset_base import AUTOTUNE, DatasetBase, counted, seeds
from tfjit.client.datasets.elements import DatasetSpec, parameters, reshaped
from tfjit.client.datasets.iterator import Iterator, Optional
from tfjit.client.datasets.options import (
    AutotuneOptions,
    DistributeOptions,
    OptimizationOptions,
    ThreadingOptions,
)
from tfjit.client.datasets.parsed_examples import (
    make_batched_features_dataset,
    parse_example_dataset,
)
from tfjit.client.datasets.traced_function import TracedFunction
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.graphs.static_value import get_static_value
from tfjit.framework.graphs.tensor_spec import TensorSpec
from tfjit.framework.types import dtypes as dt
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import (
        DeviceLike,
        DTypeLike,
        ShapeLike,
        Structure,
        TensorLike,
    )

INFINITE_CARDINALITY = -1
UNKNOWN_CARDINALITY = -2

Transformation = Callable[[Any], Any]


def map_and_batch(
    map_func: Callable[..., Structure],
    batch_size: TensorLike,
    num_parallel_batches: int | None = None,
    drop_remainder: TensorLike = False,
    num_parallel_calls: TensorLike | None = None,
) -> Transformation:
    """Return the transformation that maps, then makes batches, in one node.

    num_parallel_batches: batches that are computed at the same time, or num_parallel_calls,
    elements.

    Raises ValueError where both are given.
    """
    if num_parallel_batches is not None and num_parallel_calls is not None:
        raise ValueError(
            "`map_and_batch` allows only one of `num_parallel_batches` and `num_parallel_calls` "
            "to be set."
        )

    def apply(dataset: DatasetBase) -> Dataset:
        traced = TracedFunction(map_func, parameters(dataset.element_spec), "map_and_batch")
        size = counted(batch_size, "batch_size")
        drops = convert_to_tensor(drop_remainder, dtype=dt.bool, name="drop_remainder")
        calls = num_parallel_calls
        if calls is None:
            calls = size if num_parallel_batches is None else size * num_parallel_batches
        whole, known = get_static_value(drops), get_static_value(size)
        first = int(known) if known is not None and whole is not None and whole else None
        return dataset._then(
            "MapAndBatchDataset",
            None,
            reshaped(traced.spec, lambda dims: None if dims is None else (first, *dims), "batch"),
            other_arguments=traced.captured,
            batch_size=size,
            num_parallel_calls=counted(calls, "num_parallel_calls"),
            drop_remainder=drops,
            f=traced.ref,
            Targuments=traced.captured_types,
            preserve_cardinality=True,
        )

    return apply


def shuffle_and_repeat(
    buffer_size: TensorLike, count: TensorLike | None = None, seed: TensorLike | None = None
) -> Transformation:
    """Return the transformation that shuffles each repetition."""

    def apply(dataset: DatasetBase) -> Dataset:
        first, second = seeds(seed)
        return dataset._then(
            "ShuffleAndRepeatDataset",
            None,
            buffer_size=counted(buffer_size, "buffer_size"),
            seed=first,
            seed2=second,
            count=counted(-1 if count is None else count, "count"),
        )

    return apply


def parallel_interleave(
    map_func: Callable[..., Structure],
    cycle_length: TensorLike,
    block_length: TensorLike = 1,
    sloppy: bool | None = False,
    buffer_output_elements: TensorLike | None = None,
    prefetch_input_elements: TensorLike | None = None,
) -> Transformation:
    """Return the transformation that reads `cycle_length` datasets at the same time.

    sloppy: elements may come in the order in which they are ready. The sizes of buffers are the
    runtime's choice.
    """
    return lambda dataset: dataset.interleave(
        map_func,
        cycle_length,
        block_length,
        num_parallel_calls=cycle_length,
        deterministic=None if sloppy is None else not sloppy,
    )


def enumerate_dataset(start: TensorLike = 0) -> Transformation:
    """Return the transformation to pairs (number, element)."""
    return lambda dataset: dataset.enumerate(start)


def ignore_errors(log_warning: bool = False) -> Transformation:
    """Return the transformation that leaves failing elements out."""
    return lambda dataset: dataset.ignore_errors(log_warning)


def unbatch() -> Transformation:
    """Return the transformation to the slices of all elements."""
    return lambda dataset: dataset.unbatch()


def unique() -> Transformation:
    """Return the transformation that gives each distinct element once."""
    return lambda dataset: dataset.unique()


def take_while(predicate: Callable[..., Structure]) -> Transformation:
    """Return the transformation that ends before an element fails a test."""
    return lambda dataset: dataset.take_while(predicate)


def scan(initial_state: Structure, scan_func: Callable[..., Structure]) -> Transformation:
    """Return the transformation by a function that hands a state on."""
    return lambda dataset: dataset.scan(initial_state, scan_func)


def group_by_window(
    key_func: Callable[..., Structure],
    reduce_func: Callable[..., Structure],
    window_size: TensorLike | None = None,
    window_size_func: Callable[..., Structure] | None = None,
) -> Transformation:
    """Return the transformation of windows of elements with equal keys."""
    return lambda dataset: dataset.group_by_window(
        key_func, reduce_func, window_size, window_size_func
    )


def bucket_by_sequence_length(
    element_length_func: Callable[..., Structure],
    bucket_boundaries: Sequence[int],
    bucket_batch_sizes: Sequence[int],
    padded_shapes: Structure = None,
    padding_values: Structure = None,
    pad_to_bucket_boundary: bool = False,
    no_padding: bool = False,
    drop_remainder: bool = False,
) -> Transformation:
    """Return the transformation to padded batches of elements of similar length."""
    return lambda dataset: dataset.bucket_by_sequence_length(
        element_length_func,
        bucket_boundaries,
        bucket_batch_sizes,
        padded_shapes,
        padding_values,
        pad_to_bucket_boundary,
        no_padding,
        drop_remainder,
    )


def choose_from_datasets(
    datasets: Sequence[Structure], choice_dataset: Structure, stop_on_empty_dataset: bool = False
) -> Dataset:
    """Return elements of several datasets, chosen by a dataset of their numbers."""
    return Dataset.choose_from_datasets(datasets, choice_dataset, stop_on_empty_dataset)


def sample_from_datasets(
    datasets: Sequence[Structure],
    weights: TensorLike | None = None,
    seed: TensorLike | None = None,
    stop_on_empty_dataset: bool = False,
) -> Dataset:
    """Return elements of several datasets, chosen at random."""
    return Dataset.sample_from_datasets(datasets, weights, seed, stop_on_empty_dataset)


def prefetch_to_device(device: DeviceLike, buffer_size: TensorLike | None = None) -> Transformation:
    """Return the transformation that makes elements ahead.

    device: where they are used; the run copies them there.
    """
    return lambda dataset: dataset.prefetch(buffer_size)


def Counter(start: TensorLike = 0, step: TensorLike = 1, dtype: DTypeLike = dt.int64) -> Dataset:
    """Return an endless dataset of `start`, `start + step` and so on."""
    return Dataset.counter(start, step, dtype)


def RandomDataset(
    seed: TensorLike | None = None,
    rerandomize_each_iteration: bool | None = None,
    name: str | None = None,
) -> Dataset:
    """Return an endless dataset of random numbers."""
    return Dataset.random(seed, rerandomize_each_iteration, name)


def from_list(elements: Sequence[Structure], name: str | None = None) -> Dataset:
    """Return a dataset of the elements of a list.

    Raises ValueError for an empty list, TypeError for another value.
    """
    if not isinstance(elements, list):
        raise TypeError(f"Invalid `elements`. It should be a list, got {type(elements)}.")
    if not elements:
        raise ValueError("Invalid `elements`. It should not be empty.")
    from tfjit.client.datasets.elements import as_components, map_structure
    from tfjit.ops.core.apply import tensor

    columns = [as_components(element) for element in elements]
    stacked = map_structure(lambda *values: tensor("Pack", None, values=list(values)), *columns)
    return Dataset.from_tensor_slices(stacked, name)


def cardinality(dataset: Dataset) -> Tensor:
    """Return the number of elements as a scalar int64 tensor."""
    return dataset.cardinality()


def get_single_element(dataset: Dataset) -> Structure:
    """Return a dataset's only element as tensors."""
    return dataset.get_single_element()


def get_next_as_optional(iterator: Iterator) -> Optional:
    """Return an iterator's next element, or none at the end."""
    return iterator.get_next_as_optional()


def get_structure(dataset_or_iterator: Dataset | Iterator) -> Structure:
    """Return the structure of an element, with a TensorSpec for each tensor."""
    return dataset_or_iterator.element_spec


def to_variant(dataset: Dataset) -> Tensor:
    """Return the scalar variant tensor of a dataset."""
    return dataset._variant_tensor


def from_variant(variant: Tensor, structure: Structure) -> Dataset:
    """Return the dataset of a variant tensor. structure: of its elements."""
    return Dataset(variant, structure)


def dense_to_sparse_batch(batch_size: TensorLike, row_shape: TensorLike) -> Transformation:
    """Return a transformation: `Dataset.sparse_batch`."""
    return lambda dataset: dataset.sparse_batch(batch_size, row_shape)


DatasetStructure = DatasetSpec


def TensorStructure(dtype: DTypeLike, shape: ShapeLike) -> TensorSpec:
    """Return a TensorSpec; the former name."""
    return TensorSpec(shape, dtype)


def SparseTensorStructure(dtype: DTypeLike, shape: ShapeLike) -> SparseTensorSpec:
    """Return a SparseTensorSpec; the former name."""
    return SparseTensorSpec(shape, dtype)


__all__ = [
    "AUTOTUNE",
    "INFINITE_CARDINALITY",
    "UNKNOWN_CARDINALITY",
    "AutotuneOptions",
    "Counter",
    "CsvDataset",
    "DatasetStructure",
    "DistributeOptions",
    "OptimizationOptions",
    "Optional",
    "RandomDataset",
    "SparseTensorStructure",
    "TensorStructure",
    "ThreadingOptions",
    "bucket_by_sequence_length",
    "cardinality",
    "choose_from_datasets",
    "dense_to_sparse_batch",
    "enumerate_dataset",
    "from_list",
    "from_variant",
    "get_next_as_optional",
    "get_single_element",
    "get_structure",
    "group_by_window",
    "ignore_errors",
    "make_batched_features_dataset",
    "make_csv_dataset",
    "map_and_batch",
    "parallel_interleave",
    "parse_example_dataset",
    "prefetch_to_device",
    "sample_from_datasets",
    "scan",
    "shuffle_and_repeat",
    "take_while",
    "to_variant",
    "unbatch",
    "unique",
]
