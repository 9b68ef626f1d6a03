"""Sweep sizes of feeds: one case for each size."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfjit.framework.errors import InvalidArgumentError

if TYPE_CHECKING:
    from tfjit.framework.graphs.graph import Graph

FORM = "NAME.AXIS=SIZES, as in images.0=1,4,16, or images.0,labels.0=1,4,16 for one size of both"


@dataclass(frozen=True, slots=True)
class Sweep:
    """Sizes of one axis of a feed, or of several alike.

    axes: (tensor name, axis).
    """

    axes: tuple[tuple[str, int], ...]
    sizes: tuple[int, ...]


def parse_sweep(text: str) -> Sweep:
    """Return the sweep that "images.0=1,4,16" spells. Raises ValueError."""
    names, equals, numbers = text.partition("=")
    axes = []
    for one in names.split(","):
        name, dot, axis = one.strip().rpartition(".")
        if not equals or not dot or not name or not axis.isdecimal():
            raise ValueError(f"sweep {text!r}: expected {FORM}")
        axes.append((name if ":" in name else f"{name}:0", int(axis)))
    sizes = [size.strip() for size in numbers.split(",")]
    if not all(size.isdecimal() for size in sizes):
        raise ValueError(f"sweep {text!r}: sizes are whole numbers with commas between")
    if len(set(sizes)) < len(sizes):
        raise ValueError(f"sweep {text!r}: a size is there twice")
    return Sweep(tuple(axes), tuple(map(int, sizes)))


def swept_shapes(
    sweeps: Sequence[Sweep], graph: Graph, shapes: Mapping[str, Sequence[int]]
) -> list[tuple[str, dict[str, tuple[int, ...]]]]:
    """Return (label, shapes of feeds) of each case: all combinations of sizes.

    graph: a tfjit Graph. shapes: of feeds, by tensor name; a feed that is not among them has its
    own. Raises InvalidArgumentError for an unknown feed or axis, and for sizes that stay unknown.
    """
    cases = []
    for chosen in itertools.product(*(sweep.sizes for sweep in sweeps)):
        found: dict[str, list[int | None]] = {name: list(sizes) for name, sizes in shapes.items()}
        labels = []
        for sweep, size in zip(sweeps, chosen, strict=True):
            for name, axis in sweep.axes:
                dims = found.setdefault(name, _own_shape(graph, name))
                if axis >= len(dims):
                    raise InvalidArgumentError(
                        None, None, f"sweep {name}.{axis}: the feed has {len(dims)} axes."
                    )
                dims[axis] = size
            labels.append(",".join(f"{n.removesuffix(':0')}.{a}" for n, a in sweep.axes))
            labels[-1] += f"={size}"
        complete = {}
        for name, dims in found.items():
            sizes = tuple(size for size in dims if size is not None)
            if len(sizes) < len(dims):
                raise InvalidArgumentError(
                    None,
                    None,
                    f"sweep of {name}: axis {dims.index(None)} has no known size: name all sizes "
                    f"(--shape {name}=SIZES).",
                )
            complete[name] = sizes
        cases.append((", ".join(labels), complete))
    return cases


def _own_shape(graph: Graph, name: str) -> list[int | None]:
    try:
        tensor = graph.as_graph_element(name, allow_tensor=True, allow_operation=False)
    except (KeyError, ValueError) as error:
        raise InvalidArgumentError(None, None, f"sweep of {name}: {error.args[0]}") from None
    if tensor.shape.rank is None:
        raise InvalidArgumentError(
            None, None, f"sweep of {name}: its rank is not known: --shape {name}=SIZES names it."
        )
    return list(tensor.shape.as_list())


__all__ = ["FORM", "Sweep", "parse_sweep", "swept_shapes"]
