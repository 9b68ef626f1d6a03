"""Open the candidates of a comparison: pipelines of tfjit, and other runtimes.

Each has taken the graph, run once, and runs at full speed when its constructor returns.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tfjit.framework.errors import InvalidArgumentError
from tfjit.lab.peers.presence import Absent, installed

if TYPE_CHECKING:
    from tfjit.client.session.model_file import ModelFile
    from tfjit.client.session.session import Session
    from tfjit.passes.manager.pipeline_spec import Pipeline
    from tfjit.protos import ConfigProto
    from tfjit.runtime.profiling.explain import Explanation

WARM_UP_RUNS: Final = 3
_SECONDS_TO_COMPILE: Final = 600.0


@dataclass(frozen=True, slots=True)
class Work:
    """The run that is measured.

    fetches: names of tensors; targets: names of operations. feeds: values by tensor name. setup:
    operations that are run first. threads: of every candidate.
    """

    model: ModelFile
    fetches: tuple[str, ...]
    targets: tuple[str, ...] = ()
    feeds: Mapping[str, np.ndarray] = field(default_factory=dict)
    setup: tuple[str, ...] = ()
    threads: int = 1


class Candidate(ABC):
    """One session of a candidate.

    first: the outputs of its first run, in order of the fetches. first_s: seconds to them.
    """

    def __init__(self, name: str, work: Work) -> None:
        self.name, self.work = name, work
        started = time.perf_counter()
        self.open()
        self.reset()
        self.first = self.outputs()
        self.first_s = time.perf_counter() - started
        self.finish()

    @abstractmethod
    def open(self) -> None:
        """Take the graph."""

    @abstractmethod
    def run(self) -> object:
        """Run once: NumPy in, NumPy out."""

    @abstractmethod
    def outputs(self) -> Sequence[object]:
        """Run once and return the values of the fetches."""

    def reset(self) -> None:  # noqa: B027 a graph without variables has no state
        """Run the set-up operations."""

    def finish(self) -> None:
        """Reach full speed."""
        for _ in range(WARM_UP_RUNS):
            self.run()

    def close(self) -> None:  # noqa: B027 most hold nothing
        """Free the memory of the candidate."""


class _SessionCandidate(Candidate):
    """A session of the TF1 interface."""

    session: Any

    def take_keys(self) -> None:
        """Look up the work's names in the session's graph."""
        graph = self.session.graph
        elements = [graph.as_graph_element(n) for n in (*self.work.fetches, *self.work.targets)]
        self._keys = elements[0] if len(elements) == 1 else elements
        self._feeds = {graph.as_graph_element(n): v for n, v in self.work.feeds.items()}
        self._setup = [graph.get_operation_by_name(name) for name in self.work.setup]

    def reset(self) -> None:
        if self._setup:
            self.session.run(self._setup)

    def run(self) -> object:
        return self.session.run(self._keys, self._feeds)

    def outputs(self) -> Sequence[object]:
        found = self.run()
        values = found if isinstance(self._keys, list) else [found]
        # of a target there is no value
        return list(values)[: len(self.work.fetches)]  # type: ignore[call-overload]

    def close(self) -> None:
        self.session.close()


class Tfjit(_SessionCandidate):
    """tfjit with the passes of a pipeline, all compiled."""

    def __init__(self, name: str, work: Work, passes: Pipeline) -> None:
        self._passes = passes
        super().__init__(name, work)

    def open(self) -> None:
        from tfjit.protos import ConfigProto, OptimizerOptions

        threads = self.work.threads
        config = ConfigProto(
            intra_op_parallelism_threads=threads,
            inter_op_parallelism_threads=threads,
            # else the process has one inter-op pool, of the size that its first session asked for
            use_per_session_threads=True,
        )
        # otherwise reference kernels would serve, and be timed, while others compile
        config.graph_options.optimizer_options.global_jit_level = OptimizerOptions.ON_1
        self.session = open_model(self.work.model, config, self._passes)
        self.take_keys()

    def finish(self) -> None:
        self.session.wait_until_compiled(_SECONDS_TO_COMPILE)
        super().finish()

    def explain(self) -> Explanation:
        """Return the explanation of the run, with measured times."""
        return self.session.explain(self._keys, measure=True, feed_dict=self._feeds)


class TensorFlow(_SessionCandidate):
    """TensorFlow's Session.run, with its default options."""

    def open(self) -> None:
        _need("tensorflow", self.name, "tensorflow")
        import tensorflow as tf

        from tfjit.lab.peers.tensorflow_graph import imported, session_config

        model, config = self.work.model, session_config(self.work.threads)
        if model.kind != "SavedModel":
            graph = imported(model.graph_def.SerializeToString())
            self.session = tf.compat.v1.Session(graph=graph, config=config)
        else:
            graph = tf.Graph()
            self.session = tf.compat.v1.Session(graph=graph, config=config)
            with graph.as_default():
                tf.compat.v1.saved_model.load(self.session, model.tags, str(model.path.parent))
        self.take_keys()


class Xla(Candidate):
    """tf.function(jit_compile=True) over the graph; its threads are those of the process."""

    def open(self) -> None:
        _need("tensorflow", self.name, "tensorflow")
        work = self.work
        if work.model.kind == "SavedModel":
            raise Absent(f"{self.name}: the variables of a SavedModel are not handed to XLA")
        from tfjit.lab.peers.tensorflow_graph import XlaGraph

        self._values = list(work.feeds.values())
        self._graph = XlaGraph(
            work.model.graph_def.SerializeToString(),
            *(work.fetches, work.targets, list(work.feeds), work.setup),
        )

    def reset(self) -> None:
        self._graph.initialise()

    def run(self) -> object:
        return self._graph(self._values)

    def outputs(self) -> Sequence[object]:
        return self._graph(self._values)

    def close(self) -> None:
        del self._graph


class OnnxRuntime(Candidate):
    """onnxruntime.InferenceSession.run over a translation of the graph."""

    def open(self) -> None:
        _need("onnx", self.name, "tfjit[peers]")
        _need("onnxruntime", self.name, "tfjit[peers]")
        work = self.work
        if work.model.kind == "SavedModel":
            raise Absent(f"{self.name}: the variables of a SavedModel are not translated")
        from tfjit.lab.peers.onnx_model import inference_session, translate

        data = work.model.graph_def.SerializeToString()
        model = translate(data, work.fetches, work.targets, work.feeds)
        self._session = inference_session(model, work.threads)
        self._fed = {f"feed{i}": value for i, value in enumerate(work.feeds.values())}
        self._names = [output.name for output in self._session.get_outputs()]

    def run(self) -> object:
        return self._session.run(self._names, self._fed)

    def outputs(self) -> Sequence[object]:
        return list(self._session.run(self._names, self._fed))

    def close(self) -> None:
        del self._session


# Any other name of a candidate is a pipeline of tfjit.
PEERS: Final[Mapping[str, type[Candidate]]] = {
    "tensorflow": TensorFlow,
    "xla": Xla,
    "onnxruntime": OnnxRuntime,
}


def open_candidate(name: str, passes: Pipeline | None, work: Work) -> Candidate:
    """Open a session of a candidate.

    passes: of tfjit; None for the runtime that the name is of. Raises Absent where another runtime
    is not installed or does not take the graph, else the errors of the candidate.
    """
    return PEERS[name](name, work) if passes is None else Tfjit(name, work, passes)


def named_candidates(given: Sequence[str | Pipeline]) -> dict[str, tuple[str, Pipeline | None]]:
    """Return label -> (name, pipeline or None) of candidates.

    A pipeline may meet itself: the second has "(2)" behind its name. Raises InvalidArgumentError
    for a name that is neither a runtime nor a pipeline, and for a runtime that is named twice.
    """
    from tfjit.passes.manager.pipeline_spec import Pipeline
    from tfjit.passes.manager.pipeline_text import summary

    found: dict[str, tuple[str, Pipeline | None]] = {}
    for one in given:
        name = " ".join(one.split()) if isinstance(one, str) else summary(one)
        passes = None
        if name not in PEERS:
            try:
                passes = Pipeline.of(one)
            except InvalidArgumentError as error:
                known = ", ".join(PEERS)
                raise InvalidArgumentError(
                    None,
                    None,
                    f"candidate {name!r}: no pipeline and none of {known}: {error.message}",
                ) from None
        before = sum(other == name for other, _ in found.values())
        if before and passes is None:
            raise InvalidArgumentError(None, None, f"{name} is among the candidates twice.")
        found[f"{name} ({before + 1})" if before else name] = name, passes
    return found


def open_model(
    model: ModelFile, config: ConfigProto | None = None, passes: Pipeline | None = None
) -> Session:
    """Open a session over a model.

    Of a SavedModel it has the variables, tables and assets.
    """
    from tfjit.client.session.session import Session

    if model.pack is not None:
        return Session(graph=model.path, config=config, passes=passes)
    if model.kind != "SavedModel":
        return Session(graph=model.graph_def, config=config, passes=passes)
    from tfjit.client.saving import saved_model
    from tfjit.framework.graphs.graph import Graph

    graph = Graph()
    session = Session(graph=graph, config=config, passes=passes)
    with graph.as_default():
        saved_model.load(session, model.tags, model.path.parent)
    return session


def _need(module: str, candidate: str, package: str) -> None:
    if not installed(module):
        raise Absent(f"{candidate} is not installed: pip install {package}")


__all__ = [
    "PEERS",
    "Candidate",
    "Tfjit",
    "Work",
    "named_candidates",
    "open_candidate",
    "open_model",
]
