"""The structure of a dataset's elements.

Tuples, named tuples and dictionaries (in the order of their keys) are nested. Lists are values:
they become tensors, other than in `tf.nest`. A SparseTensorValue becomes a sparse tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from tfjit.client.data.sparse_spec import SparseTensorSpec, decode, encode
from tfjit.client.data.sparse_tensors import SparseTensor, SparseTensorValue
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.graphs.tensor_spec import TensorSpec
from tfjit.framework.types import dtypes as dt
from tfjit.framework.types import nest
from tfjit.framework.types.dtypes import DType, as_dtype
from tfjit.framework.types.shape import Shape, TensorShape, as_shape, merge
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import ShapeLike, Structure


class _Leaf:
    """A value that `tf.nest` would take apart."""

    __slots__ = ("value",)

    def __init__(self, value: Structure) -> None:
        self.value = value


def _shielded(structure: Structure) -> Structure:
    """Return a structure in which `tf.nest` sees lists as leaves."""
    if isinstance(structure, (list, SparseTensorValue)):
        return _Leaf(structure)
    if isinstance(structure, Mapping):
        return {key: _shielded(value) for key, value in structure.items()}
    if isinstance(structure, tuple):
        parts = [_shielded(part) for part in structure]
        return type(structure)(*parts) if hasattr(structure, "_fields") else tuple(parts)
    return structure


def _bare(leaf: Structure) -> Structure:
    return leaf.value if isinstance(leaf, _Leaf) else leaf


def flatten(structure: Structure) -> list[Structure]:
    """Return the leaves in order."""
    return [_bare(leaf) for leaf in nest.flatten(_shielded(structure))]


def pack(structure: Structure, leaves: Iterable[Structure]) -> Structure:
    """Return the structure with its leaves replaced in order."""
    return nest.pack_sequence_as(_shielded(structure), leaves)


def map_structure(function: Callable[..., Structure], *structures: Structure) -> Structure:
    """Return the first structure with `function` of matching leaves.

    Raises ValueError or TypeError where the structures differ.
    """
    shielded = [_shielded(structure) for structure in structures]
    for other in shielded[1:]:
        nest.assert_same_structure(shielded[0], other)
    flat = [nest.flatten(structure) for structure in shielded]
    results = [function(*map(_bare, leaves)) for leaves in zip(*flat, strict=True)]
    return nest.pack_sequence_as(shielded[0], results)


class Elements:
    """Describe the elements of a dataset or an iterator.

    element_spec: the structure of an element's specs.
    """

    _element_spec: Structure

    @property
    def element_spec(self) -> Structure:
        """The structure of specs of an element."""
        return self._element_spec

    @property
    def output_types(self) -> Structure:
        """The dtypes of an element."""
        return map_structure(lambda spec: spec.dtype, self._element_spec)

    @property
    def output_shapes(self) -> Structure:
        """The shapes of an element, as far as they are known."""
        return map_structure(lambda spec: spec.shape, self._element_spec)

    @property
    def output_classes(self) -> Structure:
        """The classes of an element's values."""
        return map_structure(
            lambda spec: SparseTensor if isinstance(spec, SparseTensorSpec) else Tensor,
            self._element_spec,
        )


class DatasetSpec:
    """The spec of a dataset within an element.

    element_spec: of its elements.
    """

    __slots__ = ("element_spec",)

    dtype = dt.variant
    shape = TensorShape(())

    def __init__(self, element_spec: Structure, dataset_shape: ShapeLike = ()) -> None:
        if as_shape(dataset_shape) != ():
            raise ValueError(f"A component holds one dataset, not those of shape {dataset_shape}")
        self.element_spec = element_spec

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DatasetSpec) and self.element_spec == other.element_spec

    def __hash__(self) -> int:
        return hash(str(self.element_spec))

    def __repr__(self) -> str:
        return f"DatasetSpec({self.element_spec}, TensorShape([]))"


Spec = TensorSpec | DatasetSpec | SparseTensorSpec


def as_components(values: Structure, named: str = "component_") -> Structure:
    """Return a structure of components: tensors, sparse tensors and datasets.

    named: begins the names of constants. Raises TypeError for values that are neither.
    """
    numbers = iter(range(len(flatten(values))))

    def component(value: Structure) -> Structure:
        number = next(numbers)
        if hasattr(value, "_variant_tensor") or isinstance(value, SparseTensor):
            return value
        if isinstance(value, SparseTensorValue):
            return SparseTensor.from_value(value)
        if value is None:
            raise TypeError("None is not a component of an element; leave it out of the structure.")
        if hasattr(value, "dense_shape") and hasattr(value, "indices"):
            raise TypeError(
                "IndexedSlices are no components of datasets: use their indices, values and "
                "dense_shape, or tf.convert_to_tensor."
            )
        return convert_to_tensor(value, name=f"{named}{number}")

    return map_structure(component, values)


def spec_of(values: Structure) -> Structure:
    """Return the structure of specs of a structure of components."""

    def spec(value: Structure) -> Spec:
        if isinstance(value, Tensor):
            return TensorSpec(value.shape, value.dtype.base_dtype)
        if isinstance(value, SparseTensor):
            return SparseTensorSpec.from_value(value)
        return DatasetSpec(value.element_spec)

    return map_structure(spec, values)


def to_tensors(values: Structure, rows: bool = False) -> list[Tensor]:
    """Return the tensors of a structure's leaves.

    A dataset's is its variant, a sparse tensor's are three. rows: of each row.
    """

    def encoded(leaf: Structure) -> Tensor:
        if isinstance(leaf, SparseTensor):
            return encode(leaf, rows)
        return leaf if isinstance(leaf, Tensor) else leaf._variant_tensor

    return [encoded(leaf) for leaf in flatten(values)]


def from_tensors(specs: Structure, tensors: Iterable[Tensor]) -> Structure:
    """Return the structure of specs with its components as leaves."""
    from tfjit.client.datasets.dataset import Dataset

    def value(spec: Spec, tensor: Tensor) -> Structure:
        if isinstance(spec, SparseTensorSpec):
            return decode(spec, tensor)
        if isinstance(spec, DatasetSpec):
            return Dataset(tensor, spec.element_spec)
        tensor.set_shape(spec.shape)
        return tensor

    leaves = flatten(specs)
    return pack(specs, [value(s, t) for s, t in zip(leaves, tensors, strict=True)])


def parameters(specs: Structure) -> list[Structure]:
    """Return the specs of a function's parameters.

    They are the parts of a tuple, else one."""
    if isinstance(specs, tuple) and not hasattr(specs, "_fields"):
        return list(specs)
    return [specs]


def dtypes_of(specs: Structure) -> list[DType]:
    """Return the dtypes of the leaves, as nodes have them."""
    return [
        dt.variant if isinstance(spec, SparseTensorSpec) else spec.dtype for spec in flatten(specs)
    ]


def shapes_of(specs: Structure) -> list[TensorShape]:
    """Return the shapes of the leaves, as nodes have them."""
    return [
        TensorShape(None) if isinstance(spec, SparseTensorSpec) else spec.shape
        for spec in flatten(specs)
    ]


def reshaped(specs: Structure, change: Callable[[Shape], Shape], by: str) -> Structure:
    """Return specs of tensors with other shapes. by: the transformation.

    Raises TypeError for datasets within elements.
    """

    def spec(leaf: Spec) -> Spec:
        if isinstance(leaf, DatasetSpec):
            raise TypeError(f"Dataset.{by} does not take elements that hold datasets: {leaf}")
        return type(leaf)(TensorShape(change(leaf.shape.dims_tuple)), leaf.dtype)

    return map_structure(spec, specs)


def from_legacy(types: Structure, shapes: Structure = None, classes: Structure = None) -> Structure:
    """Return the specs for the dtypes and shapes of elements.

    types: a structure of dtypes. shapes: of the same structure, or None where nothing is known.
    classes: of the same structure, tf.Tensor by default. Raises TypeError for others than tf.Tensor
    and tf.SparseTensor.
    """
    types = map_structure(as_dtype, types)
    flat_types = flatten(types)
    kinds = [Tensor] * len(flat_types) if classes is None else flatten(classes)
    for kind in kinds:
        if kind not in (Tensor, SparseTensor):
            raise TypeError(f"Elements of datasets are dense or sparse tensors, not {kind}.")
    flat = [None] * len(flat_types) if shapes is None else flat_shapes(types, shapes)
    specs = [TensorSpec if kind is Tensor else SparseTensorSpec for kind in kinds]
    return pack(
        types,
        [
            spec(as_shape(shape), dtype)
            for spec, shape, dtype in zip(specs, flat, flat_types, strict=True)
        ],
    )


def flat_shapes(types: Structure, shapes: Structure) -> list[Structure]:
    """Return a shape for each leaf: tuples of sizes are shapes."""
    if not nest.is_nested(types):
        return [shapes]
    if isinstance(types, Mapping):
        return [s for key in sorted(types) for s in flat_shapes(types[key], shapes[key])]
    if len(types) != len(shapes):
        raise ValueError(f"Expected {len(types)} shapes for {types}, got {shapes}")
    return [s for t, shape in zip(types, shapes, strict=True) for s in flat_shapes(t, shape)]


def most_specific(first: Structure, second: Structure) -> Structure:
    """Return the specs that two datasets' elements fit.

    Raises TypeError where dtypes or structures differ.
    """

    def common(one: Spec, other: Spec) -> Spec:
        if one == other:
            return one
        if isinstance(one, DatasetSpec) or type(one) is not type(other):
            raise TypeError(f"Incompatible elements: {one} and {other}")
        if one.dtype is not other.dtype:
            raise TypeError(f"Incompatible dtypes of elements: {one} and {other}")
        return type(one)(_common_shape(one.shape.dims_tuple, other.shape.dims_tuple), one.dtype)

    try:
        return map_structure(common, first, second)
    except ValueError as error:
        raise TypeError(str(error)) from None


def _common_shape(one: Shape, other: Shape) -> Shape:
    if one is None or other is None or len(one) != len(other):
        return None
    return tuple(a if a == b else None for a, b in zip(one, other, strict=True))


def merged(specs: Sequence[Structure]) -> Structure:
    """Return the specs that the elements of several datasets fit."""
    found = specs[0]
    for other in specs[1:]:
        found = most_specific(found, other)
    return found


def check_first_sizes(specs: Structure) -> None:
    """Raise ValueError where the first axes of leaves have different sizes."""
    size: Shape = (None,)
    for spec in flatten(specs):
        dims = spec.shape.dims_tuple
        if dims is not None:
            size = merge(size, dims[:1])
