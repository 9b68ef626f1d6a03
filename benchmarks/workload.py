"""Define a workload: a graph, feeds, fetches and a wanted ratio.

The ratio is of tfjit's time to TensorFlow's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

Feeds = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Workload:
    """Hold one row of the table.

    build: takes a TF1-style module (tensorflow.compat.v1 or tfjit), adds the graph to the default
    graph. graph_def: bytes of a GraphDef instead of `build`. fetches: tensor names. targets:
    operations run with them. setup: operations run before outputs are compared, so that all
    candidates start from the same variables; steps: runs compared then. feeds: random generator ->
    one set of values by tensor name; several sets are used in turn. reference: the same in NumPy,
    feeds -> list of outputs, or None where that would say nothing. wanted: tfjit's time over the
    time of TensorFlow's default `Session.run`, at most; None where no figure is asked for.
    wanted_first: the same of the time from a GraphDef to the first result in a fresh session,
    measured in `fresh_sessions` of them, or in the one that is timed later where that is 0. keys:
    the names of graph elements in `run`: strings, the tensors of each one's own graph, or (tfjit
    too) those of a tf.Graph. callers: threads that call `run` at the same time; the time is the
    wall time over all their runs. kept: latest results that the caller keeps alive. callables: also
    measure `make_callable` against TensorFlow's options callable. leave_out: candidate -> the
    reason to leave it out. needs_tensorflow: TensorFlow builds the graph. intra_threads: intra-op
    threads of the sessions of tfjit and TensorFlow, None for as many as all candidates have.
    """

    name: str
    fetches: Sequence[str]
    feeds: Callable[[np.random.Generator], Feeds]
    build: Callable[[Any], None] | None = None
    graph_def: Callable[[], bytes] | None = None
    reference: Callable[[Feeds], Sequence[np.ndarray]] | None = None
    wanted: float | None = None
    wanted_first: float | None = None
    fresh_sessions: int = 0
    targets: Sequence[str] = ()
    setup: Sequence[str] = ()
    steps: int = 1
    keys: Literal["strings", "tensors", "tensorflow"] = "tensors"
    callers: int = 1
    kept: int = 0
    callables: bool = False
    leave_out: Mapping[str, str] = field(default_factory=dict)
    needs_tensorflow: bool = False
    intra_threads: int | None = None
    rtol: float = 1e-4
    atol: float = 1e-5


def uniform(
    shape: Sequence[int], low: float = -1.0, high: float = 1.0, dtype: str = "float32"
) -> Callable[[np.random.Generator], np.ndarray]:
    """A maker of floating-point arrays."""
    return lambda rng: rng.uniform(low, high, tuple(shape)).astype(dtype)


def integers(shape: Sequence[int], high: int) -> Callable[[np.random.Generator], np.ndarray]:
    """A maker of int32 arrays of 0..high-1."""
    return lambda rng: rng.integers(0, high, tuple(shape)).astype(np.int32)


def feeds_of(
    **makers: Callable[[np.random.Generator], Any],
) -> Callable[[np.random.Generator], Feeds]:
    """Feeds by placeholder name: x=uniform([3]) feeds "x:0"."""
    return lambda rng: {f"{name}:0": make(rng) for name, make in makers.items()}
