"""Run a workload's GraphDef in ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.candidates import Candidate
from benchmarks.workload import Feeds
from tfjit.lab.peers.onnx_model import inference_session, translate


class OnnxRuntime(Candidate):
    """onnxruntime.InferenceSession.run with all of its optimisations."""

    name = "ort"

    def prepare(self, graph_def: bytes, threads: int) -> None:
        workload = self.workload
        feeds = workload.feeds(np.random.default_rng(0))
        self.keys = {name: f"feed{i}" for i, name in enumerate(feeds)}
        model = translate(graph_def, workload.fetches, workload.targets, feeds)
        self.session = inference_session(model, threads)
        self.names = [output.name for output in self.session.get_outputs()]

    def bind(self, feeds: Feeds) -> Any:
        return {self.keys[name]: np.asarray(value) for name, value in feeds.items()}

    def run(self, bound: Any) -> Any:
        return self.session.run(self.names, bound)

    def close(self) -> None:
        del self.session
