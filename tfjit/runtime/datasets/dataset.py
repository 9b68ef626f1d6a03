"""Datasets as immutable variants, and kernels' view of a node."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from tfjit.framework import errors
from tfjit.framework.types import dtypes
from tfjit.runtime.datasets.dataset_function import DatasetFunction
from tfjit.runtime.datasets.element import Element, Value
from tfjit.runtime.datasets.owned_values import owned
from tfjit.runtime.kernel_api.op_kernel import OpContext, RuntimeKernel, kernel_maker

if TYPE_CHECKING:
    from tfjit.framework.types.dtypes import DType
    from tfjit.framework.types.shape import Shape
    from tfjit.passes.ir.dataflow_graph import Node
    from tfjit.runtime.datasets.element_context import ElementContext

Start = Callable[["ElementContext"], "Elements"]
"""A function that begins a pass."""

INFINITE: Final = -1
"""Cardinality of a dataset without end."""
UNKNOWN: Final = -2
"""Cardinality that only iterating tells."""


class Elements(Iterator[Element]):
    """The elements of one pass over a dataset.

    An error of an element does not end them: the next call gives the element behind it. `__next__`
    is called by one thread at a time.
    """

    __slots__ = ("sources",)

    def __init__(self, *sources: Elements) -> None:
        self.sources: tuple[Elements, ...] = sources

    def __next__(self) -> Element:
        raise NotImplementedError

    @property
    def is_ready(self) -> bool:
        """Return whether the next element waits for no thread."""
        return all(source.is_ready for source in self.sources)

    @property
    def has_threads(self) -> bool:
        """Return whether a thread computes elements ahead."""
        return any(source.has_threads for source in self.sources)

    def close(self) -> None:
        """Free threads and files. May be called twice."""
        for source in self.sources:
            source.close()


class Known(Elements):
    """Elements of a Python iterator that raises no errors of elements."""

    __slots__ = ("_next",)

    def __init__(self, elements: Iterator[Value], *sources: Elements) -> None:
        super().__init__(*sources)
        self._next = elements.__next__

    def __next__(self) -> Element:
        return self._next()


class RowsAt(Elements):
    """Rows of arrays at the places that the source gives."""

    __slots__ = ("_table",)

    def __init__(self, table: tuple[np.ndarray, ...], places: Elements) -> None:
        super().__init__(places)
        self._table = table

    def __next__(self) -> Element:
        at: Value = next(self.sources[0])
        return [array[at, ...] for array in self._table]


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """A variant: a dataset.

    kind: its op type, for texts. start: begins a pass. cardinality: number of elements, INFINITE or
    UNKNOWN. may_wait: an element may wait for another step or the user's Python. maps: the elements
    are results of a function, one for each element of another dataset. table, places: of a dataset
    of rows of arrays, the arrays and a pass over the rows' numbers; batches gather rows by these.
    """

    kind: str
    types: tuple[DType, ...]
    shapes: tuple[Shape, ...]
    cardinality: int
    start: Start
    may_wait: bool = False
    maps: bool = False
    table: tuple[np.ndarray, ...] | None = None
    places: Start | None = None

    def __repr__(self) -> str:
        return f"<{self.kind} of {', '.join(dtype.name for dtype in self.types)}>"


class DatasetOp:
    """The inputs, attrs and functions of a node that makes a dataset."""

    def __init__(self, ctx: OpContext, node_inputs: _Arguments, inputs: Element) -> None:
        self.ctx = ctx
        self.attrs = ctx.attrs
        self._arguments = node_inputs
        self._inputs = inputs
        self.may_wait = False

    @property
    def names(self) -> Container[str]:
        """Return the names of the node's inputs."""
        return self._arguments.places

    def values(self, name: str) -> list[Value]:
        """Return owned values of an input that is a list."""
        first, count = self._arguments.places[name]
        return [owned(value) for value in self._inputs[first : first + count]]

    def value(self, name: str) -> Value:
        """Return the value of an input."""
        return self._inputs[self._arguments.places[name][0]]

    def dataset(self, name: str) -> Dataset:
        """Return an input that is a dataset."""
        return self._used(as_dataset(self.value(name)))

    def datasets(self, name: str) -> list[Dataset]:
        """Return an input that is a list of datasets."""
        first, count = self._arguments.places[name]
        return [self._used(as_dataset(value)) for value in self._inputs[first : first + count]]

    def _used(self, dataset: Dataset) -> Dataset:
        self.may_wait |= dataset.may_wait
        return dataset

    def integer(self, name: str) -> int:
        """Return an input that is a scalar."""
        return int(self.scalar(name))

    def boolean(self, name: str) -> bool:
        """Return an input that is a bool."""
        return bool(self.scalar(name))

    def text(self, name: str) -> bytes:
        """Return an input that is a string."""
        return bytes(self.scalar(name))

    def scalar(self, name: str) -> Value:
        """Return an input of one element. Raises InvalidArgumentError for another shape."""
        value = np.asarray(self.value(name))
        if value.ndim:
            raise errors.InvalidArgumentError(None, None, f"{name} must be a scalar")
        return value.item()

    def positive(self, name: str) -> int:
        """Return an input that is a number above zero. Raises InvalidArgumentError."""
        value = self.integer(name)
        if value <= 0:
            raise errors.InvalidArgumentError(None, None, f"{name} must be greater than zero.")
        return value

    def strings(self, name: str) -> list[bytes]:
        """Return an input that is a string or a vector of them."""
        value = np.asarray(self.value(name), object)
        if value.ndim > 1:
            raise errors.InvalidArgumentError(None, None, f"`{name}` must be a scalar or a vector.")
        return list(value.reshape(-1))

    def function(self, name: str, captured: str) -> DatasetFunction:
        """Return the function of an attr.

        captured: the input that has its captures.
        """
        made = DatasetFunction(
            self.ctx.step.host, self._arguments.library, self.attrs[name], self.values(captured)
        )
        self.may_wait |= made.may_wait
        return made

    def made(
        self,
        start: Start,
        cardinality: int,
        types: Sequence[DType] | None = None,
        shapes: Sequence[Shape] | None = None,
        maps: bool = False,
    ) -> Dataset:
        """Return the node's dataset.

        types, shapes: given if the node's attrs do not tell. maps: as in `Dataset`.
        """
        attrs = self.attrs
        if types is None:
            types = attrs["output_types"] if "output_types" in attrs else attrs["Toutput_types"]
        if shapes is None:
            shapes = [shape.dims_tuple for shape in attrs["output_shapes"]]
        return Dataset(
            self.ctx.op, tuple(types), tuple(shapes), cardinality, start, self.may_wait, maps
        )

    def of_table(self, table: tuple[np.ndarray, ...], places: Start, cardinality: int) -> Dataset:
        """Return the node's dataset of rows of arrays.

        table: the arrays. places: begins a pass over numbers of rows.
        """
        made = self.made(lambda run: RowsAt(table, places(run)), cardinality)
        return replace(made, table=table, places=places)

    def rearranged(
        self,
        source: Dataset,
        start: Callable[[Start, ElementContext], Elements],
        cardinality: int,
    ) -> Dataset:
        """Return the node's dataset of unchanged elements of another.

        start: begins a pass over elements; its first argument begins those of the source.
        """
        places = source.places
        if source.table is None or places is None:
            return self.made(lambda run: start(source.start, run), cardinality)
        return self.of_table(source.table, lambda run: start(places, run), cardinality)

    def strings_made(self, start: Callable[[ElementContext], Elements]) -> Dataset:
        """Return a dataset of string scalars, of unknown number."""
        return self.made(start, UNKNOWN, (dtypes.string,), ((),))


class _Arguments:
    """The places of a node's inputs, by the name of its argument."""

    def __init__(self, node: Node) -> None:
        self.library = node._graph.functions
        self.places: dict[str, tuple[int, int]] = {}
        assert node.op_def is not None
        at = 0
        for argument in node.op_def.inputs:
            count = 1
            if argument.number_attr:
                count = int(node.attrs[argument.number_attr])
            elif argument.type_list_attr:
                count = len(node.attrs[argument.type_list_attr])
            self.places[argument.name] = (at, count)
            at += count


def dataset_kernel(*op_types: str) -> Callable[[Callable[[DatasetOp], Value]], Value]:
    """Register a function from a `DatasetOp` to the dataset as a kernel."""

    def register(make: Callable[[DatasetOp], Value]) -> Callable[[DatasetOp], Value]:
        _register(op_types, make, lambda op: (make(op),), expensive=False)
        return make

    return register


def result_kernel(*op_types: str) -> Callable[[Callable[[DatasetOp], Value]], Value]:
    """Register a function from a `DatasetOp` to outputs, which may take long."""

    def register(
        compute: Callable[[DatasetOp], Element],
    ) -> Callable[[DatasetOp], Element]:
        _register(op_types, compute, compute, expensive=True)
        return compute

    return register


def _register(
    op_types: Sequence[str],
    function: Callable[[DatasetOp], Value],
    compute: Callable[[DatasetOp], Element],
    expensive: bool,
) -> None:
    @kernel_maker(*op_types)
    def make_kernel(node: Node) -> RuntimeKernel:
        arguments = _Arguments(node)

        def kernel(ctx: OpContext, inputs: Element) -> Element:
            return compute(DatasetOp(ctx, arguments, inputs))

        return RuntimeKernel(kernel, expensive=expensive)

    make_kernel.__wrapped__ = function  # type: ignore[attr-defined]


def as_dataset(value: Value) -> Dataset:
    """Return a variant's dataset. Raises InvalidArgumentError for another variant."""
    if isinstance(value, np.ndarray) and value.dtype == object and value.ndim == 0:
        value = value.item()
    if not isinstance(value, Dataset):
        raise errors.InvalidArgumentError(
            None, None, "The given variant tensor does not contain a Dataset object."
        )
    return value


__all__ = [
    "INFINITE",
    "UNKNOWN",
    "Dataset",
    "DatasetOp",
    "Elements",
    "Known",
    "RowsAt",
    "Start",
    "as_dataset",
    "dataset_kernel",
    "result_kernel",
]
