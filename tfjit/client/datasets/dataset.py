"""`tf.data.Dataset`: a pipeline of elements, as nodes of the graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.client.datasets.batches import Batches
from tfjit.client.datasets.iterator import (
    Iterator,
    make_initializable_iterator,
    make_one_shot_iterator,
)
from tfjit.client.datasets.mappings import Mappings
from tfjit.client.datasets.options import Options
from tfjit.client.datasets.sequences import Sequences
from tfjit.client.datasets.sources import Sources
from tfjit.framework import errors

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Structure


class Dataset(Sources, Sequences, Batches, Mappings):
    """A pipeline of elements; each transformation returns another dataset.

    An element is a tensor, or tuples, named tuples and dictionaries of tensors. A run makes
    elements when it fetches an iterator's `get_next()`.
    """

    def make_one_shot_iterator(self) -> Iterator:
        """Return an iterator that needs no initializer, as `tf.data.make_one_shot_iterator`."""
        return make_one_shot_iterator(self)

    def make_initializable_iterator(self, shared_name: str | None = None) -> Iterator:
        """Return an iterator with an initializer to run."""
        return make_initializable_iterator(self, shared_name)

    def with_options(self, options: Options, name: str | None = None) -> Dataset:
        """Return the dataset with options. None of them changes a value.

        Raises ValueError for other values than tf.data.Options.
        """
        made = Dataset(self._variant_tensor, self.element_spec)
        made._options = self.options().merge(options)
        return made

    def options(self) -> Options:
        """Return the options of this dataset, and those before it."""
        return self._options or Options()

    def as_numpy_iterator(self) -> Structure:
        """Raise RuntimeError: a graph's dataset has no values outside of runs."""
        raise RuntimeError(
            "`tf.data.Dataset.as_numpy_iterator()` is only supported in eager mode. Fetch "
            "`tf.data.make_one_shot_iterator(dataset).get_next()` until OutOfRangeError."
        )


def _missing(name: str) -> Structure:
    def refused(*arguments: object, **options: object) -> Structure:
        raise errors.UnimplementedError(
            None, None, f"tf.data.Dataset.{name} is not in tfjit's datasets."
        )

    refused.__name__ = name
    refused.__doc__ = "Raise UnimplementedError: the transformation is not there."
    return staticmethod(refused)


for _name in (
    *("fingerprint", "from_sparse_tensor_slices", "load", "ragged_batch", "rebatch"),
    *("rejection_resample", "save", "snapshot"),
):
    setattr(Dataset, _name, _missing(_name))

__all__ = ["Dataset"]
