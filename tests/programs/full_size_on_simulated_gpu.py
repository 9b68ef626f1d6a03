"""Run the real graphs at full size on the simulated GPU, beside TensorFlow.

    python -m tests.programs.full_size_on_simulated_gpu --side 224 --images 1

MobileNetV2 for images of that side (96: the side that it was trained for; five halvings divide it),
all test images of the digits, all sequences of both LSTMs. A line a graph: the largest differences
from TensorFlow's values, and the times. The exit status tells whether all are within 1e-5 and each
graph was a program without nodes of the host. It takes minutes: the simulator runs one thread after
the other.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow

import tfjit as tf
from tests.programs.graphs_on_gpu import SOFT, mobilenet, on_gpu, programs
from tests.simulated_gpu import simulated_gpu
from tfjit.demo.digits import IMAGES, LOGITS, PROBS, load_data, load_graph
from tfjit.protos import GraphDef

DATA = Path(__file__).resolve().parent.parent / "data"
TOLERANCE = 1e-5


def theirs(graph: GraphDef, fetches: list[str], feeds: Mapping[str, np.ndarray]) -> list[Any]:
    """Return TensorFlow's values on the CPU."""
    with tensorflow.Graph().as_default() as made:
        known = tensorflow.compat.v1.GraphDef.FromString(graph.SerializeToString())
        tensorflow.import_graph_def(known, name="")
    with tensorflow.compat.v1.Session(graph=made) as session:
        return list(session.run(fetches, feeds))


def compare(
    name: str, graph: GraphDef, fetches: list[str], feeds: Mapping[str, np.ndarray]
) -> bool:
    """Print a line on a graph; return whether the simulated GPU had TensorFlow's values.

    Its constants and placeholders are the host's.
    """
    expected = theirs(graph, fetches, feeds)
    with tf.Session(graph=on_gpu(graph, ("Placeholder", "Const")), config=SOFT) as session:
        session.run(fetches, feeds)  # by the host: the kernels are not there yet
        session.wait_until_compiled(600)
        began = time.monotonic()
        found = session.run(fetches, feeds)
        took = time.monotonic() - began
        text = programs(session, fetches, {key: value.shape for key, value in feeds.items()})
    absolute = max(float(np.abs(a - b).max()) for a, b in zip(found, expected, strict=True))
    relative = max(
        float((np.abs(a - b) / np.maximum(np.abs(b), 1e-30)).max())
        for a, b in zip(found, expected, strict=True)
    )
    whole = text.count("launches") == 1 and "by the host" not in text
    close = all(
        np.allclose(a, b, TOLERANCE, TOLERANCE) for a, b in zip(found, expected, strict=True)
    )
    print(
        f"{name}: differs by {absolute:.3g}, relatively by {relative:.3g}; {took:.1f} s"
        + ("" if whole else "; not one program"),
        flush=True,
    )
    return close and whole


def saved_model(inputs: np.ndarray) -> tuple[GraphDef, list[str], dict[str, np.ndarray]]:
    """Return the SavedModel's LSTM and GRU with its variables frozen."""
    graph = tensorflow.Graph()
    with graph.as_default(), tensorflow.compat.v1.Session(graph=graph) as session:
        loaded = tensorflow.compat.v1.saved_model.load(
            session, ["serve"], str(DATA / "lstm_saved_model")
        )
        signature = loaded.signature_def["serving_default"]
        (feed,), (fetch,) = signature.inputs.values(), signature.outputs.values()
        frozen = tensorflow.compat.v1.graph_util.convert_variables_to_constants(
            session, graph.as_graph_def(), [fetch.name.partition(":")[0]]
        )
    return GraphDef.FromString(frozen.SerializeToString()), [fetch.name], {feed.name: inputs}


def main() -> int:
    """Compare the graphs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--side", type=int, default=96)
    parser.add_argument("--images", type=int, default=1)
    options = parser.parse_args()
    with np.load(DATA / "mobilenet_v2.npz") as file:
        images = file["images"][: options.images]
    times = -(-options.side // images.shape[1])
    images = np.tile(images, (1, times, times, 1))[:, : options.side, : options.side]
    with np.load(DATA / "lstm_v1_loop.npz") as file:
        sequences = file["x"]
    with np.load(DATA / "lstm_saved_model.npz") as file:
        inputs = file["inputs"]
    graph, feed, fetch = mobilenet(DATA, options.side)
    loop = GraphDef.FromString((DATA / "lstm_v1_loop.pb").read_bytes())
    digits = load_data()["test_images"]
    with simulated_gpu():
        passed = [
            compare(f"digits {digits.shape}", load_graph(), [LOGITS, PROBS], {IMAGES: digits}),
            compare(f"lstm_v1_loop {sequences.shape}", loop, ["y:0"], {"x:0": sequences}),
            compare(f"lstm_saved_model {inputs.shape}", *saved_model(inputs)),
            compare(f"mobilenet_v2 {images.shape}", graph, [fetch], {feed: images}),
        ]
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
