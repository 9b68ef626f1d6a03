"""Place the real graphs of tests/data on a GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tfjit.protos import ConfigProto, GraphDef

SOFT = ConfigProto(allow_soft_placement=True)


def on_gpu(graph: GraphDef, host: tuple[str, ...] = ("Placeholder",)) -> GraphDef:
    for node in graph.node:
        if node.op not in host:
            node.device = "/device:GPU:0"
    return graph


def programs(session: Any, fetches: Any, shapes: Any) -> str:
    """Return the paragraphs of a run's offloaded graphs."""
    nodes = session.explain(fetches, shapes).nodes
    return "\n".join(node.group for node in nodes if node.op == "_Offload")


def mobilenet(data_dir: Path, side: int) -> tuple[GraphDef, str, str]:
    """Return the graph for images of side x side with its feed and fetch.

    Its convolutions fit any side that five halvings divide.
    """
    graph = GraphDef.FromString((data_dir / "mobilenet_v2.pb").read_bytes())
    for node in graph.node:
        if node.op == "Placeholder":
            _, height, width, _ = node.attr["shape"].shape.dim
            height.size = width.size = side
    with np.load(data_dir / "mobilenet_v2.npz") as file:
        return graph, str(file["feed"]), str(file["fetch"])
