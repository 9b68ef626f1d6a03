"""Iterators: the positions of runs in datasets."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from tfjit.client.datasets.elements import (
    Elements,
    dtypes_of,
    flatten,
    from_legacy,
    from_tensors,
    map_structure,
    merged,
    shapes_of,
)
from tfjit.framework.graphs.default_graph import get_default_graph
from tfjit.framework.graphs.function_graph import FunctionGraph, unique_function_name
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.types import dtypes as dt
from tfjit.ops.control_flow.bodies import define
from tfjit.ops.core.apply import create, tensor
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.client.datasets.dataset import Dataset
    from tfjit.framework.graphs.typing import Structure, TensorLike

_MANY_CALLS = 32
_CALLED_OFTEN = (
    "An unusually high number of `Iterator.get_next()` calls was detected. This often indicates "
    "that `Iterator.get_next()` is being called inside a training loop, which will cause gradual "
    "slowdown and eventual resource exhaustion. Call it once, outside of the loop, and fetch its "
    "result."
)


class Iterator(Elements):
    """A position in a dataset, kept by the session.

    iterator_resource: its handle. initializer: the operation that puts it before the first element,
    or None.
    """

    def __init__(
        self,
        iterator_resource: Tensor,
        initializer: Operation | None,
        output_types: Structure,
        output_shapes: Structure = None,
        output_classes: Structure = None,
    ) -> None:
        self._iterator_resource = iterator_resource
        self._initializer = initializer
        self._element_spec = from_legacy(output_types, output_shapes, output_classes)
        self._calls = 0

    @staticmethod
    def from_structure(
        output_types: Structure,
        output_shapes: Structure = None,
        shared_name: str | None = None,
        output_classes: Structure = None,
    ) -> Iterator:
        """Return an iterator for any dataset with such elements, without an initializer.

        `make_initializer` gives one for a dataset. shared_name: of the iterator that sessions of a
        server share.
        """
        spec = from_legacy(output_types, output_shapes, output_classes)
        return _iterator(_resource(spec, shared_name), None, spec)

    @staticmethod
    def from_string_handle(
        string_handle: TensorLike,
        output_types: Structure,
        output_shapes: Structure = None,
        output_classes: Structure = None,
    ) -> Iterator:
        """Return the iterator that a string tensor names when the graph runs.

        string_handle: the value of another iterator's `string_handle()`, which may be fed.
        """
        spec = from_legacy(output_types, output_shapes, output_classes)
        resource = tensor(
            "IteratorFromStringHandleV2",
            None,
            string_handle=convert_to_tensor(string_handle, dtype=dt.string),
            output_types=dtypes_of(spec),
            output_shapes=shapes_of(spec),
        )
        return _iterator(resource, None, spec)

    @property
    def initializer(self) -> Operation:
        """The operation that puts the iterator before the first element.

        Raises ValueError for an iterator without one.
        """
        if self._initializer is None:
            raise ValueError(
                "The iterator does not have an initializer. This means it was likely created "
                "using `tf.data.Dataset.make_one_shot_iterator()` or "
                "`tf.data.Iterator.from_structure()`."
            )
        return self._initializer

    def make_initializer(self, dataset: Dataset, name: str | None = None) -> Operation:
        """Return the operation that puts the iterator before a dataset's first element.

        Raises TypeError for a dataset of other elements.
        """
        wanted, given = self._element_spec, dataset.element_spec
        try:
            merged([wanted, given])
        except TypeError as error:
            raise TypeError(
                f"Expected output types {self.output_types!r} but got dataset with output types "
                f"{dataset.output_types!r}. {error}"
            ) from None
        if not all(flatten(map_structure(_fits, wanted, given))):
            raise TypeError(
                f"Expected output shapes compatible with {self.output_shapes!r} but got dataset "
                f"with output shapes {dataset.output_shapes!r}."
            )
        with get_default_graph().colocate_with(self._iterator_resource):
            return create(
                "MakeIterator",
                name,
                dataset=dataset._variant_tensor,
                iterator=self._iterator_resource,
            )

    def get_next(self, name: str | None = None) -> Structure:
        """Return the next element as tensors.

        While running: OutOfRangeError at the end, FailedPreconditionError without an initialized
        iterator.
        """
        self._calls += 1
        if self._calls > _MANY_CALLS:
            warnings.warn(_CALLED_OFTEN, stacklevel=2)
        return from_tensors(self._element_spec, self._node("IteratorGetNext", name).outputs)

    def get_next_as_optional(self) -> Optional:
        """Return the next element, or none at the end."""
        made = self._node("IteratorGetNextAsOptional", None)
        return Optional(made.outputs[0], self._element_spec)

    def string_handle(self, name: str | None = None) -> Tensor:
        """Return a scalar string tensor that names the iterator."""
        return tensor("IteratorToStringHandle", name, resource_handle=self._iterator_resource)

    def _node(self, op_type: str, name: str | None) -> Operation:
        with get_default_graph().colocate_with(self._iterator_resource):
            return create(
                op_type,
                name,
                iterator=self._iterator_resource,
                output_types=dtypes_of(self._element_spec),
                output_shapes=shapes_of(self._element_spec),
            )


class Optional:
    """An element, or none.

    variant: the tensor. element_spec: the structure of the element.
    """

    def __init__(self, variant: Tensor, element_spec: Structure) -> None:
        self._variant_tensor = variant
        self._element_spec = element_spec

    @property
    def element_spec(self) -> Structure:
        """The structure of the element."""
        return self._element_spec

    def has_value(self, name: str | None = None) -> Tensor:
        """Return a scalar bool tensor: whether there is an element."""
        return tensor("OptionalHasValue", name, optional=self._variant_tensor)

    def get_value(self, name: str | None = None) -> Structure:
        """Return the element as tensors.

        While running: InvalidArgumentError for none.
        """
        made = create(
            "OptionalGetValue",
            name,
            optional=self._variant_tensor,
            output_types=dtypes_of(self._element_spec),
            output_shapes=shapes_of(self._element_spec),
        )
        return from_tensors(self._element_spec, made.outputs)


def make_initializable_iterator(dataset: Dataset, shared_name: str | None = None) -> Iterator:
    """Return an iterator of a dataset, with an initializer to run first.

    shared_name: of the iterator that sessions of a server share. Raises ValueError for a dataset of
    another graph.
    """
    _check_graph(dataset)
    spec = dataset.element_spec
    with get_default_graph().colocate_with(dataset._variant_tensor):
        resource = _resource(spec, shared_name)
        initializer = create(
            "MakeIterator", None, dataset=dataset._variant_tensor, iterator=resource
        )
    return _iterator(resource, initializer, spec)


def make_one_shot_iterator(dataset: Dataset) -> Iterator:
    """Return an iterator that goes once through a dataset, without an initializer.

    The nodes that make the dataset are copied into a function. Raises ValueError for a dataset that
    depends on placeholders, variables or other state, or is of another graph.
    """
    _check_graph(dataset)
    spec = dataset.element_spec
    graph = get_default_graph()
    body = FunctionGraph(unique_function_name("_make_dataset"), graph)
    with body.as_default():
        body.outputs = [_copied(dataset._variant_tensor, body, {})]
    resource = tensor(
        "OneShotIterator",
        None,
        dataset_factory=define(body),
        output_types=dtypes_of(spec),
        output_shapes=shapes_of(spec),
    )
    return _iterator(resource, None, spec)


def _copied(value: Tensor, body: FunctionGraph, known: dict[Operation, Operation]) -> Tensor:
    """Return the copy of a tensor and its ancestors in a body."""
    pending = [value.op]
    while pending:
        op = pending[-1]
        if op in known:
            pending.pop()
            continue
        waits = [
            one for one in (*(t.op for t in op.inputs), *op.control_inputs) if one not in known
        ]
        if waits:
            pending += waits
            continue
        pending.pop()
        _check_copy(op)
        with body.control_dependencies([known[one] for one in op.control_inputs]):
            known[op] = body.create_op(
                op.type,
                [known[t.op].outputs[t.value_index] for t in op.inputs],
                [t.dtype for t in op.outputs],
                name=op.name,
                attrs=dict(op.attrs),
            )
        for mine, theirs in zip(known[op].outputs, op.outputs, strict=True):
            mine.set_shape(theirs.shape)
    return known[value.op].outputs[value.value_index]


def _check_copy(op: Operation) -> None:
    """Raise ValueError for a node with state or a fed value."""
    if op.type == "Placeholder":
        raise ValueError(
            f"Cannot capture a placeholder (name:{op.name}, type:{op.type}) by value. Use "
            "`make_initializable_iterator()` and feed the placeholder to its initializer."
        )
    stateful = op.op_def.is_stateful and not op.type.rstrip("V0123456789").endswith("Dataset")
    if stateful and op.type not in ("MatchingFiles", "Assert"):
        raise ValueError(
            f"Cannot capture a stateful node (name:{op.name}, type:{op.type}) by value. A dataset "
            "for `make_one_shot_iterator()` cannot depend on variables, tables or other state. Use "
            "`make_initializable_iterator()` instead."
        )


def _check_graph(dataset: Dataset) -> None:
    graph = get_default_graph()
    if dataset._variant_tensor.graph is not graph:
        raise ValueError(
            "make_one_shot_iterator() and make_initializable_iterator() need the dataset's graph "
            f"to be the default graph: {dataset} was made in another one."
        )


def _resource(spec: Structure, shared_name: str | None) -> Tensor:
    return tensor(
        "IteratorV2",
        None,
        container="",
        shared_name=shared_name or "",
        output_types=dtypes_of(spec),
        output_shapes=shapes_of(spec),
    )


def _iterator(resource: Tensor, initializer: Operation | None, spec: Structure) -> Iterator:
    types, shapes = (map_structure(get, spec) for get in (_dtype, _shape))
    made = Iterator(resource, initializer, types, shapes)
    made._element_spec = spec
    return made


def _dtype(spec: Structure) -> Structure:
    return spec.dtype


def _shape(spec: Structure) -> Structure:
    return spec.shape


def _fits(wanted: Structure, given: Structure) -> bool:
    return bool(wanted.shape.is_compatible_with(given.shape))


__all__ = ["Iterator", "Optional", "make_initializable_iterator", "make_one_shot_iterator"]
