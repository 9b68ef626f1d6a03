"""Programs of conditionals and loops that have a gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

# a program of a module and two float32 vectors of 3
Program = Callable[[Any, Any, Any], Any]


def positive(m: Any, p: Any) -> Any:
    return m.reduce_sum(p) > 0.0


def loop(m: Any, count: int, body: Callable[..., Any], *start: Any) -> Any:
    found = m.while_loop(
        lambda i, *_: i < count,
        lambda i, *values: [i + 1, *body(i, *values)],
        [m.constant(0), *start],
    )
    return found[1:]


def nested_loops(m: Any, x: Any, p: Any) -> Any:
    def body(i: Any, h: Any) -> Any:
        inner = m.while_loop(
            lambda j, g: j < i + 1, lambda j, g: [j + 1, m.tanh(g * x) + h], [m.constant(0), h]
        )
        return [inner[1] * 0.5]

    return loop(m, 3, body, p)[0]


def loop_until(m: Any, x: Any, p: Any) -> Any:
    w = m.reshape(x, [3, 1]) * m.reshape(p, [1, 3])
    start = [m.constant(0), m.reshape(x, [1, 3])]
    more = m.while_loop(
        lambda i, h: m.logical_and(i < 5, m.reduce_sum(h) < 50.0),
        lambda i, h: [i + 1, m.matmul(h, w) + 1.0],
        start,
    )
    return more[1]


PROGRAMS: dict[str, Program] = {
    "conditional": lambda m, x, p: m.cond(positive(m, p), lambda: m.tanh(x), lambda: x * x * 3.0),
    "nested conditionals": lambda m, x, p: m.cond(
        positive(m, p),
        lambda: m.cond(x[0] > 0.5, lambda: x * x, lambda: m.sin(x)),
        lambda: m.exp(x) * p,
    ),
    "branches of different inputs": lambda m, x, p: m.cond(
        positive(m, p), lambda: x * 2.0, lambda: p * 3.0
    ),
    "switch and merge": lambda m, x, p: m.raw_ops.Merge(
        inputs=[
            side * k
            for side, k in zip(
                m.raw_ops.Switch(data=x, pred=positive(m, p)), (2.0, 3.0), strict=True
            )
        ]
    )[0],
    "loop": lambda m, x, p: loop(m, 3, lambda i, h: [m.tanh(h + x)], x)[0],
    "no iteration": lambda m, x, p: loop(m, 0, lambda i, h: [m.tanh(h + x)], x * p)[0],
    "two variables": lambda m, x, p: loop(m, 4, lambda i, h, g: [h * g, m.sin(h)], x, p)[0],
    "swapped variables": lambda m, x, p: loop(m, 3, lambda i, h, g: [g, h * x], x, p)[0],
    "a variable of its last value only": lambda m, x, p: loop(
        m, 3, lambda i, h, u: [h * 2.0, x * m.cast(i, m.float32)], x, p
    )[1],
    "conditional in a loop": lambda m, x, p: loop(
        m, 4, lambda i, h: [m.cond(m.equal(i % 2, 0), lambda: h * x, lambda: m.tanh(h))], p
    )[0],
    "loop in a loop": nested_loops,
    "loop in a conditional": lambda m, x, p: m.cond(
        positive(m, p), lambda: loop(m, 3, lambda i, h: [m.tanh(h * x)], p)[0], lambda: x * 1.0
    ),
    "loop until": loop_until,
    "scan": lambda m, x, p: m.scan(
        lambda h, row: m.tanh(h * row + x[0]), p, initializer=m.constant(0.3)
    ),
    "map": lambda m, x, p: m.map_fn(lambda row: row * row * x[1], p),
    "fold": lambda m, x, p: m.foldl(lambda a, row: a * row + x, p, initializer=x),
}


def trained(m: Any, data: np.ndarray, start: np.ndarray) -> np.ndarray:
    graph = m.Graph()
    with graph.as_default():
        w = m.get_variable("w", initializer=start, use_resource=True)
        states = m.scan(
            lambda h, row: m.tanh(m.matmul(m.concat([row, h], 1), w)),
            m.constant(data),
            initializer=m.zeros([4, 2]),
        )
        step = m.train.GradientDescentOptimizer(0.5).minimize(m.reduce_sum(states[-1] ** 2))
        with m.Session(graph=graph) as session:
            session.run(m.global_variables_initializer())
            for _ in range(3):
                session.run(step)
            return session.run(w)
