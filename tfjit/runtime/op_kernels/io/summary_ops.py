"""Runtime kernels of summary writers, which write event files.

A handle is the writer itself. `SummaryWriter` makes it without a file, `CreateSummaryFileWriter`
opens the file, and `CloseSummaryWriter` closes it, so that it can be opened again.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import numpy as np

from tfjit.framework.errors import DataLossError, InvalidArgumentError, NotFoundError
from tfjit.framework.files.event_file import EventFile
from tfjit.framework.types.shape import format_shape
from tfjit.framework.types.tensors import as_bytes, fill_proto
from tfjit.kernels.registry import NodeSpec, find_reference
from tfjit.runtime.host.completion import Values
from tfjit.runtime.host.fork_safety import release_lock
from tfjit.runtime.kernel_api.op_kernel import OpContext, runtime_kernel
from tfjit.runtime.op_kernels.io.io_ops import file_kernel, path_of, system_errors

if TYPE_CHECKING:
    from tfjit.protos import Summary

_TYPE: Final = "N10tensorflow22SummaryWriterInterfaceE"
_WRITER: Final = "tfjit.runtime.op_kernels.io.summary_ops"


class SummaryWriter:
    """A resource with an event file between creation and close."""

    def __init__(self, container: str, name: str) -> None:
        self._name = f"{container}/{name}"
        self._lock = threading.Lock()
        self._file: EventFile | None = None

    @property
    def file(self) -> EventFile:
        """Return the event file. Raises NotFoundError before creation and after close."""
        if self._file is None:
            raise NotFoundError(None, None, f"Resource {self._name}/{_TYPE} does not exist.")
        return self._file

    def open(self, make: Callable[[], EventFile]) -> None:
        """Take the event file that `make` makes, unless there is one."""
        with self._lock:
            if self._file is None:
                self._file = make()

    def after_fork(self) -> None:
        """Put things in order in a forked child."""
        release_lock(self._lock)

    def close(self) -> None:
        """Close the file, if there is one."""
        file, self._file = self._file, None
        if file is not None:
            file.close()


def _writer(value: object) -> SummaryWriter:
    if not isinstance(value, SummaryWriter):
        raise InvalidArgumentError(
            None, None, f"expected the resource of a SummaryWriter, but it is {value!r}"
        )
    return value


def _scalar(value: object, what: str) -> np.ndarray:
    """Return the one element of an input.

    Raises InvalidArgumentError where there are more or none.
    """
    array = np.asarray(value)
    if array.size != 1:
        raise InvalidArgumentError(
            None, None, f"{what} must be a scalar, but it has shape {format_shape(array.shape)}"
        )
    return array.reshape(())


def _text(value: object, what: str) -> str:
    return as_bytes(_scalar(value, what).item()).decode(errors="replace")


@runtime_kernel("SummaryWriter")
def summary_writer(ctx: OpContext, inputs: Values) -> Values:
    """Return the writer of this container and name."""
    container = ctx.attrs.get("container", b"").decode() or "localhost"
    name = ctx.attrs.get("shared_name", b"").decode() or ctx.name
    manager = ctx.session.manager(ctx.device.name)
    make = lambda: SummaryWriter(container, name)  # noqa: E731
    return (manager.lookup_or_create(container, "SummaryWriter", name, make),)


@file_kernel("CreateSummaryFileWriter")
def create(ctx: OpContext, inputs: Values) -> Values:
    """Open an event file; a writer that has one keeps it."""
    writer = _writer(inputs[0])
    logdir = path_of(inputs[1], "logdir")
    make = functools.partial(
        EventFile,
        logdir,
        _WRITER,
        limit=int(_scalar(inputs[2], "max_queue")),
        flush_seconds=int(_scalar(inputs[3], "flush_millis")) / 1000,
        suffix=_text(inputs[4], "filename_suffix"),
        files=ctx.session.env.files,
        clock=ctx.session.env.clock,
    )
    with system_errors(logdir):
        writer.open(make)
    return ()


@file_kernel("FlushSummaryWriter")
def flush(ctx: OpContext, inputs: Values) -> Values:
    """Hand the events to the operating system."""
    file = _writer(inputs[0]).file
    with system_errors(file.path):
        file.flush()
    return ()


@file_kernel("CloseSummaryWriter")
def close(ctx: OpContext, inputs: Values) -> Values:
    """Close the file."""
    writer = _writer(inputs[0])
    with system_errors(writer.file.path):
        writer.close()
    return ()


@file_kernel(
    "WriteAudioSummary",
    "WriteGraphSummary",
    "WriteHistogramSummary",
    "WriteImageSummary",
    "WriteRawProtoSummary",
    "WriteScalarSummary",
    "WriteSummary",
)
def write(ctx: OpContext, inputs: Values) -> Values:
    """Write an event of a step: a summary or a graph."""
    from tfjit.protos import Event

    file = _writer(inputs[0]).file
    event = Event(wall_time=file.now(), step=int(_scalar(inputs[1], "step")))
    if ctx.op == "WriteGraphSummary":
        event.graph_def = _graph(inputs[2])
    elif ctx.op == "WriteRawProtoSummary":
        _add_messages(event.summary, inputs[2])
    elif ctx.op == "WriteSummary":
        _add_tensor(event.summary, *inputs[2:5])
    else:
        _add_values(event.summary, ctx, inputs[2:])
    with system_errors(file.path):
        file.add(event)
    return ()


def _graph(value: object) -> bytes:
    """Return the bytes of a GraphDef. Raises DataLossError for other bytes."""
    from google.protobuf.message import DecodeError

    from tfjit.protos import GraphDef

    data = as_bytes(_scalar(value, "tensor").item())
    try:
        GraphDef.FromString(data)
    except DecodeError:
        raise DataLossError(None, None, "Bad tf.GraphDef binary proto tensor string") from None
    return data


def _add_messages(summary: Summary, value: object) -> None:
    """Add the values of serialized Summary messages."""
    from google.protobuf.message import DecodeError

    from tfjit.protos import Summary

    for index, item in enumerate(np.asarray(value, object).reshape(-1)):
        try:
            summary.MergeFrom(Summary.FromString(as_bytes(item)))
        except DecodeError:
            raise DataLossError(
                None,
                None,
                f"Bad tf.compat.v1.Summary binary proto tensor string at index {index}",
            ) from None


def _add_tensor(summary: Summary, array: object, tag: object, metadata: object) -> None:
    """Add a tensor, with its metadata where these bytes are a SummaryMetadata."""
    from google.protobuf.message import DecodeError

    from tfjit.protos import SummaryMetadata

    value = summary.value.add(tag=_text(tag, "tag"))
    try:
        found = SummaryMetadata.FromString(as_bytes(_scalar(metadata, "summary_metadata").item()))
    except DecodeError:
        found = SummaryMetadata()  # TensorFlow does not look whether it could read them
    value.metadata.CopyFrom(found)
    fill_proto(value.tensor, np.asarray(array))


def _add_values(summary: Summary, ctx: OpContext, inputs: Values) -> None:
    """Add the message that the stateless operation makes.

    `HistogramSummary` is that of `WriteHistogramSummary`.
    """
    tag = np.array(_text(inputs[0], "tag").encode(), object)
    values = [tag, *(np.asarray(value) for value in inputs[1:])]
    attrs = dict(ctx.attrs)
    op_type = ctx.op.removeprefix("Write") + ("V2" if ctx.op == "WriteAudioSummary" else "")
    if ctx.op == "WriteScalarSummary":
        if not values[1].size:
            raise InvalidArgumentError(None, None, "value must have an element")
        values[1] = values[1].reshape(-1)[0]
    elif ctx.op == "WriteImageSummary":
        attrs["bad_color"] = values.pop()
    elif ctx.op == "WriteAudioSummary":
        values[2] = _scalar(values[2], "sample_rate")
    kernel = find_reference(op_type)
    assert kernel is not None
    (message,) = kernel(NodeSpec(ctx.name, op_type, attrs, (), ()), values)
    summary.ParseFromString(message.item())
