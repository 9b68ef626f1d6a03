"""Define a program of the collection."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1

# kernel: all of it is one kernel. jumps: its instructions stand in the step's table. python: Python
# goes from iteration to iteration
Way = Literal["python", "jumps", "kernel"]


class Inputs:
    """Hold placeholders and their feeds.

    rng: the same numbers in every build.
    """

    def __init__(self) -> None:
        self.feeds: dict[Any, np.ndarray] = {}
        self.rng = np.random.default_rng(7)

    def take(self, value: Any, static: bool = False) -> Any:
        """Return a placeholder that is fed `value`.

        static: its shape is in the graph.
        """
        array = np.asarray(value)
        tensor = tf1.placeholder(array.dtype, array.shape if static else [None] * array.ndim)
        self.feeds[tensor] = array
        return tensor

    def uniform(
        self,
        *shape: int,
        low: float = -1.0,
        high: float = 1.0,
        dtype: Any = np.float32,
        static: bool = False,
    ) -> Any:
        """A placeholder of random numbers."""
        return self.take(self.rng.uniform(low, high, shape).astype(dtype), static)

    def integers(self, high: int, *shape: int, dtype: Any = np.int32) -> Any:
        """A placeholder of random numbers from 0 to high - 1."""
        return self.take(self.rng.integers(0, high, shape).astype(dtype))


Build = Callable[[Inputs, int], Any]


@dataclass(frozen=True)
class Program:
    """Describe a program.

    build: (inputs, size) -> the fetches. small, middling: sizes. way: the least way in which all of
    its loops run, by form.

    rtol, atol: the tolerance to TensorFlow's values; 0 for equal. setup: it has variables, to be
    initialized before each run. forms: those that TensorFlow builds it in.
    """

    name: str
    build: Build
    small: int
    middling: int
    way: dict[str, Way] = field(default_factory=dict)
    rtol: float = 1e-4
    atol: float = 1e-5
    setup: bool = False
    forms: tuple[str, ...] = ("v1", "v2")


PROGRAMS: Final[dict[str, Program]] = {}


def program(
    small: int, middling: int, way: Way = "jumps", v1: Way | None = None, **more: Any
) -> Callable[[Build], Build]:
    """Add a function to the collection.

    way: of the form v2, and of v1 where that is not given.
    """

    def add(build: Build) -> Build:
        name = build.__name__.strip("_").replace("_", " ")
        assert name not in PROGRAMS
        PROGRAMS[name] = Program(name, build, small, middling, {"v2": way, "v1": v1 or way}, **more)
        return build

    return add


@dataclass
class Built:
    """A program's graph. setup: operations to run first."""

    graph: Any
    fetches: list[Any]
    feeds: dict[Any, np.ndarray]
    setup: list[Any]


@contextmanager
def form(v2: bool) -> Iterator[None]:
    """TensorFlow builds While and If, or Switch and Merge."""
    before = tf1.control_flow_v2_enabled()
    (tf1.enable_control_flow_v2 if v2 else tf1.disable_control_flow_v2)()
    try:
        yield
    finally:
        (tf1.enable_control_flow_v2 if before else tf1.disable_control_flow_v2)()


def built(chosen: Program, v2: bool, size: int) -> Built:
    """A program's graph in one of the forms."""
    with form(v2), tf1.Graph().as_default() as graph:
        inputs = Inputs()
        fetches = chosen.build(inputs, size)
        fetches = list(fetches) if isinstance(fetches, (list, tuple)) else [fetches]
        fetches = [tf.identity(fetch) for fetch in fetches]
        setup = [tf1.global_variables_initializer()] if chosen.setup else []
    return Built(graph, fetches, inputs.feeds, setup)
