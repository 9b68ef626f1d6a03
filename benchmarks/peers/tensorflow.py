"""Run a graph in TensorFlow's ways.

The default session, without hand-over between threads, the options callable, and XLA.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.candidates import Candidate, SessionCandidate
from benchmarks.peers.graph import PeerGraph
from benchmarks.workload import Feeds


def imported(graph_def: bytes) -> Any:
    """A tf.Graph of the GraphDef."""
    import tensorflow as tf

    tf1 = tf.compat.v1
    graph = tf1.Graph()
    with graph.as_default():
        tf1.import_graph_def(tf1.GraphDef.FromString(graph_def), name="")
    return graph


class Default(SessionCandidate):
    """tf.compat.v1.Session.run with its default options."""

    name = "tf"

    def prepare(self, graph_def: bytes, threads: int) -> None:
        import tensorflow as tf

        graph = imported(graph_def)
        config = tf.compat.v1.ConfigProto(
            intra_op_parallelism_threads=self.workload.intra_threads or threads,
            inter_op_parallelism_threads=threads,
            # without them, the first session of the process sets the number for all
            use_per_session_threads=True,
        )
        self.session = tf.compat.v1.Session(graph=graph, config=config)
        self.take_keys(graph)


class Inline(Default):
    """The same session with inter_op_thread_pool=-1: no hand-over to the executor's pool."""

    name = "tf inline"

    def prepare(self, graph_def: bytes, threads: int) -> None:
        import tensorflow as tf

        base = self.others["tf"]
        assert isinstance(base, Default)
        self.session = base.session
        self.take_keys(base.graph)
        self.options = tf.compat.v1.RunOptions(inter_op_thread_pool=-1)

    def run(self, bound: Any) -> Any:
        return self.session.run(self.fetches, bound, options=self.options)

    def close(self) -> None:
        """The session is another's."""


class OptionsCallable(Candidate):
    """The same session's _make_callable_from_options, without hand-over."""

    name = "tf call"

    def prepare(self, graph_def: bytes, threads: int) -> None:
        from tensorflow.core.protobuf import config_pb2

        base = self.others["tf"]
        assert isinstance(base, Default)
        self.reset = base.reset  # type: ignore[method-assign]
        workload = self.workload
        self.names = list(workload.feeds(np.random.default_rng(0)))
        options = config_pb2.CallableOptions(
            feed=self.names, fetch=workload.fetches, target=workload.targets
        )
        options.run_options.inter_op_thread_pool = -1
        self.call = base.session._make_callable_from_options(options)

    def bind(self, feeds: Feeds) -> Any:
        return [feeds[name] for name in self.names]

    def run(self, bound: Any) -> Any:
        return self.call(*bound)


class Xla(Candidate):
    """tf.function(jit_compile=True) over the graph; variables of the graph become tf.Variables."""

    name = "xla"

    def prepare(self, graph_def: bytes, threads: int) -> None:
        import tensorflow as tf

        self.constant = tf.constant
        workload = self.workload
        self.names = list(workload.feeds(np.random.default_rng(0)))
        graph = PeerGraph(graph_def, workload.fetches, workload.targets, self.names)
        self.handles: dict[str, Any] = {}
        self.compiled = tf.function(self._calls(graph), jit_compile=True)
        if workload.setup:
            self.initialise = tf.function(self._calls(PeerGraph(graph_def, (), workload.setup, ())))

    def _calls(self, part: PeerGraph) -> Callable[..., list[Any]]:
        """Return a function that runs `part` on fed values.

        The function returns the fetches.
        """
        import tensorflow as tf

        variables = [node for node in part.order if node.op == "VarHandleOp"]
        for node in variables:
            # uninitialised, as the graph's are: the set-up operations assign them
            if node.name not in self.handles:
                self.handles[node.name] = tf.raw_ops.VarHandleOp(
                    dtype=node.attrs["dtype"],
                    shape=node.attrs["shape"],
                    shared_name=f"{id(self)}/{node.name}",
                )
        replaced = {node.name for node in variables} | {
            name.partition(":")[0] for name in part.feeds
        }
        message = tf.compat.v1.GraphDef.FromString(part.subgraph(replaced))

        def call(*values: Any) -> list[Any]:
            inputs = dict(zip(part.feeds, values))
            capture = tf.compat.v1.get_default_graph().capture
            inputs |= {f"{node.name}:0": capture(self.handles[node.name]) for node in variables}
            elements = [*part.fetches, *part.targets]
            found: list[Any] = tf.graph_util.import_graph_def(
                message, input_map=inputs, return_elements=elements, name=""
            )
            with tf.control_dependencies([op for op in found if isinstance(op, tf.Operation)]):
                return [tf.identity(t) for t in found if not isinstance(t, tf.Operation)]

        return call

    def reset(self) -> None:
        if self.workload.setup:
            self.initialise()

    def bind(self, feeds: Feeds) -> Any:
        return [feeds[name] for name in self.names]

    def run(self, bound: Any) -> Any:
        constant = self.constant
        return [out.numpy() for out in self.compiled(*[constant(value) for value in bound])]

    def close(self) -> None:
        del self.compiled
