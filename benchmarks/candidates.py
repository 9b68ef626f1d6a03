"""Define the candidates that are measured.

Each takes a workload's GraphDef and runs it with one set of feeds after another.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.workload import Feeds, Workload
from tfjit.lab.measure.rounds import PAUSE_S
from tfjit.lab.peers.presence import installed


class Candidate(ABC):
    """Describe one column of the table.

    `first_s`: seconds from the graph to the first result; `ready_s`: until it runs at full speed.
    others: the candidates made before, by name; those that are another way to call the same session
    take it from there.
    """

    name = ""
    note = ""  # something to say below the row

    def __init__(
        self,
        workload: Workload,
        graph_def: bytes,
        feeds: Feeds,
        threads: int,
        others: Mapping[str, Candidate],
    ) -> None:
        self.workload = workload
        self.others = others
        start = time.perf_counter()
        self.prepare(graph_def, threads)
        self.reset()
        bound = self.bind(feeds)
        self.run(bound)
        self.first_s = time.perf_counter() - start
        self.warm(bound, feeds)
        self.ready_s = time.perf_counter() - start

    @abstractmethod
    def prepare(self, graph_def: bytes, threads: int) -> None:
        """Take the graph."""

    def reset(self) -> None:  # noqa: B027 most have no state
        """Run the workload's set-up operations."""

    def bind(self, feeds: Feeds) -> Any:
        """Return the feeds under the keys that `run` takes, values unchanged."""
        return feeds

    @abstractmethod
    def run(self, bound: Any) -> Any:
        """One run through the public call, NumPy in, NumPy out."""

    def outputs(self, result: Any) -> list[Any]:
        """Return the fetched values in a result of `run`."""
        return list(result)[: len(self.workload.fetches)]

    def warm(self, bound: Any, feeds: Feeds) -> None:
        """Bring the candidate to full speed."""
        for _ in range(3):
            self.run(bound)

    def seconds(self, bound: Sequence[Any], count: int) -> float:
        """Return seconds a run, over `count` runs.

        The runs use the sets of feeds in turn.
        """
        time.sleep(PAUSE_S)
        self.run(bound[0])
        if self.workload.callers > 1:
            return self._seconds_of_callers(bound, count)
        run, sets = self.run, len(bound)
        kept: deque[Any] = deque(maxlen=self.workload.kept)
        start = time.perf_counter()
        if self.workload.kept:
            for i in range(count):
                kept.append(run(bound[i % sets]))
        else:
            for i in range(count):
                run(bound[i % sets])
        return (time.perf_counter() - start) / count

    def _seconds_of_callers(self, bound: Sequence[Any], count: int) -> float:
        callers, run, sets = self.workload.callers, self.run, len(bound)
        each = -(-count // callers)
        barrier = threading.Barrier(callers + 1)
        failures: list[Exception] = []

        def call(first: int) -> None:
            barrier.wait()
            try:
                for i in range(each):
                    run(bound[(first + i) % sets])
            except Exception as error:  # raised again below, in the thread that measures
                failures.append(error)

        threads = [threading.Thread(target=call, args=(n,)) for n in range(callers)]
        for thread in threads:
            thread.start()
        barrier.wait()
        start = time.perf_counter()
        for thread in threads:
            thread.join()
        elapsed = time.perf_counter() - start
        if failures:
            raise failures[0]
        return elapsed / (each * callers)

    def close(self) -> None:  # noqa: B027 most hold nothing
        """Free the candidate's resources."""


class SessionCandidate(Candidate):
    """Run a TF1 session.

    `session`, its graph, and `run` with a single fetch as it is or several in a list.
    """

    session: Any
    graph: Any

    def take_keys(self, graph: Any) -> None:
        """Resolve the workload's names in `graph`."""
        workload = self.workload
        strings = workload.keys == "strings"
        names = [*workload.fetches, *workload.targets]
        keys = [n if strings else graph.as_graph_element(n) for n in names]
        self.graph = graph
        self.fetches = keys[0] if len(keys) == 1 else keys
        self.setup = [graph.get_operation_by_name(n) for n in workload.setup]

    def reset(self) -> None:
        if self.setup:
            self.session.run(self.setup)

    def bind(self, feeds: Feeds) -> Any:
        if self.workload.keys == "strings":
            return dict(feeds)
        return {self.graph.get_tensor_by_name(name): value for name, value in feeds.items()}

    def run(self, bound: Any) -> Any:
        return self.session.run(self.fetches, bound)

    def outputs(self, result: Any) -> list[Any]:
        return (
            list(result)[: len(self.workload.fetches)]
            if isinstance(self.fetches, list)
            else [result]
        )

    def close(self) -> None:
        self.session.close()


class Tfjit(SessionCandidate):
    """tfjit.Session.run, fused."""

    name = "tfjit"
    fuse = True

    def prepare(self, graph_def: bytes, threads: int) -> None:
        import tfjit

        config = tfjit.ConfigProto(
            intra_op_parallelism_threads=self.workload.intra_threads or threads,
            inter_op_parallelism_threads=threads,
        )
        if not self.fuse:
            # OFF: every node its own compiled kernel
            config.graph_options.rewrite_options.remapping = 2
        graph: Any = graph_def
        if self.workload.keys == "tensorflow":
            from tfjit.lab.peers.tensorflow_graph import imported

            graph = imported(graph_def)
        self.session = tfjit.Session(graph=graph, config=config)
        self.take_keys(self.session.graph)

    def warm(self, bound: Any, feeds: Feeds) -> None:
        explanation = self.session.explain(
            self.fetches, {name: np.shape(value) for name, value in feeds.items()}
        )
        slow = explanation.reference_nodes
        if slow:
            names = ", ".join(f"{node.name} ({node.op}: {node.reason})" for node in slow[:3])
            self.note = f"{len(slow)} nodes are not compiled: {names}"
        super().warm(bound, feeds)


class TfjitUnfused(Tfjit):
    """The same executor, arena and threads, each node its own compiled kernel."""

    name = "unfused"
    fuse = False


class TfjitCallable(Candidate):
    """tfjit.Session.make_callable over the session of the first column."""

    name = "tfjit call"

    def prepare(self, graph_def: bytes, threads: int) -> None:
        base = self.others["tfjit"]
        assert isinstance(base, Tfjit)
        self.outputs = base.outputs  # type: ignore[method-assign]
        self.reset = base.reset  # type: ignore[method-assign]
        self.names = list(self.workload.feeds(np.random.default_rng(0)))
        self.call = base.session.make_callable(
            base.fetches, [base.graph.get_tensor_by_name(name) for name in self.names]
        )

    def bind(self, feeds: Feeds) -> Any:
        return [feeds[name] for name in self.names]

    def run(self, bound: Any) -> Any:
        return self.call(*bound)


class NumPy(Candidate):
    """The workload's NumPy form."""

    name = "numpy"

    def prepare(self, graph_def: bytes, threads: int) -> None:
        assert self.workload.reference is not None
        self.reference = self.workload.reference

    def run(self, bound: Feeds) -> Sequence[np.ndarray]:
        return self.reference(bound)


PEERS = ("tf", "tf other", "xla", "jax", "ort")


def candidates_for(workload: Workload, peers: Sequence[str] = PEERS) -> list[type[Candidate]]:
    """Return the candidates of a workload.

    Sessions come before the candidates that share them. peers: the names of PEERS that may take
    part.
    """
    chosen: list[type[Candidate]] = [Tfjit, TfjitUnfused]
    if installed("tensorflow") and {"tf", "tf other", "xla"} & set(peers):
        from benchmarks.peers import tensorflow

        if "tf" in peers:
            chosen += [tensorflow.Default, tensorflow.Inline]
        if "tf other" in peers:
            from benchmarks.peers.other_mode import OtherMode

            chosen.append(OtherMode)
        if workload.callables:
            chosen += [TfjitCallable, *([tensorflow.OptionsCallable] if "tf" in peers else [])]
        if "xla" in peers:
            chosen.append(tensorflow.Xla)
    if "jax" in peers and installed("jax"):
        from benchmarks.peers.jax import Jax

        chosen.append(Jax)
    if "ort" in peers and installed("onnxruntime") and installed("onnx"):
        from benchmarks.peers.onnx import OnnxRuntime

        chosen.append(OnnxRuntime)
    if workload.reference is not None:
        chosen.append(NumPy)
    return chosen
