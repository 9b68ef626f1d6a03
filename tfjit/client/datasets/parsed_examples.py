"""Datasets of the features of Example messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from tfjit.client.data.example_parsing import KINDS, with_unknown_rows
from tfjit.client.data.features import FeatureParams, SparseFeature, with_merged
from tfjit.client.data.readers import ReaderBase
from tfjit.client.data.sparse_specs import SparseTensorSpec
from tfjit.client.datasets.dataset import Dataset
from tfjit.client.datasets.dataset_base import AUTOTUNE, order
from tfjit.client.datasets.files import TFRecordDataset
from tfjit.framework.graphs.tensor_spec import TensorSpec
from tfjit.framework.types import dtypes as dt
from tfjit.framework.types.shape import Shape, TensorShape

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Structure, TensorLike

_PARSER_THREADS = 2
_SHUFFLED = 10_000


def parse_example_dataset(
    features: Mapping[str, Structure],
    num_parallel_calls: TensorLike = 1,
    deterministic: bool | None = None,
) -> Callable[[Dataset], Dataset]:
    """Return the transformation from vectors of messages to their features, by key.

    features: as those of `tf.io.parse_example`. Raises ValueError without features; the
    transformation raises TypeError for elements that are no vectors of strings.
    """
    if features is None:
        raise ValueError("Argument `features` is required, but not specified.")

    def parsed(dataset: Dataset) -> Dataset:
        found = _parsed(dataset, features, num_parallel_calls, deterministic)
        if any(isinstance(feature, SparseFeature) for feature in features.values()):
            return found.map(lambda parts: with_merged(features, parts), num_parallel_calls)
        return found

    return parsed


def _parsed(
    dataset: Dataset,
    features: Mapping[str, Structure],
    calls: TensorLike,
    deterministic: bool | None,
) -> Dataset:
    given = dataset.element_spec
    if not isinstance(given, TensorSpec) or not TensorSpec([None], dt.string).is_compatible_with(
        given
    ):
        raise TypeError(
            f"Input dataset should be a dataset of vectors of strings. Instead it is `{given}`."
        )
    params = FeatureParams(with_unknown_rows(features), KINDS)
    batch = given.shape.dims_tuple

    def within(dims: Shape) -> TensorShape:
        return TensorShape(None if batch is None or dims is None else (*batch, *dims))

    spec: dict[str, Structure] = {
        key: SparseTensorSpec(within((None,)), dtype) for key, dtype in params.sparse.items()
    }
    for key, dtype, shape in zip(
        params.dense_keys, params.dense_types, params.dense_shapes, strict=True
    ):
        spec[key] = TensorSpec(within(shape.dims_tuple), dtype)
    return dataset._then(
        "ParseExampleDatasetV2",
        None,
        spec,
        num_parallel_calls=calls,
        dense_defaults=params.default_tensors(),
        Tdense=params.dense_types,
        sparse_keys=list(params.sparse),
        dense_keys=params.dense_keys,
        sparse_types=list(params.sparse.values()),
        dense_shapes=params.dense_shapes,
        deterministic=order(deterministic),
        ragged_keys=[],
        ragged_value_types=[],
        ragged_split_types=[],
    )


def make_batched_features_dataset(
    file_pattern: TensorLike,
    batch_size: TensorLike,
    features: Mapping[str, Structure],
    reader: Callable[..., Dataset] | None = None,
    label_key: str | None = None,
    reader_args: Sequence[Structure] | None = None,
    num_epochs: int | None = None,
    shuffle: bool = True,
    shuffle_buffer_size: TensorLike = _SHUFFLED,
    shuffle_seed: TensorLike | None = None,
    prefetch_buffer_size: TensorLike | None = None,
    reader_num_threads: int | None = None,
    parser_num_threads: TensorLike | None = None,
    sloppy_ordering: bool = False,
    drop_final_batch: bool = False,
) -> Dataset:
    """Return batches of the features of Example messages in files.

    reader: makes a dataset of a file, TFRecordDataset by default; of pairs of strings the second
    one is the message. label_key: the feature that becomes the second part of a pair. num_epochs:
    None repeats for ever. Raises TypeError for a reader that is a ReaderBase, ValueError for a
    label that is no feature.
    """
    if _reads_records(reader):
        raise TypeError(
            "The `reader` argument must return a `Dataset` object. `tf.ReaderBase` subclasses are "
            "not supported. For example, pass `tf.data.TFRecordDataset` instead of "
            "`tf.TFRecordReader`."
        )
    read = TFRecordDataset if reader is None else reader
    files = Dataset.list_files(file_pattern, shuffle=shuffle, seed=shuffle_seed)
    dataset = interleaved_files(
        files, lambda name: read(name, *(reader_args or ())), reader_num_threads, sloppy_ordering
    )
    if dataset.output_types == (dt.string, dt.string):
        dataset = dataset.map(lambda _, value: value)
    dataset = shuffled(dataset, num_epochs, shuffle, shuffle_buffer_size, shuffle_seed)
    dataset = dataset.batch(batch_size, drop_remainder=drop_final_batch or num_epochs is None)
    calls = _PARSER_THREADS if parser_num_threads is None else parser_num_threads
    dataset = dataset.apply(parse_example_dataset(features, num_parallel_calls=calls))
    if label_key:
        if label_key not in features:
            raise ValueError(
                f"The `label_key` provided ({label_key}) must be one of the `features` keys: "
                f"{features.keys()}."
            )
        dataset = dataset.map(lambda parts: (parts, parts.pop(label_key)))
    return dataset.prefetch(AUTOTUNE if prefetch_buffer_size is None else prefetch_buffer_size)


def _reads_records(reader: object) -> bool:
    return isinstance(reader, type) and issubclass(reader, ReaderBase)


def interleaved_files(
    files: Dataset, read: Callable[[Structure], Dataset], count: int | None, sloppy: bool
) -> Dataset:
    """Return the elements of the datasets of files.

    count: of the datasets that are read together, one by default."""
    if count == AUTOTUNE:
        return files.interleave(read, num_parallel_calls=AUTOTUNE, deterministic=not sloppy)
    cycle = 1 if count is None else count
    return files.interleave(read, cycle, 1, num_parallel_calls=cycle, deterministic=not sloppy)


def shuffled(
    dataset: Dataset,
    epochs: int | None,
    shuffle: bool,
    size: TensorLike,
    seed: TensorLike | None,
) -> Dataset:
    """Return the elements several times, in random order if asked.

    epochs: None for ever."""
    if shuffle:
        dataset = dataset.shuffle(size, seed)
    return dataset if epochs == 1 else dataset.repeat(epochs)


__all__ = [
    "make_batched_features_dataset",
    "parse_example_dataset",
    "interleaved_files",
    "shuffled",
]
