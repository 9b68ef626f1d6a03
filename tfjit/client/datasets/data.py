"""Names of `tf.data`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.client.datasets import experimental
from tfjit.client.datasets.dataset import Dataset
from tfjit.client.datasets.dataset_base import AUTOTUNE
from tfjit.client.datasets.elements import DatasetSpec
from tfjit.client.datasets.files import FixedLengthRecordDataset, TextLineDataset, TFRecordDataset
from tfjit.client.datasets.iterator import (
    Iterator,
    make_initializable_iterator,
    make_one_shot_iterator,
)
from tfjit.client.datasets.options import Options, ThreadingOptions

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Structure

INFINITE_CARDINALITY = -1
UNKNOWN_CARDINALITY = -2


def get_output_types(dataset_or_iterator: Dataset | Iterator) -> Structure:
    """Return the dtypes of an element."""
    return dataset_or_iterator.output_types


def get_output_shapes(dataset_or_iterator: Dataset | Iterator) -> Structure:
    """Return the shapes of an element."""
    return dataset_or_iterator.output_shapes


def get_output_classes(dataset_or_iterator: Dataset | Iterator) -> Structure:
    """Return the classes of an element's values."""
    return dataset_or_iterator.output_classes


__all__ = [
    "AUTOTUNE",
    "INFINITE_CARDINALITY",
    "UNKNOWN_CARDINALITY",
    "Dataset",
    "DatasetSpec",
    "FixedLengthRecordDataset",
    "Iterator",
    "Options",
    "TFRecordDataset",
    "TextLineDataset",
    "ThreadingOptions",
    "experimental",
    "get_output_classes",
    "get_output_shapes",
    "get_output_types",
    "make_initializable_iterator",
    "make_one_shot_iterator",
]
