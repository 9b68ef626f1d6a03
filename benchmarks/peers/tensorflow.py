"""Run a graph in TensorFlow's ways.

The default session, without hand-over between threads, the options callable, and XLA.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.candidates import Candidate, SessionCandidate
from benchmarks.workload import Feeds
from tfjit.lab.peers.tensorflow_graph import XlaGraph, imported, session_config


class Default(SessionCandidate):
    """tf.compat.v1.Session.run with its default options."""

    name = "tf"

    def prepare(self, graph_def: bytes, threads: int) -> None:
        import tensorflow as tf

        graph = imported(graph_def)
        config = session_config(self.workload.intra_threads or threads, threads)
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
        workload = self.workload
        self.names = list(workload.feeds(np.random.default_rng(0)))
        self.graph = XlaGraph(
            graph_def, workload.fetches, workload.targets, self.names, workload.setup
        )

    def reset(self) -> None:
        self.graph.initialise()

    def bind(self, feeds: Feeds) -> Any:
        return [feeds[name] for name in self.names]

    def run(self, bound: Any) -> Any:
        return self.graph(bound)

    def close(self) -> None:
        del self.graph
