"""Python functions of elements as functions of the graph."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from tfjit.client.datasets.elements import (
    as_components,
    dtypes_of,
    flatten,
    from_tensors,
    most_specific,
    shapes_of,
    spec_of,
    to_tensors,
)
from tfjit.framework.graphs.default_graph import get_default_graph
from tfjit.framework.graphs.function_graph import FunctionGraph, unique_function_name
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.op_defs.attrs import FuncRef
from tfjit.framework.types.dtypes import DType
from tfjit.framework.types.shape import TensorShape
from tfjit.ops.control_flow.bodies import define, trace

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Structure

_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_]")


class TracedFunction:
    """A function of elements, traced once when it is made.

    function: of values with the structures `parameters`. transformation: the method that calls it,
    for names and errors. Raises TypeError for results that are no components.
    """

    def __init__(
        self,
        function: Callable[..., Structure],
        parameters: Sequence[Structure],
        transformation: str,
    ) -> None:
        if not callable(function):
            raise TypeError(f"Dataset.{transformation} needs a function, got {function!r}")
        called = _NOT_IN_NAMES.sub("", getattr(function, "__name__", type(function).__name__))
        self.body = FunctionGraph(
            unique_function_name(f"Dataset_{transformation}_{called}"),
            get_default_graph(),
            automatic_control=True,
        )
        numbers = itertools.count()
        with self.body.as_default():
            arguments = [
                from_tensors(
                    specs,
                    [
                        self.body.add_input(dtype, shape.dims_tuple, f"args_{next(numbers)}")
                        for dtype, shape in zip(dtypes_of(specs), shapes_of(specs), strict=True)
                    ],
                )
                for specs in parameters
            ]
        self.spec: Structure = None

        def results() -> list[Tensor]:
            given = function(*arguments)
            if isinstance(given, list):  # only a whole list of results is one of components
                given = tuple(given)
            try:
                values = as_components(given)
            except (TypeError, ValueError) as error:
                raise TypeError(
                    f"Unsupported return value from function passed to Dataset.{transformation}(): "
                    f"{given!r}. {error}"
                ) from None
            self.spec = spec_of(values)
            return to_tensors(values)

        trace(self.body, results)
        self.ref: FuncRef = define(self.body)

    @property
    def captured(self) -> list[Tensor]:
        """The tensors of outside, which follow the arguments."""
        return [outer for outer, _ in self.body.captures]

    @property
    def captured_types(self) -> list[DType]:
        """Their dtypes."""
        return [tensor.dtype.base_dtype for tensor in self.captured]

    @property
    def types(self) -> list[DType]:
        """The dtypes of the results."""
        return dtypes_of(self.spec)

    @property
    def shapes(self) -> list[TensorShape]:
        """The shapes of the results."""
        return shapes_of(self.spec)

    def check_scalar(self, dtype: DType, transformation: str) -> None:
        """Raise TypeError or ValueError unless the result is a scalar."""
        found = flatten(self.spec)
        fits = len(found) == 1 and found[0].dtype is dtype
        if not fits or not found[0].shape.is_compatible_with(()):
            raise (ValueError if transformation == "filter" else TypeError)(
                f"The function passed to Dataset.{transformation}() must return a scalar "
                f"{dtype.name} tensor, it returns {self.spec}"
            )


def traced_state(
    function: Callable[..., Structure],
    state: Structure,
    others: Sequence[Structure],
    transformation: str,
    parts: int,
) -> tuple[TracedFunction, Structure]:
    """Trace a function of (state, element) until the state's shapes are stable.

    state: its components. others: specs of the further parameters. parts: of the result; the state
    is the first one of several. Returns (the function, the state's specs).

    Raises TypeError where the function gives a state of another structure or dtype.
    """
    specs = spec_of(state)
    while True:
        traced = TracedFunction(function, [specs, *others], transformation)
        found = traced.spec
        if parts > 1:
            if not isinstance(found, tuple) or len(found) != parts:
                raise TypeError(
                    f"The function passed to Dataset.{transformation}() must return a tuple of "
                    f"{parts} values, it returns {found}"
                )
            found = found[0]
        try:
            relaxed = most_specific(specs, found)
        except TypeError as error:
            raise TypeError(
                f"The state of Dataset.{transformation}() was {specs} and the function returns "
                f"{found}. {error}"
            ) from None
        if relaxed == specs:
            return traced, specs
        specs = relaxed


__all__ = ["TracedFunction", "traced_state"]
