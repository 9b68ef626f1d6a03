"""Who is measured: each candidate takes a workload's GraphDef and gives a function from feeds to outputs."""

from __future__ import annotations

import importlib.util
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.workload import Feeds, Workload

COMPILE_TIMEOUT_S = 300.0


def has_tensorflow() -> bool:
    """Whether TensorFlow is installed."""
    return importlib.util.find_spec("tensorflow") is not None


class Candidate(ABC):
    """One column. `first_s`: seconds from the graph to the first result; `ready_s`: until it runs at full speed."""

    name = ""

    def __init__(self, workload: Workload, graph_def: bytes, feeds: Feeds, threads: int) -> None:
        self.workload = workload
        start = time.perf_counter()
        self.prepare(graph_def, threads)
        self.run(feeds)
        self.first_s = time.perf_counter() - start
        self.warm(feeds)
        self.ready_s = time.perf_counter() - start

    @abstractmethod
    def prepare(self, graph_def: bytes, threads: int) -> None:
        """Take the graph."""

    @abstractmethod
    def run(self, feeds: Feeds) -> Sequence[np.ndarray]:
        """One run, through the public call."""

    def warm(self, feeds: Feeds) -> None:
        """Bring the candidate to full speed."""
        for _ in range(3):
            self.run(feeds)

    @abstractmethod
    def close(self) -> None:
        """Free what it holds."""


class Tfjit(Candidate):
    """tfjit.Session.run, fused."""

    name = "tfjit"
    fuse = True

    def prepare(self, graph_def: bytes, threads: int) -> None:
        import tfjit

        config = tfjit.ConfigProto(intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads)
        if not self.fuse:
            config.graph_options.rewrite_options.remapping = 2  # OFF: every node its own compiled kernel
        self.session = tfjit.Session(graph=graph_def, config=config)
        self.fetches = list(self.workload.fetches)

    def run(self, feeds: Feeds) -> Sequence[np.ndarray]:
        return self.session.run(self.fetches, feeds)  # type: ignore[no-any-return]

    def warm(self, feeds: Feeds) -> None:
        explanation = self.session.explain(self.fetches, {name: np.shape(value) for name, value in feeds.items()})
        slow = explanation.reference_nodes
        if slow:
            names = ", ".join(f"{node.name} ({node.op}: {node.reason})" for node in slow[:5])
            raise RuntimeError(f"{self.workload.name}: {len(slow)} nodes are not compiled: {names}")
        super().warm(feeds)

    def close(self) -> None:
        self.session.close()


class TfjitUnfused(Tfjit):
    """The same executor, arena and threads, each node its own compiled kernel."""

    name = "unfused"
    fuse = False


class TensorFlow(Candidate):
    """tf.compat.v1.Session.run with its default options."""

    name = "tf"

    def prepare(self, graph_def: bytes, threads: int) -> None:
        import tensorflow as tf

        tf1 = tf.compat.v1
        graph = tf1.Graph()
        with graph.as_default():
            tf1.import_graph_def(tf1.GraphDef.FromString(graph_def), name="")
        config = tf1.ConfigProto(intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads)
        self.session = tf1.Session(graph=graph, config=config)
        self.fetches = [graph.get_tensor_by_name(name) for name in self.workload.fetches]
        self.options = self.run_options(tf1)

    def run_options(self, tf1: Any) -> Any:
        """RunOptions of every run."""
        return None

    def run(self, feeds: Feeds) -> Sequence[np.ndarray]:
        return self.session.run(self.fetches, feeds, options=self.options)  # type: ignore[no-any-return]

    def close(self) -> None:
        self.session.close()


class TensorFlowInline(TensorFlow):
    """The same on the caller's thread (inter_op_thread_pool=-1): no hand-over to the executor's pool."""

    name = "tf inline"

    def run_options(self, tf1: Any) -> Any:
        return tf1.RunOptions(inter_op_thread_pool=-1)


def tf_constant(value: np.ndarray) -> Any:
    """A NumPy value as an eager tensor."""
    import tensorflow as tf

    return tf.constant(value)


class Xla(Candidate):
    """tf.function(jit_compile=True) over the graph, NumPy in and out."""

    name = "xla"

    def prepare(self, graph_def: bytes, threads: int) -> None:
        import tensorflow as tf

        tf1 = tf.compat.v1
        message = tf1.GraphDef.FromString(graph_def)
        whole = tf1.wrap_function(lambda: tf1.import_graph_def(message, name=""), [])
        names = [node.name for node in message.node if node.op == "Placeholder"]
        self.feeds = [f"{name}:0" for name in names]
        part = whole.prune(
            [whole.graph.get_tensor_by_name(n) for n in self.feeds], [whole.graph.get_tensor_by_name(n) for n in self.workload.fetches]
        )
        self.compiled = tf.function(lambda *values: part(*values), jit_compile=True)

    def run(self, feeds: Feeds) -> Sequence[np.ndarray]:
        return [out.numpy() for out in self.compiled(*(tf_constant(feeds[name]) for name in self.feeds))]

    def close(self) -> None:
        del self.compiled


class NumPy(Candidate):
    """The workload's NumPy form."""

    name = "numpy"

    def prepare(self, graph_def: bytes, threads: int) -> None:
        assert self.workload.reference is not None
        self.reference = self.workload.reference

    def run(self, feeds: Feeds) -> Sequence[np.ndarray]:
        return self.reference(feeds)

    def close(self) -> None:
        """NumPy holds nothing."""


def candidates_for(workload: Workload, peers: bool) -> list[type[Candidate]]:
    """Who takes part in a workload. peers: TensorFlow and XLA too."""
    chosen: list[type[Candidate]] = [Tfjit, TfjitUnfused]
    if peers and has_tensorflow():
        chosen += [TensorFlow, TensorFlowInline]
        if workload.xla:
            chosen.append(Xla)
    if workload.reference is not None:
        chosen.append(NumPy)
    return chosen
