"""Build random structured loops with TensorFlow.

Scalars and vectors of several dtypes, branches and loops inside.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
from hypothesis import strategies as st

tf1 = tf.compat.v1

SIZES = (0, 1, 3, 70, 300)


class LoopMaker:
    """Draw the body of a loop over typed values.

    `vectors` are of one length.
    """

    def __init__(self, data: st.DataObject, *, reductions: bool, failing: bool) -> None:
        self.data = data
        self.reductions = reductions
        self.failing = failing

    def pick(self, values: list[Any], dtype: Any, vector: bool | None = None) -> Any:
        """One of the values of a dtype."""
        fits = [
            v
            for v in values
            if v.dtype == dtype and (vector is None or (v.shape.rank == 1) == vector)
        ]
        return self.data.draw(st.sampled_from(fits)) if fits else None

    def chance(self, one_in: int) -> bool:
        """Return True once in `one_in` times on average."""
        return self.data.draw(st.integers(0, one_in - 1)) == 0

    def step(self, values: list[Any]) -> Any:
        """A new value from earlier ones."""
        draw = self.data.draw
        how = draw(st.integers(0, 8))
        dtype = draw(st.sampled_from([tf.float32, tf.float32, tf.int32, tf.int64]))
        x, y = self.pick(values, dtype), self.pick(values, dtype)
        if how <= 3:
            op = draw(st.sampled_from([tf.add, tf.subtract, tf.multiply, tf.maximum, tf.minimum]))
            return op(x, y)
        if how == 4:
            return draw(st.sampled_from([tf.less, tf.greater_equal, tf.equal]))(x, y)
        if how == 5:
            flag = self.pick(values, tf.bool)
            return tf.where(flag, x, y)
        if how == 6:
            if dtype.is_floating:
                return x / (tf.abs(y) + 0.5)
            return x // (
                y
                if self.failing and self.chance(3) and dtype == tf.int32
                else tf.clip_by_value(y, 1, 9)
            )
        if how == 7:
            if self.reductions and dtype.is_integer:
                v = self.pick(values, dtype, vector=True)
                return (
                    draw(st.sampled_from([tf.reduce_sum, tf.reduce_max]))(v)
                    if v is not None and v.shape[0] != 0
                    else -x
                )
            return tf.cast(
                tf.clip_by_value(x, -1000, 1000),
                draw(st.sampled_from([tf.float32, tf.int32, tf.int64])),
            )
        return -x

    def steps(self, values: list[Any], count: int) -> list[Any]:
        """The values and `count` new ones."""
        found = list(values)
        for _ in range(count):
            found.append(self.step(found))
        return found

    def like(self, values: list[Any], want: Any) -> Any:
        """Return some value with dtype and shape of another.

        A vector is made of a scalar where no vector exists.
        """
        fits = [v for v in values if v.dtype == want.dtype and v.shape == want.shape]
        scalars = [v for v in values if v.dtype == want.dtype and v.shape.rank == 0]
        chosen = self.data.draw(st.sampled_from([*fits[-4:], *scalars[-2:]]))
        return (
            chosen
            if chosen.shape == want.shape
            else tf.fill(tf.shape(want), chosen)
            if want.shape.rank
            else want
        )

    def branch(self, values: list[Any], wants: list[Any]) -> list[Any]:
        """Values like `wants` by one of two ways."""
        flag = self.pick(values, tf.bool, vector=False)

        def side() -> list[Any]:
            found = self.steps(values, self.data.draw(st.integers(0, 3)))
            return [tf.identity(self.like(found, want)) for want in wants]

        return list(tf.cond(flag, side, side))

    def body(self, values: list[Any], inner: bool) -> list[Any]:
        """The next values of the loop variables."""
        found = self.steps(values, self.data.draw(st.integers(1, 6)))
        if self.chance(2):
            wants = [self.data.draw(st.sampled_from(values)) for _ in range(2)]
            found += self.branch(found, wants)
        if inner and self.chance(3):
            start = [
                self.pick(values, tf.int32, vector=False),
                self.data.draw(st.sampled_from(values)),
            ]

            def step(k: Any, v: Any, *_: Any) -> list[Any]:
                made = self.steps([*values, k, v], 2)
                return [k + 1, self.like(made, v)]

            found += tf.while_loop(lambda k, v: k < start[0] + 3, step, start)
        found = self.steps(found, self.data.draw(st.integers(0, 4)))
        return [self.like(found, value) for value in values]


def random_loop(
    data: st.DataObject, size: int, *, reductions: bool = True, failing: bool = False
) -> tuple[Any, list[str], dict[str, Any]]:
    """Return (graph, fetches, feeds) of a random loop.

    The loop is over scalars and vectors of `size` elements.
    """
    maker = LoopMaker(data, reductions=reductions, failing=failing)
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    feeds: dict[str, Any] = {
        "n": np.int32(data.draw(st.integers(0, 7))),
        "f": np.float32(rng.normal()),
        "k": np.int32(rng.integers(-5, 5)),
        "l": np.int64(rng.integers(-(2**40), 2**40)),
        "v": rng.normal(size=size).astype(np.float32),
        "w": rng.integers(-(2**31), 2**31, size, dtype=np.int32),
    }
    with tf1.Graph().as_default() as graph:
        given = {
            name: tf1.placeholder(value.dtype, np.shape(value), name=name)
            for name, value in feeds.items()
        }
        first = [given[name] for name in "fklvw"] + [tf.constant(data.draw(st.booleans()))]
        if data.draw(st.booleans()):
            first[1] = tf.constant(3)
        constant = tf.constant(rng.normal(size=size).astype(np.float32))
        keep = data.draw(st.sampled_from([None, 0, 3]))  # a variable that stays as it is

        def body(i: Any, *values: Any) -> list[Any]:
            made = maker.body([*values, constant], inner=True)[: len(values)]
            if keep is not None:
                made[keep] = values[keep]
            return [i + 1, *made]

        results = tf.while_loop(lambda i, *_: i < given["n"], body, [0, *first])
        fetches = [tf.identity(r, name=f"r{k}").name for k, r in enumerate(results)]
    return graph, fetches, {f"{name}:0": value for name, value in feeds.items()}
