"""Graphs with collectives, made by TensorFlow's module, for sessions of both libraries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.ops import collective_ops

import tfjit

tf1 = tf.compat.v1

Members = Callable[[], Sequence[Any]]
"""Builds a graph; returns the tensors to fetch."""


def on(number: int) -> Any:
    """Return a block whose nodes are on CPU device `number`."""
    return tf1.device(f"/CPU:{number}")


def reduce(
    values: Sequence[Any], merge: str = "Add", final: str = "Id", size: int = 0, **options: Any
) -> list[Any]:
    """Reduce values, the first on CPU:0, the second on CPU:1 and so on. size: of the group."""
    offsets = options.pop("subdiv_offsets", (0,))
    made = []
    for number, value in enumerate(values):
        with on(number):
            x = tf1.constant(value)
            keys = size or len(values), 1, 1
            made.append(collective_ops.all_reduce(x, *keys, merge, final, offsets, **options))
    return made


def reduce_v2(values: Sequence[Any], merge: str = "Add", final: str = "Id") -> list[Any]:
    """Reduce values; the keys are tensors."""
    made = []
    for number, value in enumerate(values):
        with on(number):
            x = tf1.constant(value)
            keys = len(values), 1, 1
            made.append(collective_ops.all_reduce_v2(x, *keys, merge, final))
    return made


def gather(values: Sequence[Any], version: int = 1) -> list[Any]:
    """Join values along the first axis."""
    function = collective_ops.all_gather if version == 1 else collective_ops.all_gather_v2
    made = []
    for number, value in enumerate(values):
        with on(number):
            made.append(function(tf1.constant(value), len(values), 1, 1))
    return made


def broadcast(value: Any, size: int, source: int, version: int = 1) -> list[Any]:
    """Give the value of CPU:`source` to `size` devices."""
    value = np.asarray(value)
    made = []
    for number in range(size):
        with on(number):
            keys = size, 1, 1
            if number == source:
                x = tf1.constant(value)
                made.append(
                    collective_ops.broadcast_send(x, value.shape, x.dtype, *keys)
                    if version == 1
                    else collective_ops.broadcast_send_v2(x, *keys)
                )
            else:
                function = (
                    collective_ops.broadcast_recv
                    if version == 1
                    else collective_ops.broadcast_recv_v2
                )
                shape = value.shape if version == 1 else list(value.shape)
                made.append(function(shape, tf.as_dtype(value.dtype), *keys))
    return made


def imported(graph: tf.Graph) -> tfjit.Graph:
    """Return TensorFlow's graph as one of tfjit."""
    made = tfjit.Graph()
    with made.as_default():
        graph_def = tfjit.GraphDef.FromString(graph.as_graph_def().SerializeToString())
        tfjit.import_graph_def(graph_def, name="")
    return made


@contextmanager
def sessions(build: Members, devices: int = 2) -> Iterator[tuple[Any, Any, list[Any]]]:
    """Yield (TensorFlow's session, tfjit's, the tensors' names) over the same graph."""
    with tf1.Graph().as_default() as graph:
        fetches = [one.name for one in build()]
    count = {"CPU": devices}
    theirs = tf1.Session(graph=graph, config=tf1.ConfigProto(device_count=count))
    ours = tfjit.Session(graph=imported(graph), config=tfjit.ConfigProto(device_count=count))
    with theirs, ours:
        yield theirs, ours, fetches


def outcome(session: Any, fetches: Any, **options: Any) -> tuple[str, Any]:
    """Return ("", values) of a run, or (the class of its error, the text)."""
    kind = tf1.RunOptions if isinstance(session, tf1.Session) else tfjit.RunOptions
    try:
        return "", session.run(fetches, options=kind(**options) if options else None)
    except tf.errors.OpError as error:
        return type(error).__name__, str(error)


__all__ = ["broadcast", "gather", "imported", "on", "outcome", "reduce", "reduce_v2", "sessions"]
