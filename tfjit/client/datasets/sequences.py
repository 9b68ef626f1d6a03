"""Transformations that keep elements whole: their number and order change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.client.datasets.dataset_base import AUTOTUNE, DatasetBase, counted, scalar, seeds
from tfjit.client.datasets.elements import most_specific
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes as dt
from tfjit.ops.core.apply import create, tensor
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.client.datasets.dataset import Dataset
    from tfjit.framework.graphs.typing import Structure, TensorLike

_LARGEST = 2**63 - 1


class Sequences(DatasetBase):
    """The methods that repeat, leave out, reorder and keep elements."""

    def repeat(self, count: TensorLike | None = None, name: str | None = None) -> Dataset:
        """Return the elements `count` times; without end for None or -1."""
        return self._then(
            "RepeatDataset", name, count=counted(-1 if count is None else count, "count")
        )

    def take(self, count: TensorLike, name: str | None = None) -> Dataset:
        """Return the first `count` elements; all of them for -1."""
        return self._then("TakeDataset", name, count=counted(count, "count"))

    def skip(self, count: TensorLike, name: str | None = None) -> Dataset:
        """Return the elements behind the first `count`; none for -1."""
        return self._then("SkipDataset", name, count=counted(count, "count"))

    def shard(self, num_shards: TensorLike, index: TensorLike, name: str | None = None) -> Dataset:
        """Return every `num_shards`-th element, from number `index` on.

        While running: InvalidArgumentError for an index that is no shard's.
        """
        return self._then(
            "ShardDataset",
            name,
            num_shards=counted(num_shards, "num_shards"),
            index=counted(index, "index"),
        )

    def shuffle(
        self,
        buffer_size: TensorLike,
        seed: TensorLike | None = None,
        reshuffle_each_iteration: bool | None = True,
        name: str | None = None,
    ) -> Dataset:
        """Return the elements in random order.

        buffer_size: the number of elements among which the next one is drawn.
        reshuffle_each_iteration: whether repetitions have other orders.
        """
        first, second = seeds(seed)
        return self._then(
            "ShuffleDataset",
            name,
            buffer_size=counted(buffer_size, "buffer_size"),
            seed=first,
            seed2=second,
            reshuffle_each_iteration=reshuffle_each_iteration is not False,
        )

    def cache(self, filename: TensorLike = "", name: str | None = None) -> Dataset:
        """Return the elements, kept in memory from their first pass on.

        filename: of a file that keeps them, in place of the memory.
        """
        return self._then(
            "CacheDataset", name, filename=convert_to_tensor(filename, dt.string, name="filename")
        )

    def prefetch(self, buffer_size: TensorLike, name: str | None = None) -> Dataset:
        """Return the elements, made ahead by a thread of the runtime.

        buffer_size: the number of elements that wait; tf.data.AUTOTUNE lets the runtime choose.
        """
        size = AUTOTUNE if buffer_size is None else buffer_size
        return self._then("PrefetchDataset", name, buffer_size=counted(size, "buffer_size"))

    def concatenate(self, dataset: Dataset, name: str | None = None) -> Dataset:
        """Return the elements of this dataset, then those of another.

        Raises TypeError for elements of other dtypes or another structure.
        """
        return self._then(
            "ConcatenateDataset",
            name,
            most_specific(self.element_spec, dataset.element_spec),
            another_dataset=dataset._variant_tensor,
        )

    def enumerate(self, start: TensorLike = 0, name: str | None = None) -> Dataset:
        """Return pairs (number, element), numbered from `start` on."""
        from tfjit.client.datasets.dataset import Dataset

        return Dataset.zip((Dataset.range(start, _LARGEST), self), name=name)

    def unique(self, name: str | None = None) -> Dataset:
        """Return each of the distinct scalar elements once, in their order."""
        return self._then("UniqueDataset", name)

    def ignore_errors(self, log_warning: bool = False, name: str | None = None) -> Dataset:
        """Return the elements without those that cannot be computed."""
        return self._then("IgnoreErrorsDataset", name, log_warning=log_warning)

    def cardinality(self) -> Tensor:
        """Return the number of elements as a scalar int64 tensor.

        It is tf.data.INFINITE_CARDINALITY (-1) or tf.data.UNKNOWN_CARDINALITY (-2) where there is
        none.
        """
        return scalar(tensor("DatasetCardinality", None, input_dataset=self._variant_tensor))

    def get_single_element(self, name: str | None = None) -> Structure:
        """Return the only element as tensors.

        While running: InvalidArgumentError for a dataset with none or several.
        """
        from tfjit.client.datasets.elements import dtypes_of, from_tensors, shapes_of

        made = create(
            "DatasetToSingleElement",
            name,
            dataset=self._variant_tensor,
            output_types=dtypes_of(self.element_spec),
            output_shapes=shapes_of(self.element_spec),
        )
        return from_tensors(self.element_spec, made.outputs)


__all__ = ["Sequences"]
