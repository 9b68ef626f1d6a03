"""The training of the digits on a cluster: variables on one task, computation on another."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from tfjit.protos import MetaGraphDef

TESTS: Final = Path(__file__).resolve().parent.parent
DIGITS: Final = TESTS.parent / "tfjit" / "demo" / "digits.npz"
COMPUTATION: Final = "/job:worker/task:0"
VARIABLES: Final = "/job:worker/task:1"
_BATCH: Final = 50


@functools.cache
def placed_meta_graph(tasks: bool = True) -> bytes:
    """Return the training's MetaGraphDef with the task of each node, or without tasks."""
    meta = MetaGraphDef.FromString((TESTS / "data" / "digits_train.meta").read_bytes())
    if not tasks:
        return meta.SerializeToString()
    variables = {node.name for node in meta.graph_def.node if node.op == "VariableV2"}
    for node in meta.graph_def.node:
        beside = [of.removeprefix(b"loc:@").decode() for of in node.attr["_class"].list.s]
        if not beside or beside == [node.name]:
            del node.attr["_class"]  # an import drops the device of a node that is beside others
        there = variables.intersection([node.name, *beside]) or node.name.startswith("save/")
        node.device = VARIABLES if there else COMPUTATION
    return meta.SerializeToString()


@functools.cache
def _data() -> tuple[np.ndarray, np.ndarray]:
    with np.load(DIGITS) as found:
        return found["train_images"], found["train_labels"]


def batch(step: int) -> dict[str, np.ndarray]:
    """Return the feeds of a step, counted from 0."""
    images, labels = _data()
    rows = np.arange(step * _BATCH, (step + 1) * _BATCH) % len(images)
    return {"images:0": images[rows], "labels:0": labels[rows]}


def train(session: Any, steps: Sequence[int]) -> list[float]:
    """Run steps of the training; return their losses."""
    return [float(session.run(["loss:0", "train"], batch(step))[0]) for step in steps]


def imported(library: Any, tasks: bool = True) -> tuple[Any, Any]:
    """Return (graph, saver) of the training in tfjit or in `tf.compat.v1`."""
    graph = library.Graph()
    with graph.as_default():
        meta = library.MetaGraphDef.FromString(placed_meta_graph(tasks))
        saver = library.train.import_meta_graph(meta)
    return graph, saver


def tasks_of(session: Any, library: Any) -> dict[str, str]:
    """Return the task that each node of a step of the training runs on."""
    options, metadata = library.RunOptions(output_partition_graphs=True), library.RunMetadata()
    session.run("loss:0", batch(0), options=options, run_metadata=metadata)
    return {
        node.name: node.device.partition("/device:")[0].replace("/replica:0", "")
        for part in metadata.partition_graphs
        for node in part.node
    }


def undisturbed(library: Any, steps: int) -> list[float]:
    """Return the losses of one DirectSession of tfjit or of `tf.compat.v1`."""
    graph, _ = imported(library, tasks=False)
    with library.Session(graph=graph) as session:
        session.run("init")
        return train(session, range(steps))
