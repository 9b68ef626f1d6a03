"""Give a GraphDef to TensorFlow, as a graph or a compiled function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tfjit.lab.peers.graph import PeerGraph

if TYPE_CHECKING:
    import tensorflow as tf


def imported(graph_def: bytes) -> tf.Graph:
    """Return a tf.Graph of the GraphDef."""
    import tensorflow as tf

    tf1 = tf.compat.v1
    graph = tf1.Graph()
    with graph.as_default():
        tf1.import_graph_def(tf1.GraphDef.FromString(graph_def), name="")
    return graph


def session_config(threads: int, inter_threads: int | None = None) -> tf.compat.v1.ConfigProto:
    """Return TensorFlow's ConfigProto for a number of threads.

    inter_threads: of the executor, `threads` by default.
    """
    import tensorflow as tf

    return tf.compat.v1.ConfigProto(
        intra_op_parallelism_threads=threads,
        inter_op_parallelism_threads=inter_threads or threads,
        # without them, the first session of the process sets the number for all
        use_per_session_threads=True,
    )


class XlaGraph:
    """A graph as tf.function(jit_compile=True); its variables become tf.Variables.

    Called with the values of `feeds` in order; returns the fetched arrays.
    """

    def __init__(
        self,
        graph_def: bytes,
        fetches: Sequence[str],
        targets: Sequence[str],
        feeds: Sequence[str],
        setup: Sequence[str] = (),
    ) -> None:
        import tensorflow as tf

        self._constant = tf.constant
        self._handles: dict[str, tf.Tensor] = {}
        graph = PeerGraph(graph_def, fetches, targets, feeds)
        self._compiled = tf.function(self._calls(graph), jit_compile=True)
        self._setup: Callable[[], object] = lambda: None
        if setup:
            self._setup = tf.function(self._calls(PeerGraph(graph_def, (), setup, ())))

    def initialise(self) -> None:
        """Run the set-up operations."""
        self._setup()

    def __call__(self, values: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Run once."""
        constant = self._constant
        return [out.numpy() for out in self._compiled(*[constant(value) for value in values])]

    def _calls(self, part: PeerGraph) -> Callable[..., list[tf.Tensor]]:
        """Return a function that runs `part` on fed values.

        The function returns the fetches.
        """
        import tensorflow as tf

        variables = [node for node in part.order if node.op == "VarHandleOp"]
        for node in variables:
            # uninitialised, as the graph's are: the set-up operations assign them
            if node.name not in self._handles:
                self._handles[node.name] = tf.raw_ops.VarHandleOp(
                    dtype=node.attrs["dtype"],
                    shape=node.attrs["shape"],
                    shared_name=f"{id(self)}/{node.name}",
                )
        replaced = {node.name for node in variables} | {
            name.partition(":")[0] for name in part.feeds
        }
        message = tf.compat.v1.GraphDef.FromString(part.subgraph(replaced))

        def call(*values: tf.Tensor) -> list[tf.Tensor]:
            inputs = dict(zip(part.feeds, values))
            capture = tf.compat.v1.get_default_graph().capture
            inputs |= {f"{node.name}:0": capture(self._handles[node.name]) for node in variables}
            elements = [*part.fetches, *part.targets]
            found: list[tf.Tensor | tf.Operation] = tf.graph_util.import_graph_def(
                message, input_map=inputs, return_elements=elements, name=""
            )
            with tf.control_dependencies([op for op in found if isinstance(op, tf.Operation)]):
                return [tf.identity(t) for t in found if not isinstance(t, tf.Operation)]

        return call


__all__ = ["XlaGraph", "imported", "session_config"]
