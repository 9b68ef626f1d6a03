"""The demo: a small convolutional network reads handwritten digits.

It checks the results first, then the speed, then the time of each node.
"""

from __future__ import annotations

import importlib.util
import os
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import Any

import numpy as np

from tfjit.client.session.session import Session
from tfjit.demo.progress import Progress
from tfjit.demo.stopwatch import Step, medians_us
from tfjit.framework import errors
from tfjit.protos import (
    ConfigProto,
    GraphDef,
    OptimizerOptions,
    RewriterConfig,
    RunMetadata,
    RunOptions,
)

Array = np.ndarray[Any, Any]

IMAGES, LOGITS, PROBS = "images:0", "logits:0", "probs:0"
LARGEST_DIFFERENCE = 1e-4
BATCHES = (1, 256)


def load_graph() -> GraphDef:
    """Return the frozen network.

    It maps images [n, 8, 8, 1] to logits [n, 10] and probs [n, 10].
    """
    return GraphDef.FromString(files("tfjit.demo").joinpath("digits_cnn.pb").read_bytes())


def load_data() -> dict[str, Array]:
    """Return the held-out images and labels, with TensorFlow's results.

    The keys are test_images, test_labels, test_logits, test_accuracy.
    """
    with files("tfjit.demo").joinpath("digits.npz").open("rb") as file, np.load(file) as archive:
        return {
            name: archive[name]
            for name in ("test_images", "test_labels", "test_logits", "test_accuracy")
        }


def run_demo(seconds: float = 2.0, tensorflow: bool = True) -> int:
    """Print all results and times.

    seconds: for each batch size and kind of measurement. Returns 0, or 1 when the results are not
    TensorFlow's.
    """
    graph, data = load_graph(), load_data()
    right = _classify(graph, data)
    with (
        Session(graph=graph, config=_config(fused=True)) as fused,
        Session(graph=graph, config=_config(fused=False)) as unfused,
    ):
        with Progress("compiling"):
            started = time.perf_counter()
            for session in (fused, unfused):
                for batch in BATCHES:
                    session.run(PROBS, {IMAGES: data["test_images"][:batch]})
        print(
            "compiled fused and unfused, or loaded from the cache, in "
            f"{time.perf_counter() - started:.2f} s"
        )
        candidates: dict[str, Any] = {"tfjit fused": fused.run, "tfjit unfused": unfused.run}
        if tensorflow:
            candidates.update(_tensorflow(graph))
        _compare(candidates, data, seconds)
        for batch in BATCHES:
            _profile(fused, data["test_images"][:batch], seconds / 4)
    return 0 if right else 1


def _config(fused: bool) -> ConfigProto:
    """Return a config that compiles before the first result.

    So the timed steps run the requested code.
    """
    config = ConfigProto()
    config.graph_options.optimizer_options.global_jit_level = OptimizerOptions.ON_1
    if not fused:
        config.graph_options.rewrite_options.remapping = RewriterConfig.OFF
    return config


def _classify(graph: GraphDef, data: Mapping[str, Array]) -> bool:
    """Classify all held-out images; return whether TensorFlow's logits agree."""
    images, labels = data["test_images"], data["test_labels"]
    started = time.perf_counter()
    with Session(graph=graph) as session:
        logits, probs = session.run([LOGITS, PROBS], {IMAGES: images})
    elapsed_ms = (time.perf_counter() - started) * 1e3
    accuracy = float(np.mean(probs.argmax(axis=1) == labels))
    difference = float(np.abs(logits - data["test_logits"]).max())
    print(
        f"{len(images)} held-out digits: accuracy {accuracy:.4f} (TensorFlow "
        f"{float(data['test_accuracy']):.4f})"
    )
    print(f"max |logits - TensorFlow's| {difference:.2e}")
    print(f"first result {elapsed_ms:.0f} ms after the session was asked for")
    right = difference <= LARGEST_DIFFERENCE and abs(accuracy - float(data["test_accuracy"])) < 1e-6
    if not right:
        print("tfjit demo: these are not TensorFlow's results", file=sys.stderr)
    return right


def _tensorflow(graph: GraphDef) -> dict[str, Callable[..., Any]]:
    """Return TensorFlow's Session.run over the same graph.

    There are two: the default, and one on the caller's thread; none where TensorFlow is not
    installed.
    """
    if importlib.util.find_spec("tensorflow") is None:
        print("TensorFlow is not installed, so it is not timed")
        return {}
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with Progress("importing TensorFlow"):
        import tensorflow as tf
    theirs = tf.Graph()
    with theirs.as_default():
        tf.import_graph_def(tf.compat.v1.GraphDef.FromString(graph.SerializeToString()), name="")
    session = tf.compat.v1.Session(graph=theirs)
    options = tf.compat.v1.RunOptions(inter_op_thread_pool=-1)
    return {
        f"TensorFlow {tf.__version__}": session.run,
        "TensorFlow, caller's thread": lambda fetches, feeds: session.run(
            fetches, feeds, options=options
        ),
    }


def _compare(
    candidates: Mapping[str, Callable[..., Any]], data: Mapping[str, Array], seconds: float
) -> None:
    """Print the median time of `run` for each candidate and batch size.

    Every candidate's result is compared with the first one's.
    """
    images = data["test_images"]
    table: dict[str, list[float]] = {name: [] for name in candidates}
    for batch in BATCHES:
        steps = {name: _step(run, images, batch) for name, run in candidates.items()}
        for name, time_us in medians_us(steps, seconds).items():
            table[name].append(time_us)
        expected = steps["tfjit fused"](7)
        for name, step in steps.items():
            if not np.allclose(step(7), expected, rtol=1e-4, atol=1e-6):  # type: ignore[arg-type]
                raise errors.InternalError(
                    None, None, f"{name} disagrees at batch {batch}: the times would mean nothing"
                )
    width = max(map(len, candidates))
    print("\nmedian time of Session.run, in microseconds")
    print(f"  {'':{width}}" + "".join(f"{f'batch {batch}':>12}" for batch in BATCHES))
    for name, times in table.items():
        print(f"  {name:{width}}" + "".join(f"{time_us:12.1f}" for time_us in times))
    fused = table["tfjit fused"]
    others = {
        "unfused": [table["tfjit unfused"]],
        "TensorFlow's best": [
            times for name, times in table.items() if name.startswith("TensorFlow")
        ],
    }
    for what, rows in others.items():
        if rows:
            ratios = [min(row[i] for row in rows) / fused[i] for i in range(len(BATCHES))]
            print(f"  {f'{what} / fused':{width}}" + "".join(f"{ratio:11.2f}x" for ratio in ratios))


def _step(run: Callable[..., Any], images: Array, batch: int) -> Step:
    """Return a call of `run` with `batch` images, others each time."""
    last = len(images) - batch + 1
    return lambda number: run(PROBS, {IMAGES: images[number % last : number % last + batch]})


def _profile(session: Any, images: Array, seconds: float) -> None:
    """Print the median time of each node over traced runs, largest first.

    A traced step calls its kernels one by one from Python.
    """
    options = RunOptions(trace_level=RunOptions.FULL_TRACE)
    times_us: dict[str, list[float]] = defaultdict(list)
    labels: dict[str, str] = {}
    end = time.perf_counter() + seconds
    while not times_us or time.perf_counter() < end:
        metadata = RunMetadata()
        session.run(PROBS, {IMAGES: images}, options=options, run_metadata=metadata)
        for device in metadata.step_stats.dev_stats:
            for node in device.node_stats:
                times_us[node.node_name].append(node.all_end_rel_nanos / 1e3)
                labels[node.node_name] = node.timeline_label or node.node_name
        if not times_us:
            print(f"\nno kernel of batch {len(images)} was traced")
            return
    rows = sorted(
        ((statistics.median(times), name) for name, times in times_us.items()), reverse=True
    )
    total = sum(time_us for time_us, _ in rows)
    print(
        f"\nwhere the time goes, batch {len(images)}: {total:.1f} us in {len(rows)} nodes, traced "
        "one by one (adds 1 to 2 us to each)"
    )
    shown = [row for row in rows if row[0] >= total / 50][:12]
    for time_us, name in shown:
        print(f"  {time_us:9.2f} us {time_us / total:6.1%}  {labels[name][:110]}")
    if len(shown) < len(rows):
        rest = sum(time_us for time_us, _ in rows[len(shown) :])
        print(f"  {rest:9.2f} us {rest / total:6.1%}  in {len(rows) - len(shown)} more")
