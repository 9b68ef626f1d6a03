"""The cached function of a session for fetches and feed keys.

It converts values, calls the runner and rebuilds the fetched structure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tfjit.client.session.feeds import FeedSlot
from tfjit.client.session.fetches import Leaf
from tfjit.runtime.session_interface import Runner

# one cached `run` call, over its feed_dict
Entry = Callable[[Mapping[Any, Any] | None], Any]


@dataclass(frozen=True, slots=True)
class Resolved:
    """Fetches and feed keys, resolved by graph and runtime session.

    leaves, rebuild: of the fetch structure. slots and getters: of the fed tensors, in the order of
    the keys. fed: their positions by name. runner: of the runtime session, None when all fetches
    are fed.
    form: "one" tensor, a "list" of them, each key one fed tensor (then `slots` match the keys one
    by one); else "any".
    """

    leaves: Sequence[Leaf]
    rebuild: Callable[[Sequence[Any]], Any]
    slots: Sequence[FeedSlot]
    getters: Sequence[Callable[[Mapping[Any, Any]], Any]]
    fed: Mapping[str, int]
    runner: Runner | None
    form: Literal["one", "list", "any"]


def fetched_value(array: Any) -> Any:
    """Copy a fed value that is also fetched, as the caller's own."""
    return np.array(array)


def is_quantized(leaf: Leaf) -> bool:
    """Return whether NumPy knows the fetched dtype only as a structure.

    The structure holds one number.
    """
    return not leaf.is_operation and leaf.element.dtype.is_quantized


def _as_numbers(leaf: Leaf, value: Any) -> Any:
    """Return a fetched value for the caller: of a quantized tensor, numbers."""
    if not is_quantized(leaf):
        return value
    (number,) = (kind for kind, _ in value.dtype.fields.values())
    return value.view(number)[()]


def leaf_values(
    leaves: Sequence[Leaf], fed: Mapping[str, Any], results: Sequence[Any]
) -> list[Any]:
    """Return a value for each leaf.

    It is None for an operation, the fed value for a fed tensor (`fed`, by name), else the next of
    `results`.
    """
    rest = iter(results)
    return [
        None
        if leaf.is_operation
        else fetched_value(fed[leaf.name])
        if leaf.name in fed
        else _as_numbers(leaf, next(rest))
        for leaf in leaves
    ]


def entry_by_dict(resolved: Resolved) -> Entry:
    """Return the entry for a feed_dict with the resolved keys.

    The keys must come in their order.
    """
    slots, runner = resolved.slots, resolved.runner
    converts = [slot.convert for slot in slots]
    if resolved.form == "any" or runner is None:
        return _any_entry(resolved)
    if resolved.form == "list":
        if not converts:
            return lambda feed_dict: runner(())
        return lambda feed_dict: runner(
            [convert(value) for convert, value in zip(converts, feed_dict.values(), strict=True)]  # type: ignore[union-attr]
        )
    if not converts:
        return lambda feed_dict: runner(())[0]
    if len(converts) == 1:
        (convert,) = converts

        def entry_1(feed_dict: Any) -> Any:
            for value in feed_dict.values():
                return runner((convert(value),))[0]

        return entry_1
    if len(converts) == 2:
        convert_a, convert_b = converts

        def entry_2(feed_dict: Any) -> Any:
            a, b = feed_dict.values()
            return runner((convert_a(a), convert_b(b)))[0]

        return entry_2
    return lambda feed_dict: runner(
        [convert(value) for convert, value in zip(converts, feed_dict.values(), strict=True)]  # type: ignore[union-attr]
    )[0]


def entry_by_position(resolved: Resolved, keys: Sequence[Any]) -> Callable[..., Any]:
    """Return the entry for the keys' values as arguments."""
    runner = resolved.runner
    converts = [slot.convert for slot in resolved.slots]
    if resolved.form == "any" or runner is None or len(converts) != len(keys):
        by_dict = entry_by_dict(resolved)
        return lambda *values: by_dict(dict(zip(keys, values, strict=True)))
    if resolved.form == "list":
        return lambda *values: runner(
            [convert(value) for convert, value in zip(converts, values, strict=True)]
        )
    if not converts:
        return lambda: runner(())[0]
    if len(converts) == 1:
        (convert,) = converts
        return lambda a: runner((convert(a),))[0]
    if len(converts) == 2:
        convert_a, convert_b = converts
        return lambda a, b: runner((convert_a(a), convert_b(b)))[0]
    return lambda *values: runner(
        [convert(value) for convert, value in zip(converts, values, strict=True)]
    )[0]


def _any_entry(resolved: Resolved) -> Entry:
    leaves, fed, runner, rebuild = resolved.leaves, resolved.fed, resolved.runner, resolved.rebuild
    pairs = list(zip(resolved.slots, resolved.getters, strict=True))

    def entry(feed_dict: Mapping[Any, Any] | None) -> Any:
        arrays = [slot.convert(get(feed_dict)) for slot, get in pairs]  # type: ignore[arg-type]
        results = runner(arrays) if runner is not None else ()
        return rebuild(leaf_values(leaves, {name: arrays[i] for name, i in fed.items()}, results))

    return entry
