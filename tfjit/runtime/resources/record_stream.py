"""Streams of records from many files, in random order, epoch after epoch."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

from tfjit.framework.env import FileSystem
from tfjit.framework.errors import NotFoundError
from tfjit.framework.files.records import read_records
from tfjit.runtime.host.fork_safety import release_lock
from tfjit.runtime.resources.readers import opened


@dataclass(frozen=True, slots=True)
class RecordSource:
    """The files of a stream and their order.

    pattern: of TFRecord files. compression: "", "ZLIB" or "GZIP". seed: of the order.
    shift_ratio: by this part of their number the shuffled files are rotated. buffer_size: records
    among which one is drawn.
    """

    pattern: str
    compression: str
    seed: int
    shift_ratio: float
    buffer_size: int


class RecordStream:
    """Gives each record once an epoch; several threads may take."""

    def __init__(self, source: RecordSource, files: FileSystem) -> None:
        self._source, self._files = source, files
        self._lock = threading.Lock()
        self._epoch = 0
        self._records: Iterator[bytes] = iter(())

    def take(self, count: int) -> list[bytes]:
        """Return the next records.

        Raises NotFoundError where the pattern matches no file or all are empty, DataLossError for a
        damaged one; the next call starts a new epoch then.
        """
        taken: list[bytes] = []
        with self._lock:
            while len(taken) < count:
                record = next(self._records, None)
                if record is None:
                    self._records = self._shuffled()
                    record = next(self._records, None)
                    if record is None:
                        raise NotFoundError(
                            None, None, f"Found no records in {self._source.pattern}"
                        )
                taken.append(record)
        return taken

    def _shuffled(self) -> Iterator[bytes]:
        """Yield the records of an epoch.

        Memory has `buffer_size` of them at a time.
        """
        drawn = random.Random(f"{self._source.seed} {self._epoch}")
        self._epoch += 1
        buffer: list[bytes] = []
        for record in self._in_files(drawn):
            buffer.append(record)
            if len(buffer) >= self._source.buffer_size:
                yield _draw(buffer, drawn)
        while buffer:
            yield _draw(buffer, drawn)

    def _in_files(self, drawn: random.Random) -> Iterator[bytes]:
        paths = sorted(self._files.glob(self._source.pattern))
        if not paths:
            raise NotFoundError(None, None, f"Found no files at {self._source.pattern}")
        drawn.shuffle(paths)
        first = int(len(paths) * self._source.shift_ratio) % len(paths)
        for path in paths[first:] + paths[:first]:
            with closing(opened(self._files, path, self._source.compression)) as file:
                yield from read_records(file, path)

    def after_fork(self) -> None:
        """Put things in order in a forked child."""
        release_lock(self._lock)


def _draw(buffer: list[bytes], drawn: random.Random) -> bytes:
    """Remove a record at random; the last one takes its place."""
    place = drawn.randrange(len(buffer))
    record, buffer[place] = buffer[place], buffer[-1]
    buffer.pop()
    return record
