"""`tfjit.summary`: event files, which TensorBoard draws: graphs, run metadata, summaries."""

from __future__ import annotations

import importlib
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tfjit.framework.files.event_file import EventFile
from tfjit.protos import Event, GraphDef, MetaGraphDef, Summary

if TYPE_CHECKING:
    from tfjit.framework.graphs.graph import Graph
    from tfjit.framework.graphs.typing import Message, SessionLike

_WRITER: Final = "tfjit.client.data.summary"


def _graph_def(graph: Graph | None, graph_def: Message | None) -> GraphDef:
    """Return the GraphDef of a graph or message."""
    message: Any = graph_def if graph_def is not None else graph
    if hasattr(message, "as_graph_def"):
        message = message.as_graph_def(add_shapes=True)
    if not hasattr(message, "SerializeToString"):
        raise TypeError(
            "The passed graph must be an instance of `Graph` or the deprecated `GraphDef`, "
            f"not {type(message).__name__}"
        )
    return GraphDef.FromString(message.SerializeToString())


class FileWriter:
    """Writes one event file into the folder `logdir`, which it makes.

    graph, graph_def: a graph to begin with. session: of this process, so its events reach the same
    folder. filename_suffix: of the file's name. Events are buffered until `flush` or `close`, or
    until `max_queue` events or `flush_secs` seconds have gathered. Several threads may add. Raises
    OSError when the file cannot be written.
    """

    def __init__(
        self,
        logdir: str | os.PathLike[str],
        graph: Any = None,
        max_queue: int = 10,
        flush_secs: float = 120,
        graph_def: object = None,
        filename_suffix: str | None = None,
        session: SessionLike | None = None,
    ) -> None:
        self._logdir = os.fspath(logdir)
        self._max_queue = max_queue
        self._flush_secs = flush_secs
        self._suffix = filename_suffix or ""
        self._tags: set[str] = set()
        self._file = self._open()
        if graph is not None or graph_def is not None:
            self.add_graph(graph, graph_def=graph_def)
            self.add_meta_graph(MetaGraphDef(graph_def=_graph_def(graph, graph_def)))

    def _open(self) -> EventFile:
        return EventFile(
            self._logdir,
            _WRITER,
            limit=self._max_queue - 1,
            flush_seconds=self._flush_secs,
            suffix=self._suffix,
        )

    @property
    def path(self) -> Path:
        """Return the path of the event file."""
        return Path(self._file.path)

    def get_logdir(self) -> str:
        """Return the folder."""
        return self._logdir

    def add_event(self, event: Message) -> None:
        """Write an Event message.

        After `close` nothing is written; `reopen` starts another file.
        """
        self._file.add(event)

    def add_summary(self, summary: Message, global_step: int | None = None) -> None:
        """Write a Summary message, or the bytes of a summary operation."""
        data = summary if isinstance(summary, bytes) else summary.SerializeToString()
        self.add_event(self._event(global_step, summary=Summary.FromString(data)))

    def add_graph(
        self, graph: Graph, global_step: int | None = None, graph_def: Message | None = None
    ) -> None:
        """Write a graph: of tfjit or TensorFlow, or a GraphDef.

        graph_def: the GraphDef. Raises TypeError for anything else.
        """
        if graph is not None and graph_def is not None:
            raise ValueError("Please pass only graph, or graph_def (deprecated), but not both.")
        message = _graph_def(graph, graph_def)
        self.add_event(self._event(global_step, graph_def=message.SerializeToString()))

    def add_meta_graph(self, meta_graph_def: Message, global_step: int | None = None) -> None:
        """Write a MetaGraphDef message."""
        self.add_event(self._event(global_step, meta_graph_def=meta_graph_def.SerializeToString()))

    def add_run_metadata(
        self, run_metadata: Message, tag: str, global_step: int | None = None
    ) -> None:
        """Write the RunMetadata of a step under a new tag.

        Raises ValueError for a tag that this writer has used.
        """
        if tag in self._tags:
            raise ValueError("The provided tag was already used for this event type")
        self._tags.add(tag)
        event = self._event(global_step)
        event.tagged_run_metadata.tag = tag
        event.tagged_run_metadata.run_metadata = run_metadata.SerializeToString()
        self.add_event(event)

    def add_session_log(self, session_log: Any, global_step: int | None = None) -> None:
        """Write a SessionLog message."""
        event = self._event(global_step)
        event.session_log.MergeFromString(session_log.SerializeToString())
        self.add_event(event)

    def _event(self, step: int | None, **what: Any) -> Any:
        return Event(wall_time=time.time(), step=0 if step is None else int(step), **what)

    def flush(self) -> None:
        """Hand all events to the operating system."""
        self._file.flush()

    def close(self) -> None:
        """Flush and close the file; a second call does nothing."""
        self._file.close()

    def reopen(self) -> None:
        """Open a new file in the same folder after `close`.

        Before `close`, nothing changes.
        """
        if self._file.is_closed:
            self._file = self._open()

    def __enter__(self) -> FileWriter:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


_OPERATIONS: Final = (
    "all_v2_summary_ops",
    "audio",
    "get_summary_description",
    "histogram",
    "image",
    "initialize",
    "merge",
    "merge_all",
    "scalar",
    "tensor_summary",
    "text",
)


def __getattr__(name: str) -> Any:
    if name in _OPERATIONS:
        value = globals()[name] = getattr(
            importlib.import_module("tfjit.client.data.summary_ops"), name
        )
        return value
    if name in ("Event", "SessionLog", "SummaryDescription", "TaggedRunMetadata"):
        return getattr(importlib.import_module("tfjit.protos"), name)
    if name == "FileWriterCache":
        return getattr(importlib.import_module("tfjit.client.data.file_writer_cache"), name)
    raise AttributeError(f"module 'tfjit.summary' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_OPERATIONS, "FileWriterCache"})
