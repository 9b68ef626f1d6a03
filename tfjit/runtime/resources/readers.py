"""Readers: records out of files whose names come from a queue."""

from __future__ import annotations

import gzip
import io
import threading
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Protocol

import numpy as np

from tfjit.framework import errors
from tfjit.framework.files.records import read_records

if TYPE_CHECKING:
    from tfjit.framework.env import FileSystem
    from tfjit.runtime.host.cancellation import CancellationManager

Record = tuple[bytes, bytes]
"""Key and value."""
Open = Callable[["FileSystem", bytes], Iterator[Record]]
"""Start on a work item and return its records, in order.

An error at the start costs the item; an error in reading is raised again next time.
"""


class WorkQueue(Protocol):
    """The queue that a reader takes its work items from."""

    def dequeue(
        self,
        count: int,
        up_to: bool,
        cancellation: CancellationManager,
        done: Callable[[Any], None],
    ) -> None:
        """Take `count` elements; call `done` with them, or with an exception."""


@dataclass(slots=True, eq=False)
class _Request:
    """A request for records.

    limit: largest number of records. done: gets the list of records, or an exception.
    """

    limit: int
    queue: WorkQueue
    cancellation: CancellationManager
    done: Callable[[list[Record] | BaseException], None]
    token: int | None = None


class Reader:
    """A reader resource.

    Reads wait for their turn, and for the queue, without holding a thread. whole_items: a work item
    is one record; only then the state can be saved.
    """

    def __init__(
        self, kind: str, name: str, files: FileSystem, start: Open, whole_items: bool = False
    ) -> None:
        self.kind = kind
        self.name = name
        self._files = files
        self._start = start
        self._whole_items = whole_items
        self._lock = threading.Lock()
        self._waiting: deque[_Request] = deque()
        self._busy = False
        self._clear()

    def _clear(self) -> None:
        self.work_started = self.work_finished = self.records_produced = 0
        self._work = b""
        self._records: Iterator[Record] | None = None

    def read(
        self,
        limit: int,
        queue: WorkQueue,
        cancellation: CancellationManager,
        done: Callable[[Any], None],
    ) -> None:
        """Read up to `limit` records of one work item.

        Calls `done(list of records)`.
        """
        request = _Request(limit, queue, cancellation, done)
        with self._lock:
            self._waiting.append(request)
            first = not self._busy
            self._busy = True
        if first:
            self._pump()
            return

        def cancel() -> None:
            with self._lock:
                if request not in self._waiting or self._waiting[0] is request:
                    return  # the request has its turn: the queue will answer
                self._waiting.remove(request)
            done(errors.CancelledError(None, None, "Reader operation was cancelled"))

        request.token = cancellation.register(cancel)
        if request.token is None:
            cancel()

    def _pump(self) -> None:
        """Serve waiting requests until none is left.

        Stops too where the queue makes the first one wait.
        """
        while True:
            with self._lock:
                if not self._waiting:
                    self._busy = False
                    return
                request = self._waiting[0]
            try:
                records = self._produce(request.limit)
            except BaseException as error:
                self._finish(request, error)
                continue
            if records:
                self._finish(request, records)
            elif not self._next_work(request):
                return

    def _produce(self, limit: int) -> list[Record]:
        """Return records of the current item; none at its end."""
        with self._lock:
            found: list[Record] = []
            if self._records is None:
                return found
            try:
                for record in self._records:
                    found.append(record)
                    if len(found) == limit:
                        break
            except Exception:
                if not found:
                    raise
                self.records_produced += len(found)
                return found  # the error comes with the next read
            self.records_produced += len(found)
            if len(found) < limit or self._whole_items:
                self._records = None
                self.work_finished += 1
            return found

    def _next_work(self, request: _Request) -> bool:
        """Ask the queue for an item.

        Returns whether the queue answered at once; if not, the pump continues when it does.
        """
        lock, state = threading.Lock(), {"waits": False, "answered": False}
        self._work = b""

        def taken(result: Any) -> None:
            if isinstance(result, BaseException):
                self._finish(request, result)
            else:
                self._begin(request, result[0])
            with lock:
                state["answered"] = True
                if not state["waits"]:
                    return
            self._pump()

        request.queue.dequeue(1, False, request.cancellation, taken)
        with lock:
            state["waits"] = not state["answered"]
            return state["answered"]

    def _begin(self, request: _Request, element: tuple[Any, ...]) -> None:
        with self._lock:
            self._work = np.asarray(element[0], object).item()
            self.work_started += 1
            try:
                self._records = _Repeating(self._start(self._files, self._work))
                return
            except Exception as error:
                failure = _as_op_error(error, self._work)
        self._finish(request, failure)

    def _finish(self, request: _Request, result: Any) -> None:
        with self._lock:
            self._waiting.remove(request)
        if request.token is not None:
            request.cancellation.deregister(request.token)
        request.done(_as_op_error(result, self._work) if isinstance(result, OSError) else result)

    def reset(self) -> None:
        """Reset the reader to its first state."""
        with self._lock:
            self._clear()

    def state(self) -> bytes:
        """Return the state for `restore`.

        Raises UnimplementedError for readers that stand inside a file.
        """
        if not self._whole_items:
            raise errors.UnimplementedError(None, None, "Reader SerializeState")
        with self._lock:
            numbers = (self.work_started, self.work_finished, self.records_produced)
            parts = [
                bytes([field << 3]) + _varint(number)
                for field, number in enumerate(numbers, 1)
                if number
            ]
            if self._work:
                parts.append(b"\x22" + _varint(len(self._work)) + self._work)
            return b"".join(parts)

    def restore(self, state: bytes) -> None:
        """Go back to a saved state.

        Raises UnimplementedError as `state`, InvalidArgumentError for bytes that are no state; both
        reset the reader.
        """
        with self._lock:
            self._clear()
            if not self._whole_items:
                raise errors.UnimplementedError(None, None, "Reader RestoreState")
            try:
                fields = _read_state(state)
            except (IndexError, ValueError):
                text = state.decode(errors="replace")
                raise errors.InvalidArgumentError(
                    None, None, f"Could not parse state for {self.kind} '{self.name}': {text}"
                ) from None
            self.work_started, self.work_finished, self.records_produced, self._work = fields
            if self.work_started > self.work_finished:
                self._records = _Repeating(self._start(self._files, self._work))


class _Repeating(Iterator[Record]):
    """The same records, with an error raised again at each read.

    An iterator that raised would seem to have ended.
    """

    def __init__(self, records: Iterator[Record]) -> None:
        self._records = records
        self._error: BaseException | None = None

    def __next__(self) -> Record:
        if self._error is not None:
            raise self._error
        try:
            return next(self._records)
        except StopIteration:
            raise
        except BaseException as error:
            self._error = error
            raise


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def _read_state(data: bytes) -> tuple[int, int, int, bytes]:
    """Return the fields of a ReaderBaseState message.

    Raises ValueError or IndexError for bytes that are none.
    """
    numbers = {1: 0, 2: 0, 3: 0}
    work = b""
    offset = 0

    def varint() -> int:
        nonlocal offset
        value = shift = 0
        while True:
            byte = data[offset]
            offset += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while offset < len(data):
        tag = varint()
        if tag >> 3 in numbers and tag & 7 == 0:
            numbers[tag >> 3] = varint()
        elif tag == 0x22:
            size = varint()
            work = data[offset : offset + size]
            offset += size
            if len(work) < size:
                raise ValueError
        else:
            raise ValueError
    if not 0 <= numbers[2] <= numbers[1]:
        raise ValueError
    return numbers[1], numbers[2], numbers[3], work


def _as_op_error(error: BaseException, work: bytes) -> BaseException:
    """Return an OSError about a work item's file as TensorFlow's class."""
    path = work.decode(errors="surrogateescape")
    if isinstance(error, FileNotFoundError):
        return errors.NotFoundError(None, None, f"{path}; No such file or directory")
    if isinstance(error, PermissionError):
        return errors.PermissionDeniedError(None, None, f"{path}; Permission denied")
    if isinstance(error, OSError):
        return errors.FailedPreconditionError(None, None, f"{path}; {error.strerror or error}")
    if isinstance(error, (zlib.error, EOFError)):
        return errors.DataLossError(None, None, f"{path}: {error}")
    return error


def _path(work: bytes) -> str:
    return work.decode(errors="surrogateescape").removeprefix("file://")


def whole_file(files: FileSystem, work: bytes) -> Iterator[Record]:
    """Yield one record: the file's name and contents."""

    # the file is read with the record, so that a missing one stays in hand, as TensorFlow has it
    def records() -> Iterator[Record]:
        yield work, files.read(_path(work))

    return records()


def identity(files: FileSystem, work: bytes) -> Iterator[Record]:
    """Yield one record: the item itself, as key and value."""
    return iter([(work, work)])


def text_lines(skip_header_lines: int) -> Open:
    """Return a start function for lines, without their ends.

    Keys are "file:line", from 1.
    """

    def start(files: FileSystem, work: bytes) -> Iterator[Record]:
        file: IO[bytes] = files.open(_path(work), "rb")

        def records() -> Iterator[Record]:
            with file:
                for number, line in enumerate(file, 1):
                    if number > skip_header_lines:
                        yield (
                            b"%b:%d" % (work, number),
                            line.removesuffix(b"\n").removesuffix(b"\r"),
                        )

        return records()

    return start


def tf_records(compression: str) -> Open:
    """Return a start function for the records of TFRecord files.

    Keys are "file:offset". compression: "", "ZLIB" or "GZIP".
    """

    def start(files: FileSystem, work: bytes) -> Iterator[Record]:
        file = opened(files, _path(work), compression)

        def records() -> Iterator[Record]:
            with file:
                offset = 0
                for data in read_records(file, _path(work)):
                    yield b"%b:%d" % (work, offset), data
                    offset += len(data) + 16

        return records()

    return start


def fixed_length(header: int, size: int, footer: int, hop: int, encoding: str) -> Open:
    """Return a start function for records of `size` bytes.

    They lie between header and footer, each `hop` bytes after the one before; keys are
    "file:number", from 0.
    """

    def start(files: FileSystem, work: bytes) -> Iterator[Record]:
        with opened(files, _path(work), encoding) as file:
            data = file.read()
        if len(data) < header:
            raise errors.OutOfRangeError(None, None, "reached end of file")

        def records() -> Iterator[Record]:
            number, offset = 0, header
            while offset + size <= len(data) - footer:
                yield b"%b:%d" % (work, number), data[offset : offset + size]
                number, offset = number + 1, offset + hop

        return records()

    return start


def opened(files: FileSystem, path: str, compression: str) -> IO[bytes]:
    """Return a file to read, decompressed on the way."""
    file: IO[Any] = files.open(path, "rb")
    if compression == "GZIP":
        return gzip.GzipFile(fileobj=file)  # type: ignore[return-value]
    if compression == "ZLIB":
        with file:
            return io.BytesIO(zlib.decompress(file.read()))
    return file


def read_into(
    reader: Reader,
    limit: int | None,
    queue: WorkQueue,
    cancellation: CancellationManager,
    done: Callable[[Sequence[Any] | BaseException], None],
) -> None:
    """Call `done` with records as scalars or vectors.

    One record's key and value are scalars (limit None); vectors have up to `limit` elements.
    """

    def finished(result: Any) -> None:
        if isinstance(result, BaseException):
            done(result)
        elif limit is None:
            done([np.array(part, object) for part in result[0]])
        else:
            columns = []
            for part in zip(*result, strict=True):
                column = np.empty(len(part), object)
                column[:] = part
                columns.append(column)
            done(columns)

    reader.read(limit or 1, queue, cancellation, finished)
