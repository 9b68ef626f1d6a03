"""`tfjit.nest`: nested structures of lists, tuples, named tuples and dictionaries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tfjit.client.data.sparse_tensors import SparseTensor
from tfjit.framework.graphs.indexed_slices import IndexedSlices
from tfjit.framework.types import nest

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Structure

__all__ = ["assert_same_structure", "flatten", "is_nested", "map_structure", "pack_sequence_as"]


def is_nested(seq: object) -> bool:
    """Return whether a value has parts."""
    return nest.is_nested(seq)


def flatten(structure: Structure, expand_composites: bool = False) -> list[Structure]:
    """Return the leaves in order; a leaf alone is its own.

    expand_composites: sparse tensors and IndexedSlices are nested, too.
    """
    return nest.flatten(_expanded(structure) if expand_composites else structure)


def pack_sequence_as(
    structure: Structure, flat_sequence: Sequence[Structure], expand_composites: bool = False
) -> Structure:
    """Return the structure with its leaves replaced in order.

    Raises TypeError for a sequence that is none, ValueError for another number of leaves.
    """
    if not isinstance(flat_sequence, (list, tuple)):
        raise TypeError(
            "Attempted to pack value:\n  "
            f"{flat_sequence}\ninto a structure, but found incompatible type "
            f"`{type(flat_sequence)}` instead."
        )
    if not expand_composites:
        return nest.pack_sequence_as(structure, flat_sequence)
    return _contracted(structure, nest.pack_sequence_as(_expanded(structure), flat_sequence))


def map_structure(
    func: Callable[..., Structure], *structure: Structure, **kwargs: bool
) -> Structure:
    """Return the first structure with `func` of the matching leaves of all.

    kwargs: check_types (True) and expand_composites (False). Raises ValueError and TypeError where
    the structures differ, ValueError without a structure.
    """
    check_types = kwargs.pop("check_types", True)
    expand = kwargs.pop("expand_composites", False)
    if kwargs:
        raise ValueError(
            f"Only valid keyword arguments are `check_types` and "
            f"`expand_composites`, not: `{'`, `'.join(kwargs)}`"
        )
    if not callable(func):
        raise TypeError(f"func must be callable, got: {func}")
    if not structure:
        raise ValueError("Must provide at least one structure")
    for other in structure[1:]:
        assert_same_structure(structure[0], other, check_types, expand)
    flat = [flatten(one, expand) for one in structure]
    return pack_sequence_as(structure[0], [func(*leaves) for leaves in zip(*flat)], expand)


def assert_same_structure(
    nest1: Structure, nest2: Structure, check_types: bool = True, expand_composites: bool = False
) -> None:
    """Check that two structures have the same form.

    Raises ValueError where the structures differ, TypeError where only the types of their sequences
    do.
    """
    if expand_composites:
        nest1, nest2 = _expanded(nest1), _expanded(nest2)
    nest.assert_same_structure(nest1, nest2, check_types)


def _expanded(structure: Structure) -> Structure:
    return nest.map_structure(_components, structure)


def _components(leaf: Structure) -> Structure:
    if isinstance(leaf, SparseTensor):
        return (leaf.indices, leaf.values, leaf.dense_shape)
    if isinstance(leaf, IndexedSlices):
        shape = () if leaf.dense_shape is None else (leaf.dense_shape,)
        return (leaf.values, leaf.indices, *shape)
    return leaf


def _contracted(structure: Structure, expanded: Structure) -> Structure:
    """Return the structure with composites made of the components in `expanded`."""
    flat = nest.flatten(structure)
    parts = iter(nest.flatten(expanded))
    made = []
    for leaf in flat:
        components = _components(leaf)
        if components is leaf:
            made.append(next(parts))
        else:
            made.append(type(leaf)(*[next(parts) for _ in components]))
    return nest.pack_sequence_as(structure, made)
