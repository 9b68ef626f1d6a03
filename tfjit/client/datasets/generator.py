"""Datasets of Python generators."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from tfjit.client.datasets.dataset_base import dataset_of, scalar
from tfjit.client.datasets.elements import (
    as_components,
    flatten,
    from_legacy,
    map_structure,
    pack,
    to_tensors,
)
from tfjit.client.datasets.traced_function import TracedFunction
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.graphs.tensor_spec import TensorSpec
from tfjit.framework.types import dtypes as dt
from tfjit.ops.control_flow.py_func import py_func

if TYPE_CHECKING:
    from tfjit.client.datasets.dataset import Dataset
    from tfjit.framework.graphs.typing import Structure


class _Generators:
    """The generators that iterators have open, by number. Thread-safe."""

    def __init__(self, start: Callable[..., Structure]) -> None:
        self._start = start
        self._open: dict[int, Iterator[Structure]] = {}
        self._numbers = itertools.count()
        self._lock = threading.Lock()

    def begin(self, *arguments: object) -> np.int64:
        """Start a generator; return its number."""
        made = iter(self._start(*arguments))
        with self._lock:
            number = next(self._numbers)
            self._open[number] = made
        return np.int64(number)

    def next(self, number: np.int64) -> Structure:
        """Return a generator's next element. Raises StopIteration at its end."""
        return next(self._open[int(number)])

    def end(self, number: np.int64) -> np.int64:
        """Forget a generator."""
        with self._lock:
            self._open.pop(int(number), None)
        return np.int64(0)


def from_generator(
    generator: Callable[..., Structure],
    output_types: Structure = None,
    output_shapes: Structure = None,
    args: Structure = None,
    output_signature: Structure = None,
    name: str | None = None,
) -> Dataset:
    """Return a dataset of the elements that a Python function yields.

    generator: called for each iteration with the values of `args`; it returns an iterable.
    output_types, output_shapes: the structure of the elements, or output_signature, its
    TensorSpecs.

    Raises TypeError for a function that cannot be called, and where neither or both descriptions
    are given. While running: InvalidArgumentError for elements of another structure, dtype or
    shape.
    """
    if not callable(generator):
        raise TypeError("`generator` must be a Python callable.")
    if output_signature is None and output_types is None:
        raise TypeError(
            "To specify the output signature you need to provide either the "
            "`output_signature` argument or the `output_types` argument."
        )
    if output_signature is not None and (output_types is not None or output_shapes is not None):
        raise TypeError(
            "The `output_types` and `output_shapes` arguments can not be used together "
            "with the `output_signature` argument."
        )
    if output_signature is None:
        spec = from_legacy(output_types, output_shapes)
    else:
        spec = output_signature
        for leaf in flatten(spec):
            if not isinstance(leaf, TensorSpec):
                raise TypeError(f"`output_signature` must contain TensorSpecs, got {leaf!r}")
        spec = map_structure(lambda leaf: TensorSpec(leaf.shape, leaf.dtype), spec)
    given = () if args is None else tuple(args)
    with_values = to_tensors(as_components(given))
    generators = _Generators(generator)
    leaves = flatten(spec)

    def begin() -> Tensor:
        return scalar(py_func(generators.begin, with_values, dt.int64))

    def following(number: Tensor) -> Structure:
        def element(number: np.int64) -> list[np.ndarray]:
            return _values(spec, leaves, generators.next(number))

        found = py_func(element, [number], [leaf.dtype for leaf in leaves])
        for value, leaf in zip(found, leaves, strict=True):
            value.set_shape(leaf.shape)
        return pack(spec, found)

    def end(number: Tensor) -> Tensor:
        return scalar(py_func(generators.end, [number], dt.int64))

    number = TensorSpec((), dt.int64)
    first = TracedFunction(begin, [], "from_generator")
    then = TracedFunction(following, [number], "from_generator")
    last = TracedFunction(end, [number], "from_generator")
    return dataset_of(
        "GeneratorDataset",
        name,
        spec,
        init_func_other_args=first.captured,
        next_func_other_args=then.captured,
        finalize_func_other_args=last.captured,
        init_func=first.ref,
        next_func=then.ref,
        finalize_func=last.ref,
        Tinit_func_args=first.captured_types,
        Tnext_func_args=then.captured_types,
        Tfinalize_func_args=last.captured_types,
    )


def _values(spec: Structure, leaves: list[TensorSpec], element: Structure) -> list[np.ndarray]:
    """Return the arrays of an element.

    Raises TypeError for one that does not fit.
    """
    try:
        values = _leaf_values(spec, element)
    except (TypeError, KeyError):
        raise TypeError(
            "`generator` yielded an element that did not match the expected structure. The "
            f"expected structure was {map_structure(lambda leaf: leaf.dtype, spec)}, but the "
            f"yielded element was {element}."
        ) from None
    found = []
    for value, leaf in zip(values, leaves, strict=True):
        try:
            array = np.asarray(
                value, None if leaf.dtype is dt.string else leaf.dtype.as_numpy_dtype
            )
        except (TypeError, ValueError):
            raise TypeError(
                "`generator` yielded an element that could not be converted to the expected type. "
                f"The expected type was {leaf.dtype.name}, but the yielded element was {value}."
            ) from None
        if not leaf.shape.is_compatible_with(array.shape):
            raise TypeError(
                f"`generator` yielded an element of shape {array.shape} where an element of shape "
                f"{leaf.shape} was expected."
            )
        found.append(array)
    return found


def _leaf_values(spec: Structure, value: Structure) -> list[Structure]:
    """Return the leaves of a value with the structure of a spec.

    Raises TypeError or KeyError for another structure.
    """
    if isinstance(spec, Mapping):
        if len(value) != len(spec):
            raise TypeError(f"{len(value)} keys for {len(spec)}")
        return [leaf for key in sorted(spec) for leaf in _leaf_values(spec[key], value[key])]
    if isinstance(spec, tuple):
        if not isinstance(value, (tuple, list)) or len(value) != len(spec):
            raise TypeError(f"no {len(spec)} values: {value}")
        parts = zip(spec, value, strict=True)
        return [leaf for inner, part in parts for leaf in _leaf_values(inner, part)]
    return [value]
