"""Transformations that call functions of elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tfjit.client.datasets.dataset_base import AUTOTUNE, DatasetBase, counted, order
from tfjit.client.datasets.elements import (
    DatasetSpec,
    as_components,
    dtypes_of,
    from_tensors,
    parameters,
    shapes_of,
    to_tensors,
)
from tfjit.client.datasets.traced_function import TracedFunction, traced_state
from tfjit.framework.types import dtypes as dt
from tfjit.ops.core.apply import create

if TYPE_CHECKING:
    from tfjit.client.datasets.dataset import Dataset
    from tfjit.framework.graphs.typing import Structure, TensorLike

_CYCLE = 10  # the default of cycle_length


class Mappings(DatasetBase):
    """The methods that take functions.

    A function is called once, with tensors in the structure of an element: with an argument for
    each part of a tuple, else with one. It builds a function of the graph.
    """

    def map(
        self,
        map_func: Callable[..., Structure],
        num_parallel_calls: TensorLike | None = None,
        deterministic: bool | None = None,
        synchronous: bool | None = None,
        use_unbounded_threadpool: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Return the function's values of all elements.

        num_parallel_calls: elements that are computed at the same time; tf.data.AUTOTUNE lets the
        runtime choose. deterministic: False lets values come in the order in which they are ready.

        Raises TypeError for a function that does not return tensors, ValueError for a synchronous
        map with parallel calls.
        """
        traced = TracedFunction(map_func, parameters(self.element_spec), "map")
        if num_parallel_calls is None:
            return self._then(
                "MapDataset",
                name,
                traced.spec,
                other_arguments=traced.captured,
                f=traced.ref,
                Targuments=traced.captured_types,
                force_synchronous=bool(synchronous),
            )
        if synchronous:
            raise ValueError("`synchronous` is not supported with `num_parallel_calls`.")
        return self._then(
            "ParallelMapDatasetV2",
            name,
            traced.spec,
            other_arguments=traced.captured,
            num_parallel_calls=counted(num_parallel_calls, "num_parallel_calls"),
            f=traced.ref,
            Targuments=traced.captured_types,
            deterministic=order(deterministic),
            use_unbounded_threadpool=use_unbounded_threadpool,
        )

    def filter(self, predicate: Callable[..., Structure], name: str | None = None) -> Dataset:
        """Return the elements for which the function is true.

        Raises ValueError for a function that does not return a scalar bool.
        """
        traced = TracedFunction(predicate, parameters(self.element_spec), "filter")
        traced.check_scalar(dt.bool, "filter")
        return self._then(
            "FilterDataset",
            name,
            other_arguments=traced.captured,
            predicate=traced.ref,
            Targuments=traced.captured_types,
        )

    def take_while(self, predicate: Callable[..., Structure], name: str | None = None) -> Dataset:
        """Return the elements before the first for which the function is false."""
        traced = TracedFunction(predicate, parameters(self.element_spec), "take_while")
        traced.check_scalar(dt.bool, "take_while")
        return self._then(
            "TakeWhileDataset",
            name,
            other_arguments=traced.captured,
            predicate=traced.ref,
            Targuments=traced.captured_types,
        )

    def flat_map(self, map_func: Callable[..., Structure], name: str | None = None) -> Dataset:
        """Return the elements of the datasets that the function makes.

        Raises TypeError for a function that does not return a dataset.
        """
        traced = self._makes_datasets(map_func, "flat_map")
        return self._then(
            "FlatMapDataset",
            name,
            traced.spec.element_spec,
            other_arguments=traced.captured,
            f=traced.ref,
            Targuments=traced.captured_types,
        )

    def interleave(
        self,
        map_func: Callable[..., Structure],
        cycle_length: TensorLike | None = None,
        block_length: TensorLike | None = None,
        num_parallel_calls: TensorLike | None = None,
        deterministic: bool | None = None,
        name: str | None = None,
    ) -> Dataset:
        """Return elements of the datasets that the function makes, in turns.

        cycle_length: the datasets that take turns. block_length: the elements of a turn.
        num_parallel_calls: datasets that are read at the same time. deterministic: False lets
        elements come in the order in which they are ready.

        Raises TypeError for a function that does not return a dataset.
        """
        traced = self._makes_datasets(map_func, "interleave")
        if cycle_length is None:
            cycle_length = _CYCLE if num_parallel_calls is None else AUTOTUNE
        arguments: dict[str, Structure] = {
            "other_arguments": traced.captured,
            "cycle_length": counted(cycle_length, "cycle_length"),
            "block_length": counted(1 if block_length is None else block_length, "block_length"),
            "f": traced.ref,
            "Targuments": traced.captured_types,
        }
        spec = traced.spec.element_spec
        if num_parallel_calls is None:
            return self._then("InterleaveDataset", name, spec, **arguments)
        return self._then(
            "ParallelInterleaveDatasetV4",
            name,
            spec,
            **arguments,
            buffer_output_elements=counted(AUTOTUNE, "buffer_output_elements"),
            prefetch_input_elements=counted(AUTOTUNE, "prefetch_input_elements"),
            num_parallel_calls=counted(num_parallel_calls, "num_parallel_calls"),
            deterministic=order(deterministic),
        )

    def scan(
        self, initial_state: Structure, scan_func: Callable[..., Structure], name: str | None = None
    ) -> Dataset:
        """Return the values of a function that hands a state on.

        scan_func: of (state, element), returns (state, value).

        Raises TypeError for results of another form, and a state of another structure or dtype.
        """
        state = as_components(initial_state)
        traced, _ = traced_state(scan_func, state, [self.element_spec], "scan", 2)
        return self._then(
            "ScanDataset",
            name,
            traced.spec[1],
            initial_state=to_tensors(state),
            other_arguments=traced.captured,
            f=traced.ref,
            Targuments=traced.captured_types,
            preserve_cardinality=True,
        )

    def reduce(
        self,
        initial_state: Structure,
        reduce_func: Callable[..., Structure],
        name: str | None = None,
    ) -> Structure:
        """Return the last state of a function of all elements.

        reduce_func: of (state, element), returns the state. The result has the state's structure.

        Raises TypeError for a state of another structure or dtype.
        """
        state = as_components(initial_state)
        traced, specs = traced_state(reduce_func, state, [self.element_spec], "reduce", 1)
        made = create(
            "ReduceDataset",
            name,
            input_dataset=self._variant_tensor,
            initial_state=to_tensors(state),
            other_arguments=traced.captured,
            f=traced.ref,
            Targuments=traced.captured_types,
            output_types=dtypes_of(specs),
            output_shapes=shapes_of(specs),
        )
        return from_tensors(specs, made.outputs)

    def apply(self, transformation_func: Callable[[Dataset], Structure]) -> Dataset:
        """Return the dataset that a function makes of this one.

        Raises TypeError where the function returns something else.
        """
        made = transformation_func(self)  # type: ignore[arg-type]  # the one class of all mixins
        if not isinstance(made, DatasetBase):
            raise TypeError(
                f"`transformation_func` must return a `tf.data.Dataset` object. Got {type(made)}."
            )
        return made  # type: ignore[return-value]

    def map_with_legacy_function(
        self,
        map_func: Callable[..., Structure],
        num_parallel_calls: TensorLike | None = None,
        deterministic: bool | None = None,
        use_unbounded_threadpool: bool = False,
    ) -> Dataset:
        """Return the function's values of all elements, as `map` does."""
        return self.map(
            map_func,
            num_parallel_calls,
            deterministic,
            use_unbounded_threadpool=use_unbounded_threadpool,
        )

    def filter_with_legacy_function(self, predicate: Callable[..., Structure]) -> Dataset:
        """Return the elements for which the function is true, as `filter` does."""
        return self.filter(predicate)

    def _makes_datasets(
        self, function: Callable[..., Structure], transformation: str
    ) -> TracedFunction:
        traced = TracedFunction(function, parameters(self.element_spec), transformation)
        if not isinstance(traced.spec, DatasetSpec):
            raise TypeError(
                "The `map_func` argument must return a `Dataset` object. Got "
                f"{traced.spec!r} from the function passed to Dataset.{transformation}()."
            )
        return traced


__all__ = ["Mappings"]
