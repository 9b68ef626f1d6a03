"""Event files that several users of one folder share."""

from __future__ import annotations

import threading

from tfjit.client.data.summary import FileWriter
from tfjit.framework.graphs.default_graph import get_default_graph


class FileWriterCache:
    """The open FileWriters of this process, one a folder."""

    _lock = threading.Lock()
    _writers: dict[str, FileWriter] = {}  # noqa: RUF012  shared by design

    @staticmethod
    def clear() -> None:
        """Close and forget all."""
        with FileWriterCache._lock:
            for writer in FileWriterCache._writers.values():
                writer.close()
            FileWriterCache._writers.clear()

    @staticmethod
    def get(logdir: str) -> FileWriter:
        """Return the writer of a folder.

        A new one begins with the default graph.
        """
        with FileWriterCache._lock:
            if logdir not in FileWriterCache._writers:
                FileWriterCache._writers[logdir] = FileWriter(logdir, graph=get_default_graph())
            return FileWriterCache._writers[logdir]
