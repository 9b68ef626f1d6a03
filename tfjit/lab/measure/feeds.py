"""Make the values that candidates are fed with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tfjit.framework.errors import InvalidArgumentError

if TYPE_CHECKING:
    from tfjit.framework.graphs.graph import Graph
    from tfjit.framework.graphs.operation import Tensor

SEED = 0


def random_feed(name: str, shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    """Return a value for a feed, the same in each process.

    Uniform in [0.1, 1) for numbers with a fraction, 0 or 1 for integers (valid indices of all but
    the smallest tables) and booleans. Raises InvalidArgumentError for strings.
    """
    # names get different values, and a feed its values whatever else is fed
    rng = np.random.default_rng([SEED, *name.encode()])
    if dtype.kind in "OSU":
        raise InvalidArgumentError(
            None, None, f"{name} takes strings, which are not made up: feed a value."
        )
    if dtype.kind in "iub":
        return rng.integers(0, 2, tuple(shape)).astype(dtype)
    value = rng.uniform(0.1, 1.0, tuple(shape))
    if dtype.kind == "c":
        value = value + 1j * rng.uniform(0.1, 1.0, tuple(shape))
    return value.astype(dtype)


def feed_values(
    graph: Graph,
    fetches: Sequence[str],
    feeds: Mapping[str, object],
    shapes: Mapping[str, Sequence[int]],
) -> dict[str, np.ndarray]:
    """Return a value for each placeholder behind the fetches, by tensor name.

    graph: a tfjit Graph. feeds: values by tensor. shapes: of made-up values. A placeholder that is
    in neither has its own shape. Raises InvalidArgumentError for an unknown name, a value that
    does not fit, a shape that is not known and strings without a value.
    """
    from tfjit.client.session.feeds import feed_slot, placeholders_behind

    found: dict[str, np.ndarray] = {}
    twice = sorted(set(feeds) & set(shapes))
    if twice:
        raise InvalidArgumentError(None, None, f"{twice[0]} has both a value and a shape.")
    for name in (*feeds, *shapes):
        slot = feed_slot(_tensor(graph, name))
        try:
            found[slot.name] = (
                slot.convert(feeds[name])
                if name in feeds
                else slot.convert(random_feed(slot.name, shapes[name], slot.np_dtype))
            )
        except (TypeError, ValueError) as error:
            raise InvalidArgumentError(None, None, f"The feed of {name}: {error}") from None
    elements = [graph.as_graph_element(name) for name in fetches]
    for tensor in placeholders_behind(elements, set(found)):
        slot = feed_slot(tensor)
        sizes = [size for size in slot.shape or () if size is not None]
        if slot.shape is None or len(sizes) < len(slot.shape):
            raise InvalidArgumentError(
                None,
                None,
                f"The shape of {slot.name} ({slot.dtype.name}) is not known: {tensor.shape}. Give "
                f"its value (--feed {slot.name}=FILE.npy) or its sizes (--shape {slot.name}="
                "SIZES).",
            )
        found[slot.name] = random_feed(slot.name, sizes, slot.np_dtype)
    return found


def _tensor(graph: Graph, name: str) -> Tensor:
    try:
        return graph.as_graph_element(name, allow_tensor=True, allow_operation=False)
    except (KeyError, ValueError) as error:
        text = error.args[0] if error.args else str(error)
        raise InvalidArgumentError(None, None, f"{name} cannot be fed: {text}") from None


__all__ = ["feed_values", "random_feed"]
