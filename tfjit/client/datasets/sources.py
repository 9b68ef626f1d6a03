"""Datasets of tensors, of numbers and of other datasets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tfjit.client.datasets.dataset_base import DatasetBase, counted, dataset_of, seeds
from tfjit.client.datasets.elements import (
    as_components,
    flatten,
    map_structure,
    merged,
    reshaped,
    spec_of,
    to_tensors,
)
from tfjit.client.datasets.generator import from_generator
from tfjit.framework.graphs.default_graph import control_dependencies, name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.graphs.static_value import get_static_value
from tfjit.framework.graphs.tensor_spec import TensorSpec
from tfjit.framework.types import dtypes as dt
from tfjit.framework.types.dtypes import as_dtype
from tfjit.framework.types.shape import merge
from tfjit.ops.core.apply import create, tensor
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.client.datasets.dataset import Dataset
    from tfjit.framework.graphs.typing import DTypeLike, Structure, TensorLike

_LARGEST = 2**63 - 1


class Sources(DatasetBase):
    """The static methods that make datasets."""

    @staticmethod
    def from_tensors(tensors: Structure, name: str | None = None) -> Dataset:
        """Return a dataset of one element."""
        with name_scope("normalize_element"):
            values = as_components(tensors)
        return dataset_of("TensorDataset", name, spec_of(values), components=to_tensors(values))

    @staticmethod
    def from_tensor_slices(tensors: Structure, name: str | None = None) -> Dataset:
        """Return a dataset of the slices along the first axis.

        Raises ValueError for scalars and for different sizes of that axis.
        """
        with name_scope("normalize_element"):
            values = as_components(tensors)
        if not flatten(values):
            raise ValueError("Invalid `tensors`. `tensors` should not be empty.")
        specs = spec_of(values)
        first = None
        for spec in flatten(specs):
            if spec.shape.dims_tuple == ():
                raise ValueError("Unbatching a tensor is only supported for rank >= 1")
            if spec.shape.dims_tuple is not None:
                first = merge(first, spec.shape.dims_tuple[:1])
        rest = reshaped(
            specs, lambda dims: None if dims is None else dims[1:], "from_tensor_slices"
        )
        return dataset_of(
            "TensorSliceDataset", name, rest, components=to_tensors(values, rows=True)
        )

    @staticmethod
    def range(
        *args: Structure, output_type: DTypeLike = dt.int64, name: str | None = None
    ) -> Dataset:
        """Return the numbers of `range(*args)`.

        Raises ValueError for no or more than three arguments.
        """
        if not 1 <= len(args) <= 3:
            raise ValueError(
                f"Invalid `args`. The length of `args` should be between 1 and 3 but is {len(args)}"
            )
        start, stop, step = (0, *args, 1) if len(args) == 1 else (*args, 1)[:3]
        return dataset_of(
            "RangeDataset",
            name,
            TensorSpec((), as_dtype(output_type)),
            start=counted(start, "start"),
            stop=counted(stop, "stop"),
            step=counted(step, "step"),
        )

    @staticmethod
    def zip(*args: Structure, datasets: Structure = None, name: str | None = None) -> Dataset:
        """Return a dataset of elements of several datasets side by side.

        It ends with the first that does. Raises TypeError for other values than datasets.
        """
        if not args and datasets is None:
            raise TypeError("Must pass at least one dataset to `zip`.")
        if args and datasets is not None:
            raise TypeError("Both `*args` and `datasets` cannot be set.")
        if len(args) == 1:
            datasets = args[0]
        elif args:
            datasets = args
        for dataset in flatten(datasets):
            if not isinstance(dataset, DatasetBase):
                raise TypeError(
                    f"Invalid `datasets`. `datasets` is expected to be a (nested) structure of "
                    f"`tf.data.Dataset` objects but encountered object of type {type(dataset)}."
                )
        spec = map_structure(lambda dataset: dataset.element_spec, datasets)
        return dataset_of("ZipDataset", name, spec, input_datasets=to_tensors(datasets))

    @staticmethod
    def random(
        seed: TensorLike | None = None,
        rerandomize_each_iteration: bool | None = None,
        name: str | None = None,
    ) -> Dataset:
        """Return an endless dataset of random numbers in [0, 2**32)."""
        if rerandomize_each_iteration:
            raise ValueError("`rerandomize_each_iteration` needs TensorFlow 2's eager execution.")
        first, second = seeds(seed)
        spec = TensorSpec((), dt.int64)
        return dataset_of("RandomDataset", name, spec, seed=first, seed2=second)

    @staticmethod
    def counter(
        start: TensorLike = 0,
        step: TensorLike = 1,
        dtype: DTypeLike = dt.int64,
        name: str | None = None,
    ) -> Dataset:
        """Return an endless dataset of `start`, `start + step` and so on."""
        from tfjit.client.datasets.dataset import Dataset

        zero = convert_to_tensor(0, dtype=dt.int64)
        start, step = counted(start, "start"), counted(step, "step")
        down = tensor("Less", None, x=step, y=zero)
        limit = tensor("SelectV2", None, condition=down, t=counted(-_LARGEST, "low"), e=_LARGEST)
        return Dataset.range(start, limit, step, output_type=dtype, name=name)

    @staticmethod
    def list_files(
        file_pattern: TensorLike,
        shuffle: bool | None = None,
        seed: TensorLike | None = None,
        name: str | None = None,
    ) -> Dataset:
        """Return a dataset of the files' names that match patterns.

        shuffle: False for their sorted order. While running: InvalidArgumentError where none match.
        """
        from tfjit.client.datasets.dataset import Dataset

        with name_scope("list_files"):
            pattern = convert_to_tensor(file_pattern, dtype=dt.string, name="file_pattern")
            found = tensor("MatchingFiles", None, pattern=pattern)
            count = tensor("Size", None, input=found, out_type=dt.int64)
            any_found = tensor("Greater", None, x=count, y=convert_to_tensor(0, dtype=dt.int64))
            check = create(
                "Assert",
                None,
                condition=any_found,
                data=[convert_to_tensor("No files matched pattern: "), pattern],
            )
            with control_dependencies([check]):
                found = tensor("Identity", None, input=found)
            dataset = Dataset.from_tensor_slices(found)
            if shuffle is None or shuffle:
                size = tensor("Maximum", None, x=count, y=convert_to_tensor(1, dtype=dt.int64))
                dataset = dataset.shuffle(size, seed=seed, name=name)
        return dataset

    @staticmethod
    def choose_from_datasets(
        datasets: Sequence[Structure], choice_dataset: Structure, stop_on_empty_dataset: bool = True
    ) -> Dataset:
        """Return elements of several datasets, chosen by a dataset of their numbers.

        stop_on_empty_dataset: end with the first dataset that does, else skip it. Raises TypeError
        unless the choices are int64 scalars, ValueError for no datasets.
        """
        if choice_dataset.element_spec != TensorSpec((), dt.int64):
            raise TypeError(
                "Invalid `choice_dataset`. Elements of `choice_dataset` must be scalar "
                f"`tf.int64` tensors but are {choice_dataset.element_spec}."
            )
        if not datasets:
            raise ValueError("Invalid `datasets`. `datasets` should not be empty.")
        return _interleaved(datasets, choice_dataset, stop_on_empty_dataset)

    @staticmethod
    def sample_from_datasets(
        datasets: Sequence[Structure],
        weights: TensorLike | None = None,
        seed: TensorLike | None = None,
        stop_on_empty_dataset: bool = False,
        rerandomize_each_iteration: bool | None = None,
    ) -> Dataset:
        """Return elements of several datasets, chosen at random.

        weights: a probability for each dataset, or a dataset of such vectors; equal ones by
        default.
        """
        from tfjit.client.datasets.dataset import Dataset

        if not datasets:
            raise ValueError("Invalid `datasets`. `datasets` should not be empty.")
        if len(datasets) == 1:
            return datasets[0]
        drawn = Dataset.random(seed, rerandomize_each_iteration).batch(2)
        if isinstance(weights, DatasetBase):
            both = Dataset.zip(weights, drawn)
        else:
            if weights is None:
                weights = [1 / len(datasets)] * len(datasets)
            chances = convert_to_tensor(weights, name="weights")
            if chances.shape.as_list() != [len(datasets)]:
                raise ValueError(
                    f"Invalid `weights`. The shape of `weights` should be compatible with "
                    f"`[len(datasets)]` but is {chances.shape}."
                )
            known = get_static_value(chances)
            if known is not None and (known > 0).sum() == 1 and not stop_on_empty_dataset:
                return datasets[int(known.argmax())]
            both = drawn.map(lambda seed: (chances, seed))

        def choice(chances: Tensor, seed: Tensor) -> Tensor:
            logits = tensor("Log", None, x=tensor("ExpandDims", None, input=chances, dim=0))
            numbers = tensor(
                "StatelessMultinomial",
                None,
                logits=logits,
                num_samples=1,
                seed=seed,
                output_dtype=dt.int64,
            )
            return tensor("Squeeze", None, input=numbers, squeeze_dims=[0, 1])

        return _interleaved(datasets, both.map(choice), stop_on_empty_dataset)

    from_generator = staticmethod(from_generator)


def _interleaved(datasets: Sequence[Structure], selector: Structure, stops: bool) -> Dataset:
    return dataset_of(
        "DirectedInterleaveDataset",
        None,
        merged([dataset.element_spec for dataset in datasets]),
        selector_input_dataset=selector._variant_tensor,
        data_input_datasets=to_tensors(list(datasets) and tuple(datasets)),
        stop_on_empty_dataset=stops,
    )
