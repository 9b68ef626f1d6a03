"""Write event files, which TensorBoard reads: records of Event messages."""

from __future__ import annotations

import itertools
import os
import socket
import threading
from typing import IO, TYPE_CHECKING, Final

from tfjit.framework.env import LOCAL_FILES, Clock, FileSystem
from tfjit.framework.files.records import pack_record

if TYPE_CHECKING:
    from tfjit.protos import Event

_FILE_VERSION: Final = "brain.Event:2"
_numbers: Final = itertools.count()


class EventFile:
    """An event file in the folder `logdir`, which is made.

    writer: its name in the file's first event. limit: events that may wait for a flush.
    flush_seconds: longest time since a flush when an event is added. suffix: of the file's name.
    Several threads may add. Raises the errors of the file system.
    """

    def __init__(
        self,
        logdir: str,
        writer: str,
        *,
        limit: int,
        flush_seconds: float,
        suffix: str = "",
        files: FileSystem = LOCAL_FILES,
        clock: Clock | None = None,
    ) -> None:
        from tfjit.protos import Event

        self._limit, self._flush_seconds = limit, flush_seconds
        self._clock = clock or Clock()
        self._lock = threading.Lock()
        now = self.now()
        files.make_folders(logdir)
        name = (
            f"events.out.tfevents.{int(now):010d}.{socket.gethostname()}.{os.getpid()}."
            f"{next(_numbers)}{suffix}"
        )
        self.path = os.path.join(logdir, name)
        self._file: IO[bytes] | None = files.open(self.path, "wb")
        self._waiting = 0
        self._flushed = now
        first = Event(wall_time=now, file_version=_FILE_VERSION)
        first.source_metadata.writer = writer
        self._file.write(pack_record(first.SerializeToString()))
        self._file.flush()

    def now(self) -> float:
        """Return the seconds since the epoch."""
        return self._clock.time_ns() / 1e9

    def add(self, event: Event) -> None:
        """Write an Event message; after `close` nothing is written."""
        record = pack_record(event.SerializeToString())
        with self._lock:
            if self._file is None:
                return
            self._file.write(record)
            self._waiting += 1
            now = self.now()
            if self._waiting > self._limit or now - self._flushed >= self._flush_seconds:
                self._file.flush()
                self._waiting, self._flushed = 0, now

    def flush(self) -> None:
        """Hand all events to the operating system."""
        with self._lock:
            if self._file is not None:
                self._file.flush()
                self._waiting, self._flushed = 0, self.now()

    @property
    def is_closed(self) -> bool:
        """Return whether the file was closed."""
        return self._file is None

    def close(self) -> None:
        """Flush and close the file; a second call does nothing."""
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None
