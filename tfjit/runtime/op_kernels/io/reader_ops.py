"""Runtime kernels of readers.

A handle, of either kind, is the reader itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tfjit.framework import errors
from tfjit.runtime.host.completion import Done
from tfjit.runtime.kernel_api.op_kernel import OpContext, blocking_kernel, runtime_kernel
from tfjit.runtime.resources import readers
from tfjit.runtime.resources.queues import Queue
from tfjit.runtime.resources.readers import Open, Reader

_COMPRESSIONS = ("", "ZLIB", "GZIP")


def _shared(ctx: OpContext, start: Callable[[], Open], whole_items: bool = False) -> Sequence[Any]:
    a = ctx.attrs
    kind = ctx.op.removesuffix("V2")
    name = a.get("shared_name", b"").decode() or ctx.name
    files = ctx.session.env.files
    manager = ctx.session.manager(ctx.device.name)
    make = lambda: Reader(kind, name, files, start(), whole_items)  # noqa: E731
    return (manager.lookup_or_create(a.get("container", b"").decode(), "Reader", name, make),)


@runtime_kernel("TextLineReader", "TextLineReaderV2")
def text_line_reader(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return a reader of lines of text files."""
    return _shared(ctx, lambda: readers.text_lines(ctx.attrs.get("skip_header_lines", 0)))


@runtime_kernel("WholeFileReader", "WholeFileReaderV2")
def whole_file_reader(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return a reader of whole files."""
    return _shared(ctx, lambda: readers.whole_file, whole_items=True)


@runtime_kernel("IdentityReader", "IdentityReaderV2")
def identity_reader(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return a reader of the queue's elements."""
    return _shared(ctx, lambda: readers.identity, whole_items=True)


def _compression(ctx: OpContext, name: str) -> str:
    value: str = ctx.attrs.get(name, b"").decode()
    if value not in _COMPRESSIONS:
        raise errors.InvalidArgumentError(
            None, None, f"Unsupported {name} {value!r}; it may be ZLIB, GZIP or empty"
        )
    return value


@runtime_kernel("TFRecordReader", "TFRecordReaderV2")
def tf_record_reader(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return a reader of records of TFRecord files."""
    return _shared(ctx, lambda: readers.tf_records(_compression(ctx, "compression_type")))


@runtime_kernel("FixedLengthRecordReader", "FixedLengthRecordReaderV2")
def fixed_length_record_reader(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return a reader of pieces of files."""
    a = ctx.attrs
    header, size, footer, hop = (
        int(a.get(f"{part}_bytes", 0)) for part in ("header", "record", "footer", "hop")
    )
    for part, value in (("header", header), ("record", size), ("footer", footer), ("hop", hop)):
        if value < 0:
            raise errors.InvalidArgumentError(None, None, f"{part}_bytes must be >= 0 not {value}")
    return _shared(
        ctx,
        lambda: readers.fixed_length(
            header, size, footer, hop or size, _compression(ctx, "encoding")
        ),
    )


def _reader(value: Any) -> Reader:
    if not isinstance(value, Reader):
        raise errors.InvalidArgumentError(
            None, None, f"the handle belongs to a {type(value).__name__}, not to a reader"
        )
    return value


def _queue(value: Any) -> Queue:
    if not isinstance(value, Queue):
        raise errors.InvalidArgumentError(
            None, None, f"the handle belongs to a {type(value).__name__}, not to a queue"
        )
    return value


@blocking_kernel("ReaderRead", "ReaderReadV2")
def read(ctx: OpContext, inputs: Sequence[Any], done: Done) -> None:
    """Read the next record: key and value, string scalars."""
    readers.read_into(_reader(inputs[0]), None, _queue(inputs[1]), ctx.step.cancellation, done)


@blocking_kernel("ReaderReadUpTo", "ReaderReadUpToV2")
def read_up_to(ctx: OpContext, inputs: Sequence[Any], done: Done) -> None:
    """Read the next records, at most num_records, of one work item."""
    limit = int(np.asarray(inputs[2]))
    if limit <= 0:
        raise errors.InvalidArgumentError(
            None, None, f"num_records must be positive, but it is {limit}"
        )
    readers.read_into(_reader(inputs[0]), limit, _queue(inputs[1]), ctx.step.cancellation, done)


@runtime_kernel("ReaderNumRecordsProduced", "ReaderNumRecordsProducedV2")
def num_records_produced(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return the number of records since creation or reset, int64."""
    return (np.array(_reader(inputs[0]).records_produced, np.int64),)


@runtime_kernel("ReaderNumWorkUnitsCompleted", "ReaderNumWorkUnitsCompletedV2")
def num_work_units_completed(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return the number of items read to their end, int64."""
    return (np.array(_reader(inputs[0]).work_finished, np.int64),)


@runtime_kernel("ReaderReset", "ReaderResetV2")
def reset(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Reset the reader to its first state."""
    _reader(inputs[0]).reset()
    return ()


@runtime_kernel("ReaderSerializeState", "ReaderSerializeStateV2")
def serialize_state(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return the reader's state, a string scalar."""
    return (np.array(_reader(inputs[0]).state(), object),)


@runtime_kernel("ReaderRestoreState", "ReaderRestoreStateV2")
def restore_state(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Continue where another reader's state says."""
    _reader(inputs[0]).restore(np.asarray(inputs[1], object).item())
    return ()
