"""Write a graph to a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from tfjit.framework.graphs.graph import Graph

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Message


def write_graph(
    graph_or_graph_def: Graph | Message,
    logdir: str | os.PathLike[str],
    name: str,
    as_text: bool = True,
) -> str:
    """Write a GraphDef into a folder, made if missing; return its path.

    as_text: in the text format of protocol buffers, else in binary. A reader never sees a part of
    the file.
    """
    from google.protobuf import text_format

    message = graph_or_graph_def
    if isinstance(message, Graph):
        message = message.as_graph_def()
    folder = os.fspath(logdir)
    Path(folder).mkdir(parents=True, exist_ok=True)
    path = os.path.join(folder, name)
    partial = f"{path}.tmp{os.getpid()}"
    if as_text:
        Path(partial).write_text(text_format.MessageToString(message))
    else:
        Path(partial).write_bytes(message.SerializeToString(deterministic=True))
    os.replace(partial, path)
    return path
