"""Nested structures of values.

Lists, tuples, named tuples and dictionaries (in the order of their keys) are nested; all other
values are leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any


def is_nested(structure: Any) -> bool:
    """Return whether the value has parts."""
    return isinstance(structure, (list, tuple, Mapping))


def _parts(structure: Any) -> list[Any]:
    if isinstance(structure, Mapping):
        return [structure[key] for key in _keys(structure)]
    return list(structure)


def _keys(structure: Mapping[Any, Any]) -> list[Any]:
    try:
        return sorted(structure)
    except TypeError:
        raise TypeError("nest only supports dicts with sortable keys.") from None


def flatten(structure: Any) -> list[Any]:
    """Return the leaves in order; a leaf alone is its own."""
    if not is_nested(structure):
        return [structure]
    return [leaf for part in _parts(structure) for leaf in flatten(part)]


def pack_sequence_as(structure: Any, flat_sequence: Any) -> Any:
    """Return the structure with its leaves replaced in order.

    Raises ValueError for another number of leaves.
    """
    leaves = list(flat_sequence)
    expected = len(flatten(structure))
    if len(leaves) != expected:
        raise ValueError(
            f"Could not pack sequence. Structure had {expected} atoms, but flat_sequence had "
            f"{len(leaves)} items. "
            f"Structure: {structure}, flat_sequence: {leaves}."
        )
    return _packed(structure, iter(leaves))


def _packed(structure: Any, leaves: Iterator[Any]) -> Any:
    if not is_nested(structure):
        return next(leaves)
    if isinstance(structure, Mapping):
        made = {key: _packed(structure[key], leaves) for key in _keys(structure)}
        ordered = {key: made[key] for key in structure}
        return ordered if type(structure) is dict else type(structure)(ordered)  # type: ignore[call-arg]
    parts = [_packed(part, leaves) for part in structure]
    if isinstance(structure, tuple):
        return type(structure)(*parts) if hasattr(structure, "_fields") else tuple(parts)
    return parts


def map_structure(function: Callable[..., Any], *structures: Any) -> Any:
    """Return the first structure with `function` of matching leaves.

    Raises ValueError or TypeError where the structures differ.
    """
    for other in structures[1:]:
        assert_same_structure(structures[0], other)
    flat = [flatten(structure) for structure in structures]
    return pack_sequence_as(
        structures[0], [function(*leaves) for leaves in zip(*flat, strict=True)]
    )


def assert_same_structure(nest1: Any, nest2: Any, check_types: bool = True) -> None:
    """Check that two structures have the same form.

    Raises ValueError where the structures differ, TypeError where only the types of their sequences
    do.
    """
    if is_nested(nest1) != is_nested(nest2):
        raise ValueError(_differ(nest1, nest2, "one is nested and the other is not"))
    if not is_nested(nest1):
        return
    if (
        check_types
        and type(nest1) is not type(nest2)
        and not (isinstance(nest1, Mapping) and isinstance(nest2, Mapping))
    ):
        raise TypeError(
            _differ(
                nest1,
                nest2,
                f"the first is a {type(nest1).__name__}, the second a {type(nest2).__name__}",
            )
        )
    if isinstance(nest1, Mapping) and (not isinstance(nest2, Mapping) or set(nest1) != set(nest2)):
        raise ValueError(_differ(nest1, nest2, "they have different keys"))
    parts1, parts2 = _parts(nest1), _parts(nest2)
    if len(parts1) != len(parts2):
        raise ValueError(
            _differ(nest1, nest2, f"the first has {len(parts1)} parts, the second {len(parts2)}")
        )
    for part1, part2 in zip(parts1, parts2, strict=True):
        assert_same_structure(part1, part2, check_types)


def _differ(nest1: Any, nest2: Any, why: str) -> str:
    return (
        "The two structures don't have the same nested structure.\n\n"
        f"First structure: type={type(nest1).__name__} str={nest1}\n\nSecond structure: "
        f"type={type(nest2).__name__} str={nest2}\n\n"
        f"More specifically: {why}"
    )
