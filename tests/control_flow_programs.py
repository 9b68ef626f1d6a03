"""Random programs of nested loops and conditionals, as hypothesis draws them and TensorFlow builds them in both its forms."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from hypothesis import strategies as st

tf1 = tf.compat.v1

# a program works on these: int32 scalars a and b, a float32 scalar x, a float32 vector v of 3
Environment = dict[str, Any]
NAMES = ("a", "b", "x", "v")

ASSIGNMENTS: dict[str, tuple[str, Callable[[Environment], Any]]] = {
    "a = a + b": ("a", lambda e: e["a"] + e["b"]),
    "a = a * 3 - b": ("a", lambda e: e["a"] * 3 - e["b"]),
    "b = b - 1": ("b", lambda e: e["b"] - 1),
    "b = a // b": ("b", lambda e: e["a"] // e["b"]),
    "b = a": ("b", lambda e: tf.identity(e["a"])),
    "a = 7": ("a", lambda _: tf.constant(7)),
    "x = x / 2 + a % 5": ("x", lambda e: e["x"] * 0.5 + tf.cast(e["a"] % 5, tf.float32)),
    "x = tanh(x)": ("x", lambda e: tf.tanh(e["x"])),
    "x = sum(v)": ("x", lambda e: tf.reduce_sum(e["v"])),
    "x = v[b % 3]": ("x", lambda e: tf.gather(e["v"], e["b"] % 3)),
    "v = tanh(v * x)": ("v", lambda e: tf.tanh(e["v"] * e["x"])),
    "v = v / 2 + x": ("v", lambda e: e["v"] * 0.5 + e["x"]),
    "v = reverse(v)": ("v", lambda e: tf.reverse(e["v"], [0])),
    "v = M v": ("v", lambda e: tf.reshape(tf.matmul(tf.constant(_MATRIX), tf.reshape(e["v"], [3, 1])), [3])),
    "v[a % 3] = x": ("v", lambda e: tf.tensor_scatter_nd_update(e["v"], [[e["a"] % 3]], [e["x"]])),
}
PREDICATES: dict[str, Callable[[Environment], Any]] = {
    "a < b": lambda e: tf.less(e["a"], e["b"]),
    "a % 2 == 0": lambda e: tf.equal(e["a"] % 2, 0),
    "x > 0.5": lambda e: tf.greater(e["x"], 0.5),
    "all(v < x)": lambda e: tf.reduce_all(tf.less(e["v"], e["x"])),
    "false": lambda _: tf.constant(False),
}
COUNTS: dict[str, Callable[[Environment], Any]] = {
    "3": lambda _: tf.constant(3),
    "0": lambda _: tf.constant(0),
    "b % 4": lambda e: e["b"] % 4,
}
_MATRIX = np.array([[0.5, 0.25, 0.0], [-0.25, 0.5, 0.125], [0.0, 0.5, 0.25]], np.float32)


@dataclass(frozen=True)
class If:
    predicate: str
    then: tuple[Any, ...]
    otherwise: tuple[Any, ...]


@dataclass(frozen=True)
class While:
    count: str
    until: str  # a predicate that ends the loop early
    body: tuple[Any, ...]
    parallel: int = 10


Program = tuple[Any, ...]

assignments = st.sampled_from(sorted(ASSIGNMENTS))


def blocks(depth: int) -> st.SearchStrategy[Program]:
    statement: Any = assignments
    if depth:
        inner = blocks(depth - 1)
        conditional = st.builds(If, st.sampled_from(sorted(PREDICATES)), inner, inner)
        loop = st.builds(While, st.sampled_from(sorted(COUNTS)), st.sampled_from(sorted(PREDICATES)), inner, st.sampled_from([1, 10]))
        statement = st.one_of(assignments, assignments, conditional, loop)
    return st.lists(statement, min_size=1, max_size=4 if depth else 3).map(tuple)


def assigned(program: Program) -> set[str]:
    """The names that a program may change."""
    found: set[str] = set()
    for statement in program:
        if isinstance(statement, str):
            found.add(ASSIGNMENTS[statement][0])
        elif isinstance(statement, If):
            found |= assigned(statement.then) | assigned(statement.otherwise)
        else:
            found |= assigned(statement.body)
    return found


def build(program: Program, start: Environment) -> Environment:
    """The program as a graph; returns the values at its end."""
    e = dict(start)
    for statement in program:
        if isinstance(statement, str):
            name, make = ASSIGNMENTS[statement]
            e[name] = make(e)
            continue
        if isinstance(statement, If):
            names = sorted(assigned(statement.then) | assigned(statement.otherwise))
            sides = [
                lambda block=block, e=dict(e), names=names: [tf.identity(build(block, e)[name]) for name in names]
                for block in (statement.then, statement.otherwise)
            ]
            results = tf1.cond(PREDICATES[statement.predicate](e), *sides)
            e.update(zip(names, results if isinstance(results, (list, tuple)) else [results], strict=True))
            continue
        names = sorted(assigned(statement.body))
        e.update(zip(names, build_loop(statement, names, e), strict=True))
    return e


def build_loop(loop: While, names: list[str], outside: Environment) -> list[Any]:
    """The loop that changes `names`; returns their values at its end."""
    count = COUNTS[loop.count](outside)

    def more(i: Any, *values: Any) -> Any:
        e = {**outside, **dict(zip(names, values, strict=True))}
        # not logical_not: TensorFlow's optimizer makes x <= y of not(x > y), which is another thing for NaN
        return tf.logical_and(i < count, tf.equal(PREDICATES[loop.until](e), False))

    def step(i: Any, *values: Any) -> Any:
        after = build(loop.body, {**outside, **dict(zip(names, values, strict=True))})
        return [i + 1, *(after[name] for name in names)]

    found = tf1.while_loop(more, step, [tf.constant(0), *(outside[name] for name in names)], parallel_iterations=loop.parallel)
    return list(found[1:])


FEEDS: list[dict[str, Any]] = [
    {"a": 5, "b": 3, "x": 0.25, "v": [1.0, -2.0, 0.5]},
    {"a": -4, "b": 1, "x": 3.0, "v": [0.0, 0.1, 0.2]},
    {"a": 0, "b": 0, "x": -1.0, "v": [np.nan, np.inf, -0.0]},
]


@contextmanager
def form(v2: bool) -> Iterator[None]:
    (tf1.enable_control_flow_v2 if v2 else tf1.disable_control_flow_v2)()
    try:
        yield
    finally:
        tf1.enable_control_flow_v2()


def placeholders() -> Environment:
    """What a program starts with."""
    return {
        "a": tf1.placeholder(tf.int32, [], "a"),
        "b": tf1.placeholder(tf.int32, [], "b"),
        "x": tf1.placeholder(tf.float32, [], "x"),
        "v": tf1.placeholder(tf.float32, [3], "v"),
    }


def fetches_of(program: Program, start: Environment, gradients: bool) -> list[Any]:
    """The values at a program's end, and with gradients those of x and v by their first values."""
    end = build(program, start)
    fetches = [end[name] for name in NAMES]
    if gradients:
        found = tf1.gradients([end["x"], end["v"]], [start["x"], start["v"]])
        fetches += [gradient for gradient in found if gradient is not None]
    return fetches
