"""Build programs with tfjit and with TensorFlow, each library's in one graph, and compare them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow

import tfjit

tf1 = tensorflow.compat.v1

# A program of a module and of a float32 tensor.
Program = Callable[[Any, Any], Any]


def _built(
    module: Any, programs: dict[str, Program], x: np.ndarray
) -> tuple[dict[str, list[str]], dict[str, list[Any]], dict[str, list[np.ndarray]]]:
    """Return nodes, static shapes and values (with gradients) of each program."""
    graph = module.Graph()
    nodes, shapes, fetches = {}, {}, {}
    with graph.as_default():
        fed = module.placeholder(module.float32, x.shape, name="x")
        for name, program in programs.items():
            before = len(graph.get_operations())
            with module.name_scope(name):
                out = program(module, fed)
            values = list(out) if isinstance(out, (list, tuple)) else [out]
            nodes[name] = [
                f"{op.name} = {op.type}({', '.join(t.name for t in op.inputs)})"
                for op in graph.get_operations()[before:]
            ]
            shapes[name] = [None if v.shape.rank is None else v.shape.as_list() for v in values]
            floats = [v for v in values if v.dtype.is_floating]
            floats += [module.abs(v) for v in values if v.dtype.is_complex]
            gradients = module.gradients(floats, [fed]) if floats else [None]
            found = [] if gradients[0] is None else [module.convert_to_tensor(gradients[0])]
            fetches[name] = values + found
        with module.Session(graph=graph) as session:
            return nodes, shapes, session.run(fetches, {fed: x})


def differences(
    programs: dict[str, Program],
    x: np.ndarray,
    other_nodes: frozenset[str] = frozenset(),
    other_shapes: frozenset[str] = frozenset(),
) -> list[str]:
    """Return a line for each difference of nodes, static shapes, values and gradients by x.

    other_nodes, other_shapes: programs of which nodes or static shapes are not compared.
    """
    theirs, ours = (_built(module, programs, x) for module in (tf1, tfjit))
    wrong = []
    for name in programs:
        if name not in other_nodes and theirs[0][name] != ours[0][name]:
            pairs = zip(theirs[0][name], ours[0][name], strict=False)
            first = next((pair for pair in pairs if pair[0] != pair[1]), "more nodes")
            wrong.append(f"{name}: nodes {first}")
        if name not in other_shapes and theirs[1][name] != ours[1][name]:
            wrong.append(f"{name}: shapes {theirs[1][name]} {ours[1][name]}")
        expected, found = theirs[2][name], ours[2][name]
        if len(expected) != len(found):
            wrong.append(f"{name}: {len(expected)} and {len(found)} values")
        for i, (a, b) in enumerate(zip(expected, found, strict=False)):
            same = np.asarray(a).dtype == np.asarray(b).dtype and np.shape(a) == np.shape(b)
            if same and np.asarray(a).dtype.kind in "biufc":
                scale = max(1.0, float(np.abs(np.nan_to_num(a)).max(initial=0)))
                same = np.allclose(b, a, 2e-4, 2e-5 * scale, equal_nan=True)
            elif same:
                same = bool(np.all(np.equal(a, b)))
            if not same:
                wrong.append(f"{name}: value {i}: {a!r:.200} {b!r:.200}")
    return wrong
