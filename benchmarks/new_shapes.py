"""Measure steps whose feed shapes are new each time.

`python -m benchmarks.new_shapes [MODEL ...] [--sizes N] [--threads N] [--learn S]`. tfjit and
TensorFlow run the same training step in turn, each time with sizes that neither has seen. Of each
library: median wall time and mean processor time of a step. Of tfjit: growth of resident memory
(TensorFlow's included), and the numbers of variants, size classes and kernels made meanwhile.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

Sizes = tuple[int, ...]


@dataclass(frozen=True)
class Model:
    """A training step over symbolic sizes.

    build: takes a TF1-style module, returns the loss. feeds: values by tensor name for sizes.
    sizes: all tuples of sizes that the measurement may use.
    """

    build: Callable[[Any], Any]
    feeds: Callable[[np.random.Generator, Sizes], dict[str, np.ndarray]]
    sizes: list[Sizes]


def _normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


class _Layers:
    """Variables with the same initial values in both libraries."""

    def __init__(self, tf: Any) -> None:
        self.tf = tf
        self.rng = np.random.default_rng(1)

    def weights(self, *shape: int) -> Any:
        return self.tf.Variable(self.tf.constant(0.1 * _normal(self.rng, *shape)))

    def dense(self, x: Any, before: int, after: int) -> Any:
        return self.tf.matmul(x, self.weights(before, after)) + self.weights(after)


def _mlp(tf: Any) -> Any:
    layers = _Layers(tf)
    x = tf.placeholder(tf.float32, [None, 64], name="x")
    labels = tf.placeholder(tf.int32, [None], name="labels")
    widths = (64, 256, 256, 128, 128, 64)
    for before, after in itertools.pairwise(widths):
        x = tf.nn.relu(layers.dense(x, before, after))
    logits = layers.dense(x, 64, 10)
    return tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    )


def _attention(tf: Any) -> Any:
    """Two blocks of attention over a history, with layer norm."""
    layers = _Layers(tf)
    x = tf.placeholder(tf.float32, [None, None, 32], name="x")
    batch, length = tf.shape(x)[0], tf.shape(x)[1]

    def dense(y: Any) -> Any:
        flat = layers.dense(tf.reshape(y, [-1, 32]), 32, 32)
        return tf.reshape(flat, [batch, length, 32])

    for _ in range(2):
        heads = [
            tf.transpose(tf.reshape(dense(x), [batch, length, 4, 8]), [0, 2, 1, 3])
            for _ in range(3)
        ]
        scores = tf.nn.softmax(tf.matmul(heads[0], heads[1], transpose_b=True) * 0.35)
        mixed = tf.transpose(tf.matmul(scores, heads[2]), [0, 2, 1, 3])
        x = x + dense(tf.reshape(mixed, [batch, length, 32]))
        mean = tf.reduce_mean(x, -1, keepdims=True)
        spread = tf.reduce_mean(tf.square(x - mean), -1, keepdims=True)
        x = (x - mean) * tf.math.rsqrt(spread + 1e-5)
    return tf.reduce_mean(tf.square(x - 1.0))


def _lists(tf: Any) -> Any:
    """A click model: means over three lists of different lengths."""
    layers = _Layers(tf)
    names = ("seen", "bought", "liked")
    lists = [tf.placeholder(tf.float32, [None, None, 16], name=name) for name in names]
    labels = tf.placeholder(tf.float32, [None], name="labels")
    x = tf.concat([tf.reduce_mean(tf.nn.relu(each), 1) for each in lists], 1)
    x = tf.nn.relu(layers.dense(x, 48, 64))
    logits = tf.squeeze(layers.dense(x, 64, 1), [1])
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))


def _images(tf: Any) -> Any:
    layers = _Layers(tf)
    x = tf.placeholder(tf.float32, [None, 24, 24, 3], name="x")
    for before, after in ((3, 16), (16, 32)):
        kernel = layers.weights(3, 3, before, after)
        x = tf.nn.relu(tf.nn.conv2d(x, kernel, strides=[1, 2, 2, 1], padding="SAME"))
    return tf.reduce_mean(tf.square(layers.dense(tf.reduce_mean(x, [1, 2]), 32, 10)))


def _list_feeds(rng: np.random.Generator, sizes: Sizes) -> dict[str, np.ndarray]:
    batch, *lengths = sizes
    feeds = {
        f"{name}:0": _normal(rng, batch, length, 16)
        for name, length in zip(("seen", "bought", "liked"), lengths)
    }
    return feeds | {"labels:0": rng.integers(0, 2, batch).astype(np.float32)}


MODELS = {
    "mlp": Model(
        _mlp,
        lambda rng, s: {
            "x:0": _normal(rng, s[0], 64),
            "labels:0": rng.integers(0, 10, s[0]).astype(np.int32),
        },
        [(n,) for n in range(16, 1016)],
    ),
    "attention": Model(
        _attention,
        lambda rng, s: {"x:0": _normal(rng, *s, 32)},
        [(16, t) for t in range(5, 30)],
    ),
    "texts": Model(  # both sizes vary
        _attention,
        lambda rng, s: {"x:0": _normal(rng, *s, 32)},
        [(n, t) for n in range(8, 40) for t in range(5, 37)],
    ),
    "lists": Model(
        _lists,
        _list_feeds,
        [(32, a, b, c) for a in range(5, 25, 3) for b in range(6, 30, 3) for c in range(4, 28, 4)],
    ),
    "images": Model(
        _images,
        lambda rng, s: {"x:0": _normal(rng, s[0], 24, 24, 3)},
        [(n,) for n in range(8, 208)],
    ),
}


class _Side:
    """One library's session, with what its steps took."""

    def __init__(self, tf: Any, model: Model, threads: int) -> None:
        graph = tf.Graph()
        with graph.as_default():
            self.loss = model.build(tf)
            self.train = tf.train.AdamOptimizer(1e-3).minimize(self.loss)
            start = tf.global_variables_initializer()
        config = tf.ConfigProto(
            intra_op_parallelism_threads=threads, inter_op_parallelism_threads=1
        )
        self.session = tf.Session(graph=graph, config=config)
        self.session.run(start)
        self.wall: list[float] = []
        self.processor: list[float] = []

    def step(self, feeds: dict[str, np.ndarray]) -> float:
        wall, processor = time.perf_counter(), time.process_time()
        loss, _ = self.session.run([self.loss, self.train], feeds)
        self.wall.append(time.perf_counter() - wall)
        self.processor.append(time.process_time() - processor)
        return float(loss)

    def figures(self) -> str:
        """Return "median wall ms / mean processor ms"."""
        return f"{1e3 * np.median(self.wall):7.2f} / {1e3 * np.mean(self.processor):7.2f} ms"


def _resident_mb() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def _counts(side: _Side) -> tuple[int, int, int]:
    """Return the numbers of variants, size classes and compiled kernels."""
    from tfjit.kernels.jit.store import store

    (plan,) = (p for p in side.session._runtime_session.plan_cache.plans() if p.feeds)
    classes = plan.generic.builds if plan.generic is not None else 0
    return len(plan.variants), classes, store.snapshot().compiled


def measure(name: str, count: int, threads: int, learn_s: float) -> str:
    """Return the row of one model."""
    import tensorflow

    import tfjit

    tensorflow.compat.v1.disable_eager_execution()
    model, rng = MODELS[name], np.random.default_rng(0)
    order = [model.sizes[k] for k in rng.permutation(len(model.sizes))][:count]
    ours, theirs = _Side(tfjit, model, threads), _Side(tensorflow.compat.v1, model, threads)
    first, rest = order[:4], order[4:]
    for sizes in first:
        feeds = model.feeds(rng, sizes)
        ours.step(feeds), theirs.step(feeds)
    time.sleep(learn_s)
    for side in (ours, theirs):
        side.wall.clear(), side.processor.clear()
    before, resident, worst = _counts(ours), _resident_mb(), 0.0
    for sizes in rest:
        feeds = model.feeds(rng, sizes)
        a, b = ours.step(feeds), theirs.step(feeds)
        worst = max(worst, abs(a - b) / max(abs(b), 1e-6))
    made = [after - b for after, b in zip(_counts(ours), before)]
    return (
        f"{name:10} {len(rest):5}  {ours.figures()}  {theirs.figures()}  "
        f"{_resident_mb() - resident:+7.1f} MB  {made[0]:4} variants {made[1]:4} classes "
        f"{made[2]:4} kernels  losses differ by {worst:.1e}"
    )


def main(argv: list[str] | None = None) -> None:
    """Print a row for each model."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.new_shapes", description=__doc__)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"of {', '.join(MODELS)}")
    parser.add_argument("--sizes", type=int, default=1000, help="new shapes (default 1000)")
    parser.add_argument("--threads", type=int, default=1, help="intra-op threads (default 1)")
    parser.add_argument(
        "--learn", type=float, default=10.0, help="seconds after the first shapes (default 10)"
    )
    args = parser.parse_args(argv)
    unknown = set(args.models) - set(MODELS)
    if unknown:
        parser.error(f"no model {', '.join(sorted(unknown))}")
    print("model      steps  tfjit: wall / processor  TensorFlow: the same")
    for name in args.models or MODELS:
        print(measure(name, args.sizes, args.threads, args.learn), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
