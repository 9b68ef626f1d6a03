"""Readers of record files, as nodes of a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfjit.client.data.queues import QueueBase
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.ops.core.apply import call, create, tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Structure, TensorLike


class ReaderBase:
    """Turns a queue of work items into records: keys and values.

    Work items are mostly names of files. reader_ref: the handle. supports_serialize: its state can
    be saved.
    """

    def __init__(self, reader_ref: Tensor, supports_serialize: bool = False) -> None:
        self._reader_ref = reader_ref
        self._supports_serialize = supports_serialize

    @property
    def reader_ref(self) -> Tensor:
        """The handle."""
        return self._reader_ref

    @property
    def supports_serialize(self) -> bool:
        """Return whether the state can be saved."""
        return self._supports_serialize

    def read(self, queue: object, name: str | None = None) -> Any:
        """Return the next record: (key, value), strings.

        Its run raises OutOfRangeError when the queue is closed and empty.
        """
        return call(
            "ReaderReadV2", name, reader_handle=self._reader_ref, queue_handle=_handle(queue)
        )

    def read_up_to(self, queue: object, num_records: TensorLike, name: str | None = None) -> Any:
        """Return the next records of one work item, at most num_records.

        They are vectors of keys and values.
        """
        return call(
            "ReaderReadUpToV2",
            name,
            reader_handle=self._reader_ref,
            queue_handle=_handle(queue),
            num_records=num_records,
        )

    def num_records_produced(self, name: str | None = None) -> Tensor:
        """Return the number of records so far, int64."""
        return tensor("ReaderNumRecordsProducedV2", name, reader_handle=self._reader_ref)

    def num_work_units_completed(self, name: str | None = None) -> Tensor:
        """Return the number of finished work items, int64."""
        return tensor("ReaderNumWorkUnitsCompletedV2", name, reader_handle=self._reader_ref)

    def serialize_state(self, name: str | None = None) -> Tensor:
        """Return the state, a string; readers inside a file cannot give it."""
        return tensor("ReaderSerializeStateV2", name, reader_handle=self._reader_ref)

    def restore_state(self, state: Structure, name: str | None = None) -> Operation:
        """Continue where a state says."""
        return create("ReaderRestoreStateV2", name, reader_handle=self._reader_ref, state=state)

    def reset(self, name: str | None = None) -> Operation:
        """Reset the reader to its first state."""
        return create("ReaderResetV2", name, reader_handle=self._reader_ref)


def _handle(queue: Any) -> Tensor:
    found: Tensor = queue.queue_ref if isinstance(queue, QueueBase) else queue
    return found


class WholeFileReader(ReaderBase):
    """A record a file: its name and its contents."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(tensor("WholeFileReaderV2", name), supports_serialize=True)


class TextLineReader(ReaderBase):
    """A record a line, without its end. skip_header_lines: of each file."""

    def __init__(self, skip_header_lines: int | None = None, name: str | None = None) -> None:
        super().__init__(tensor("TextLineReaderV2", name, skip_header_lines=skip_header_lines))


class FixedLengthRecordReader(ReaderBase):
    """Records of record_bytes between a header and a footer.

    hop_bytes: from one record to the next. encoding: "", "ZLIB" or "GZIP".
    """

    def __init__(
        self,
        record_bytes: int,
        header_bytes: int | None = None,
        footer_bytes: int | None = None,
        hop_bytes: int | None = None,
        name: str | None = None,
        encoding: str | None = None,
    ) -> None:
        sizes = {
            "record_bytes": record_bytes,
            "header_bytes": header_bytes,
            "footer_bytes": footer_bytes,
            "hop_bytes": hop_bytes,
        }
        super().__init__(tensor("FixedLengthRecordReaderV2", name, encoding=encoding, **sizes))


class TFRecordReader(ReaderBase):
    """The records of TFRecord files. options: TFRecordOptions, or a compression type."""

    def __init__(self, name: str | None = None, options: object = None) -> None:
        from tfjit.client.data.record_files import compression_of

        super().__init__(tensor("TFRecordReaderV2", name, compression_type=compression_of(options)))


class IdentityReader(ReaderBase):
    """A record a work item: itself."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(tensor("IdentityReaderV2", name), supports_serialize=True)
