"""Independent parts of one run, and the cost of a node in the dataflow executor."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np

from benchmarks.scripts.models import weights
from benchmarks.workload import Workload, feeds_of, uniform

NODES = 1000
_SLEEP_S = 0.02
_PATIENCE_S = 10

_kept: list[Any] = []
"""Graphs whose nodes call Python: their functions live as long as they."""


def _function(tf: Any, function: Any, x: Any) -> Any:
    _kept.append(tf.get_default_graph())
    return tf.numpy_function(function, [x], tf.float32)


def _input(tf: Any, *shape: int) -> Any:
    return tf.placeholder(tf.float32, shape, name="x")


def _sleeps(tf: Any) -> None:
    def sleep(a: Any) -> Any:
        time.sleep(_SLEEP_S)
        return a

    x = _input(tf, 4)
    tf.add_n([_function(tf, sleep, x + float(i)) for i in range(3)], name="y")


def _meeting(tf: Any) -> None:
    barrier = threading.Barrier(2)

    def meet(a: Any) -> Any:
        barrier.wait(_PATIENCE_S)
        return a

    x = _input(tf, 4)
    tf.add(_function(tf, meet, x), _function(tf, meet, x + 1.0), name="y")


def _tiny_functions(tf: Any) -> None:
    x = _input(tf, 4)
    tf.add_n([_function(tf, np.negative, x + float(i)) for i in range(4)], name="y")


def _cheap_chain(tf: Any, y: Any) -> None:
    for _ in range(NODES // 4):
        y = tf.reshape(tf.matmul(tf.reshape(y, [2, 2]), tf.constant(np.eye(2, dtype="f"))), [4])
        y = tf.tanh(y)
    tf.identity(y, name="y")


def _behind_a_function(tf: Any) -> None:
    _cheap_chain(tf, _function(tf, np.negative, _input(tf, 4)))


def _wide_behind_a_function(tf: Any) -> None:
    y = _function(tf, np.negative, _input(tf, 4))
    rows = [
        tf.matmul(tf.reshape(y + float(i), [2, 2]), tf.reshape(y * float(i), [2, 2]))
        for i in range(NODES // 5)
    ]
    tf.add_n(rows, name="y")


def _behind_a_branch(tf: Any) -> None:
    x = _input(tf, 4)
    no, yes = tf.raw_ops.Switch(data=x, pred=tf.reduce_sum(x) > -100.0)
    merged = tf.raw_ops.Merge(inputs=[no, _function(tf, np.negative, yes)])[0]
    _cheap_chain(tf, merged)


def _dense(tf: Any, rows: int, width: int, layers: int, models: int, relu: bool = True) -> None:
    rng = np.random.default_rng(1)
    x = _input(tf, rows, width)
    results = []
    for _ in range(models):
        h = x
        for _ in range(layers):
            h = tf.matmul(h, tf.constant(weights(rng, width, width)))
            h = tf.nn.relu(h) if relu else h
        results.append(h)
    tf.add_n(results, name="y")


def workloads() -> list[Workload]:
    """Functions that sleep or meet, cheap nodes behind one, chains, towers and an ensemble."""
    here = dict.fromkeys(("tf other", "xla", "jax", "ort"), "it cannot call functions of this one")
    x4 = feeds_of(x=uniform([4]))
    python = {
        f"three functions that sleep {_SLEEP_S * 1e3:.0f} ms": _sleeps,
        "two functions that meet": _meeting,
        "four tiny functions": _tiny_functions,
        f"chain of {NODES} nodes behind a function": _behind_a_function,
        f"{NODES} nodes side by side behind a function": _wide_behind_a_function,
        f"chain of {NODES} nodes behind a function in a branch": _behind_a_branch,
    }
    # TensorFlow's `tf inline` and a pool of one thread never let two functions meet.
    alone = {**here, "tf inline": "it runs one function after the other"}
    found = [
        Workload(
            name,
            ["y:0"],
            x4,
            build,
            leave_out=alone if build is _meeting else here,
        )
        for name, build in python.items()
    ]
    return [
        *found,
        Workload(
            "two chains of 8 products 256x256x256, one intra-op thread",
            ["y:0"],
            feeds_of(x=uniform([256, 256])),
            lambda tf: _dense(tf, 256, 256, 8, 2, relu=False),
            intra_threads=1,
            atol=1e-3,
        ),
        Workload(
            "two towers of 4 layers of 128, batch 64",
            ["y:0"],
            feeds_of(x=uniform([64, 128])),
            lambda tf: _dense(tf, 64, 128, 4, 2),
            atol=1e-4,
        ),
        Workload(
            "ensemble of 8 models of 3 layers of 32, batch 1",
            ["y:0"],
            feeds_of(x=uniform([1, 32])),
            lambda tf: _dense(tf, 1, 32, 3, 8),
        ),
    ]
