"""Random programs of nested loops and conditionals, as hypothesis draws them and TensorFlow or
tfjit builds them in both forms.

`m` is the module that builds: `tf.compat.v1` or `tfjit`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from hypothesis import strategies as st

import tfjit

tf1 = tf.compat.v1

# a program works on these: int32 scalars a and b, a float32 scalar x, a float32 vector v of 3
Environment = dict[str, Any]
NAMES = ("a", "b", "x", "v")

ASSIGNMENTS: dict[str, tuple[str, Callable[[Any, Environment], Any]]] = {
    "a = a + b": ("a", lambda m, e: e["a"] + e["b"]),
    "a = a * 3 - b": ("a", lambda m, e: e["a"] * 3 - e["b"]),
    "b = b - 1": ("b", lambda m, e: e["b"] - 1),
    "b = a // b": ("b", lambda m, e: e["a"] // e["b"]),
    "b = a": ("b", lambda m, e: m.identity(e["a"])),
    "a = 7": ("a", lambda m, _: m.constant(7)),
    "x = x / 2 + a % 5": ("x", lambda m, e: e["x"] * 0.5 + m.cast(e["a"] % 5, m.float32)),
    "x = tanh(x)": ("x", lambda m, e: m.tanh(e["x"])),
    "x = sum(v)": ("x", lambda m, e: m.reduce_sum(e["v"])),
    "x = v[b % 3]": ("x", lambda m, e: m.gather(e["v"], e["b"] % 3)),
    "v = tanh(v * x)": ("v", lambda m, e: m.tanh(e["v"] * e["x"])),
    "v = v / 2 + x": ("v", lambda m, e: e["v"] * 0.5 + e["x"]),
    "v = reverse(v)": ("v", lambda m, e: m.reverse(e["v"], [0])),
    "v = M v": (
        "v",
        lambda m, e: m.reshape(m.matmul(m.constant(_MATRIX), m.reshape(e["v"], [3, 1])), [3]),
    ),
    "v[a % 3] = x": (
        "v",
        lambda m, e: m.tensor_scatter_nd_update(e["v"], [[e["a"] % 3]], [e["x"]]),
    ),
}
PREDICATES: dict[str, Callable[[Any, Environment], Any]] = {
    "a < b": lambda m, e: m.less(e["a"], e["b"]),
    "a % 2 == 0": lambda m, e: m.equal(e["a"] % 2, 0),
    "x > 0.5": lambda m, e: m.greater(e["x"], 0.5),
    "all(v < x)": lambda m, e: m.reduce_all(m.less(e["v"], e["x"])),
    "false": lambda m, _: m.constant(False),
}
COUNTS: dict[str, Callable[[Any, Environment], Any]] = {
    "3": lambda m, _: m.constant(3),
    "0": lambda m, _: m.constant(0),
    "b % 4": lambda m, e: e["b"] % 4,
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
        loop = st.builds(
            While,
            st.sampled_from(sorted(COUNTS)),
            st.sampled_from(sorted(PREDICATES)),
            inner,
            st.sampled_from([1, 10]),
        )
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


def build(m: Any, program: Program, start: Environment) -> Environment:
    """The program as a graph; returns the values at its end."""
    e = dict(start)
    for statement in program:
        if isinstance(statement, str):
            name, make = ASSIGNMENTS[statement]
            e[name] = make(m, e)
            continue
        if isinstance(statement, If):
            names = sorted(assigned(statement.then) | assigned(statement.otherwise))
            sides = [
                lambda block=block, e=dict(e), names=names: [
                    m.identity(build(m, block, e)[name]) for name in names
                ]
                for block in (statement.then, statement.otherwise)
            ]
            results = m.cond(PREDICATES[statement.predicate](m, e), *sides)
            e.update(
                zip(
                    names, results if isinstance(results, (list, tuple)) else [results], strict=True
                )
            )
            continue
        names = sorted(assigned(statement.body))
        e.update(zip(names, build_loop(m, statement, names, e), strict=True))
    return e


def build_loop(m: Any, loop: While, names: list[str], outside: Environment) -> list[Any]:
    """The loop that changes `names`; returns their values at its end."""
    count = COUNTS[loop.count](m, outside)

    def more(i: Any, *values: Any) -> Any:
        e = {**outside, **dict(zip(names, values, strict=True))}
        # not logical_not: TensorFlow's optimizer makes x <= y of not(x > y), which is another thing
        # for NaN
        return m.logical_and(i < count, m.equal(PREDICATES[loop.until](m, e), False))

    def step(i: Any, *values: Any) -> Any:
        after = build(m, loop.body, {**outside, **dict(zip(names, values, strict=True))})
        return [i + 1, *(after[name] for name in names)]

    found = m.while_loop(
        more,
        step,
        [m.constant(0), *(outside[name] for name in names)],
        parallel_iterations=loop.parallel,
    )
    return list(found[1:])


FEEDS: list[dict[str, Any]] = [
    {"a": 5, "b": 3, "x": 0.25, "v": [1.0, -2.0, 0.5]},
    {"a": -4, "b": 1, "x": 3.0, "v": [0.0, 0.1, 0.2]},
    {"a": 0, "b": 0, "x": -1.0, "v": [np.nan, np.inf, -0.0]},
]


@contextmanager
def form(v2: bool) -> Iterator[None]:
    """Both modules build in this form; after it each in the one that it begins with."""
    for m in (tf1, tfjit):
        (m.enable_control_flow_v2 if v2 else m.disable_control_flow_v2)()
    try:
        yield
    finally:
        tf1.enable_control_flow_v2()
        tfjit.disable_control_flow_v2()


def placeholders(m: Any = tf1) -> Environment:
    """What a program starts with."""
    return {
        "a": m.placeholder(m.int32, [], "a"),
        "b": m.placeholder(m.int32, [], "b"),
        "x": m.placeholder(m.float32, [], "x"),
        "v": m.placeholder(m.float32, [3], "v"),
    }


def fetches_of(program: Program, start: Environment, gradients: bool, m: Any = tf1) -> list[Any]:
    """The values at a program's end, and with gradients those of x and v by their first values."""
    end = build(m, program, start)
    fetches = [end[name] for name in NAMES]
    if gradients:
        found = m.gradients([end["x"], end["v"]], [start["x"], start["v"]])
        fetches += [gradient for gradient in found if gradient is not None]
    return fetches
