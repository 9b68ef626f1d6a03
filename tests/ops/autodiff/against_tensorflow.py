"""Compare gradients of a program with TensorFlow's: built with both modules, differentiated, run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

import tfjit

tf1 = tf.compat.v1

rng = np.random.default_rng(7)

# A program of a module, tensorflow or tfjit, and of the inputs.
Program = Callable[..., Any]


def smooth(*shape: int) -> np.ndarray:
    """Return values in 0.2..1.8, all different, away from corners of piecewise functions."""
    size = int(np.prod(shape))
    return rng.permutation(np.linspace(0.2, 1.8, max(size, 1), dtype="f4")[:size]).reshape(shape)


def signed(*shape: int) -> np.ndarray:
    """Return different values in -0.8..0.8, none of them 0."""
    return (smooth(*shape) - 1.003).astype("f4")


def differentiated(
    module: Any, program: Program, values: Sequence[np.ndarray], unknown: bool, second: bool
) -> list[np.ndarray]:
    """Return the program's value and its gradients by its inputs.

    unknown: their shapes are not known while the graph is built. second: differentiate the sum of
    squares of the gradients too, and return those gradients in their place.
    """
    v1 = tf1 if module is tf else tfjit
    graph = v1.Graph()
    with graph.as_default():
        xs = [
            v1.placeholder(v1.as_dtype(v.dtype), [None] * v.ndim if unknown else v.shape)
            for v in values
        ]
        y = program(module, *xs)
        found = v1.gradients(y, xs)
        if second:
            losses = [
                v1.reduce_sum(v1.abs(v1.convert_to_tensor(g)) ** 2) for g in found if g is not None
            ]
            found = v1.gradients(losses, xs)
        fetches = [
            *(y if isinstance(y, (list, tuple)) else [y]),
            *(v1.convert_to_tensor(g) if g is not None else v1.constant(-77.0) for g in found),
        ]
        with v1.Session(graph=graph) as session:
            results: list[np.ndarray] = session.run(fetches, dict(zip(xs, values, strict=True)))
            return results


def compare(
    program: Program,
    values: Sequence[np.ndarray],
    *,
    unknown: bool = False,
    second: bool = False,
) -> None:
    """Compare the program's value and gradients with TensorFlow's."""
    expected = differentiated(tf, program, values, unknown, second)
    got = differentiated(tfjit, program, values, unknown, second)
    for index, (ours, theirs) in enumerate(zip(got, expected, strict=True)):
        assert ours.dtype == theirs.dtype, index
        scale = max(1.0, float(np.max(np.abs(np.nan_to_num(theirs)), initial=0)))
        np.testing.assert_allclose(
            ours, theirs, rtol=2e-4, atol=2e-5 * scale, err_msg=f"output {index}"
        )
