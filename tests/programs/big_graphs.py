"""Draw graphs of many nodes that reach every template, by a seed.

Values stay small: sums are scaled and results are squashed now and then, so that a graph of 500
nodes does not amplify rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1

SHAPES: tuple[tuple[int, ...], ...] = (
    (8, 16),
    (8, 16),
    (8, 16),
    (5, 33),
    (40, 64),
    (2, 4, 8, 16),
    (2, 6, 16),
    (2, 6, 16),
    (2, 7, 7, 8),
    (2, 7, 7, 8),
    (64,),
    (128, 128),
)

UNARY: tuple[Callable[[Any], Any], ...] = (
    tf.tanh,
    tf.sigmoid,
    tf.nn.relu,
    tf.nn.relu6,
    tf.nn.elu,
    tf.nn.softplus,
    tf.nn.leaky_relu,
    tf.math.erf,
    tf.negative,
    tf.abs,
    tf.sin,
    lambda x: tf.square(x) * 0.5,
    lambda x: tf.exp(-tf.abs(x)),
    lambda x: tf.sqrt(tf.abs(x) + 1.0),
    lambda x: tf.math.log1p(tf.abs(x)),
    lambda x: tf.math.rsqrt(tf.square(x) + 1.0),
    lambda x: tf.clip_by_value(x, -0.5, 0.75),
    lambda x: x * tf.sigmoid(x),
    lambda x: tf.cast(tf.cast(x, tf.float64) * 0.5, tf.float32),
)
BINARY: tuple[Callable[[Any, Any], Any], ...] = (
    tf.add,
    tf.subtract,
    tf.multiply,
    tf.maximum,
    tf.minimum,
    tf.math.squared_difference,
    lambda x, y: x / (tf.abs(y) + 1.0),
    lambda x, y: tf.where(tf.greater(tf.zeros_like(x), 1.0), x, x * y),
)


def theirs(graph: Any, fetches: Any, feeds: Any) -> Any:
    """Return TensorFlow's values.

    Its graph optimizer is off: it makes some of these graphs invalid (a bias behind a convolution).
    """
    config = tf1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    with tf1.Session(graph=graph, config=config) as session:
        return session.run(fetches, feeds)


class BigGraph:
    """A graph being drawn.

    feeds: placeholder name -> array. fetches: names of what a run asks for.
    """

    def __init__(self, seed: int, nodes: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.graph = tf1.Graph()
        self.feeds: dict[str, np.ndarray] = {}
        self.text = f"seed {seed}, {nodes} nodes"
        with self.graph.as_default():
            shapes = [SHAPES[self.pick(len(SHAPES))] for _ in range(1 + self.pick(3))]
            self.pool: list[Any] = [self.fed(shape) for shape in shapes]
            while len(self.graph.get_operations()) < nodes:
                self.step()
            self.fetches = self.results()

    def pick(self, n: int) -> int:
        return int(self.rng.integers(n))

    def fed(self, shape: tuple[int, ...]) -> Any:
        x = tf1.placeholder(tf.float32, shape)
        self.feeds[x.name] = self.rng.uniform(-1, 1, shape).astype("f4")
        return x

    def constant(self, shape: tuple[int, ...], scale: float = 1.0) -> Any:
        return tf.constant((self.rng.uniform(-1, 1, shape) * scale).astype("f4"))

    def value(self) -> Any:
        """Return a value, late ones more often."""
        count = len(self.pool)
        return self.pool[count - 1 - min(self.pick(count), self.pick(count))]

    def beside(self, x: Any) -> Any:
        """Return a value that broadcasts to the shape of another."""
        shape = tuple(x.shape.as_list())
        alike = [y for y in self.pool if y.shape == x.shape]
        how = self.pick(8)
        if how < 4 and alike:
            return alike[-1 - min(self.pick(len(alike)), 6)]
        if how == 4:
            return self.constant(shape[-1:])
        if how == 5:
            return self.constant(())
        if how == 6 and len(shape) > 1:
            return tf.reduce_mean(x, axis=len(shape) - 1, keepdims=True)
        return self.constant(tuple(1 if self.pick(2) else n for n in shape))

    def results(self) -> list[str]:
        """Return the values without users, and some others."""
        leaves = [y for y in self.pool if not y.consumers()]
        others = [self.value() for _ in range(self.pick(6))]
        return list(dict.fromkeys(y.name for y in (leaves + others)[-60:]))

    def step(self) -> None:
        x = self.value()
        made = STEPS[self.pick(len(STEPS))](self, x)
        self.pool += [y for y in made if 0 < y.shape.num_elements() <= 1 << 15]


def chain(g: BigGraph, x: Any) -> list[Any]:
    """Return a chain of scalar functions, some of whose links are kept."""
    kept = []
    for _ in range(1 + g.pick(8)):
        x = (
            UNARY[g.pick(len(UNARY))](x)
            if g.pick(2)
            else BINARY[g.pick(len(BINARY))](x, g.beside(x))
        )
        if not g.pick(4):
            kept.append(x)
    return [*kept, tf.tanh(x)]


def rows(g: BigGraph, x: Any) -> list[Any]:
    """Return rounds of row statistics, each of which keeps an array."""
    if not len(x.shape):
        return []
    kept = []
    for _ in range(1 + g.pick(6)):
        how = g.pick(5)
        if how == 0:
            x = tf.nn.softmax(x)
        elif how == 1:
            x = tf.nn.log_softmax(x) * 0.2
        elif how == 2:
            mean, variance = tf.nn.moments(x, [-1], keepdims=True)
            x = (x - mean) * tf.math.rsqrt(variance + 0.1)
        elif how == 3:
            x = x - tf.reduce_max(x, -1, keepdims=True) * 0.5
        else:
            x = tf.tanh(x) + tf.reduce_mean(x, -1, keepdims=True)
            kept.append(tf.reduce_sum(x, -1) * 0.1)
        if not g.pick(4):
            kept.append(x)
    return [*kept, x]


def product(g: BigGraph, x: Any) -> list[Any]:
    """Return a product with an epilogue."""
    if len(x.shape) < 2:
        return []
    depth, width = int(x.shape[-1]), (16, 16, 33, 64)[g.pick(4)]
    if len(x.shape) == 2 or g.pick(2):
        flat = tf.reshape(x, [-1, depth])
        y = tf.matmul(flat, g.constant((depth, width), 1.0 / np.sqrt(depth)), transpose_b=False)
        y = tf.nn.bias_add(y, g.constant((width,))) if g.pick(2) else y
        y = tf.reshape(y, [*x.shape.as_list()[:-1], width])
    else:
        y = tf.matmul(x, x, transpose_b=True) / float(np.sqrt(depth))
    kept = [y] if not g.pick(4) else []
    for _ in range(g.pick(6)):
        y = UNARY[g.pick(len(UNARY))](y) if g.pick(2) else BINARY[g.pick(6)](y, g.beside(y))
        kept += [y] if not g.pick(5) else []
    return [*kept, tf.tanh(y)]


def attention(g: BigGraph, x: Any) -> list[Any]:
    if len(x.shape) < 3:
        return []
    scale = 1.0 / float(np.sqrt(int(x.shape[-1])))
    scores = tf.matmul(tf.tanh(x), x, transpose_b=True) * scale
    return [tf.matmul(tf.nn.softmax(scores), x)]


def image(g: BigGraph, x: Any) -> list[Any]:
    """Return a convolution or a pooling with work behind it."""
    if len(x.shape) != 4:
        return []
    channels, how = int(x.shape[-1]), g.pick(4)
    if how == 0:
        filters = g.constant((3, 3, channels, 8), 1.0 / np.sqrt(9 * channels))
        y = tf.nn.bias_add(tf.nn.conv2d(x, filters, 1 + g.pick(2), "SAME"), g.constant((8,)))
    elif how == 1:
        y = tf.nn.depthwise_conv2d(x, g.constant((3, 3, channels, 1), 0.3), [1] * 4, "SAME")
    elif how == 2:
        y = tf.nn.max_pool2d(x, 2, 2, "SAME")
    else:
        y = tf.nn.avg_pool2d(x, 3, 1, "SAME")
    return [tf.nn.relu6(y + 0.5), y] if g.pick(2) else chain(g, y)


def moved(g: BigGraph, x: Any) -> list[Any]:
    """Return values in other places."""
    rank = len(x.shape)
    if not rank:
        return []
    axis, how = g.pick(rank), g.pick(8)
    size = int(x.shape[axis])
    if how == 0:
        return [tf.transpose(x, [int(k) for k in g.rng.permutation(rank)])]
    if how == 1 and size % 2 == 0:
        return list(tf.split(x, 2, axis))
    if how == 2:
        return [tf.reverse(x, [axis]) * 0.5]
    if how == 3 and size > 2:
        index = [slice(None)] * rank
        index[axis] = slice(1, size - 1)
        return [x[tuple(index)] + 0.25]
    if how == 4:
        return [tf.concat([x, g.beside(x) * tf.ones_like(x)], axis)]
    if how == 5:
        return [tf.reshape(x, [-1]), tf.reshape(tf.tanh(x), [size, -1])]
    if how == 6 and size <= 8:
        return [tf.tanh(part) for part in tf.unstack(x, axis=axis)]
    return [tf.cumsum(x, axis) * 0.1]


def reduced(g: BigGraph, x: Any) -> list[Any]:
    """Return reductions of one tensor, over the same axes or others."""
    rank = len(x.shape)
    if not rank:
        return []
    axes = sorted({g.pick(rank) for _ in range(1 + g.pick(2))})
    y = UNARY[g.pick(len(UNARY))](x)
    found = [tf.reduce_mean(y, axes), tf.reduce_max(x, axes, keepdims=True) - x]
    if g.pick(2):
        found.append(tf.tanh(tf.reduce_sum(tf.square(x - tf.reduce_mean(x, axes, True)), axes)))
    return found


def wide(g: BigGraph, x: Any) -> list[Any]:
    """Return a sum of many values, or many values of one."""
    if g.pick(2):
        count = 2 + g.pick(30)
        return [tf.tanh(tf.add_n([x * (0.1 + k / count) for k in range(count)]) * 0.1)]
    return [tf.tanh(x * (0.5 + k)) for k in range(2 + g.pick(20))]


def gradient(g: BigGraph, x: Any) -> list[Any]:
    """Return the gradient of a smooth loss: that of a maximum depends on ties."""
    if len(x.shape) < 2:
        return []
    h = tf.nn.bias_add(tf.tanh(x), g.constant(tuple(x.shape.as_list()[-1:])))
    for _ in range(1 + g.pick(4)):
        how = g.pick(5)
        if how == 0:
            h = tf.nn.softmax(h) + h
        elif how == 1:
            mean, variance = tf.nn.moments(h, [-1], keepdims=True)
            h = (h - mean) * tf.math.rsqrt(variance + 0.1)
        elif how == 2:
            h = tf.sigmoid(h) * h
        elif how == 3 and len(x.shape) == 2:
            h = tf.matmul(h, g.constant((int(h.shape[-1]), 16), 0.2))
        else:
            order = [*range(len(x.shape))]
            h = tf.transpose(tf.sin(h), [*order[:-2], *order[-2:][::-1]])
    return [tf.tanh(dx) for dx in tf.gradients(tf.reduce_sum(tf.square(h)), [x])]


STEPS: tuple[Callable[[BigGraph, Any], list[Any]], ...] = (
    chain,
    chain,
    chain,
    chain,
    rows,
    rows,
    product,
    product,
    attention,
    image,
    image,
    moved,
    moved,
    moved,
    reduced,
    reduced,
    wide,
    gradient,
)
