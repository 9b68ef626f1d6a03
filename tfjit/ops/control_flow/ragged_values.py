"""Ragged tensors through branches and loops, which pass tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tfjit.framework.types import nest
from tfjit.ops.core.dispatch import is_ragged

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Structure


def has_ragged(structure: Structure) -> bool:
    """Return whether a leaf is a ragged tensor."""
    return any(is_ragged(leaf) for leaf in nest.flatten(structure))


def taken_apart(structure: Structure) -> Structure:
    """Return the structure with a list of tensors for each ragged one."""
    leaves = [leaf._tensors() if is_ragged(leaf) else leaf for leaf in nest.flatten(structure)]
    return nest.pack_sequence_as(structure, leaves)


def rebuilt(like: Structure, structure: Structure) -> Structure:
    """Return a structure that was taken apart with its ragged tensors.

    like: the structure with ragged tensors of the same ranks.
    """
    parts = iter(nest.flatten(structure))
    leaves = []
    for leaf in nest.flatten(like):
        if is_ragged(leaf):
            leaves.append(leaf._with_tensors([next(parts) for _ in leaf._tensors()]))
        else:
            leaves.append(next(parts))
    return nest.pack_sequence_as(like, leaves)


class Branch:
    """A function of no arguments, with its ragged results taken apart."""

    def __init__(self, function: Callable[[], Structure]) -> None:
        self._function = function
        self.result: Structure = None

    def __call__(self) -> Structure:
        result = self._function()
        if not has_ragged(result):
            return result
        self.result = result
        return taken_apart(result)


def ragged_loop(
    while_loop: Callable[..., Structure],
    cond: Callable[..., Structure],
    body: Callable[..., Structure],
    loop_vars: Structure,
    shape_invariants: Structure,
    options: tuple[object, ...],
    return_same_structure: bool,
) -> Structure:
    """Return the variables of a loop that has ragged ones.

    shape_invariants: a RaggedTensorSpec for each ragged variable; see `while_loop`.
    """
    alone = not nest.is_nested(loop_vars)
    variables = [loop_vars] if alone else loop_vars

    def whole(parts: Structure) -> Structure:
        given = rebuilt(variables, parts)
        return given.values() if isinstance(given, dict) else given

    def passes(*parts: Structure) -> Structure:
        return cond(*whole(parts))

    def step(*parts: Structure) -> Structure:
        result = body(*whole(parts))
        return taken_apart(result if nest.is_nested(result) else [result])

    shapes = [shape_invariants] if alone and shape_invariants is not None else shape_invariants
    if shapes is not None:
        leaves = [
            shape._shapes() if hasattr(shape, "_shapes") else shape
            for shape in nest.flatten(shapes)
        ]
        shapes = nest.pack_sequence_as(variables, leaves)
    made = while_loop(passes, step, taken_apart(variables), shapes, *options, True)
    result = rebuilt(variables, made)
    single = len(variables) == 1 and not isinstance(variables, dict) and not return_same_structure
    return result[0] if alone or single else result
