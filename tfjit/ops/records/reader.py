"""Declare readers of record files."""

from __future__ import annotations

from typing import Final

from tfjit.framework.op_defs.op_traits import BLOCKING
from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import Shapes, handle_to_scalar, nothing, scalar, vector_of_two

FIXED_LENGTH: Final = (
    "header_bytes: int = 0",
    "record_bytes: int",
    "footer_bytes: int = 0",
    "hop_bytes: int = 0",
    "container: string = ''",
    "shared_name: string = ''",
)


def _read(c: ShapeContext) -> Shapes:
    c.with_rank_at_most(0, 1)
    c.with_rank_at_most(1, 1)
    return [(), ()]


def _read_up_to(c: ShapeContext) -> Shapes:
    c.with_rank_at_most(0, 1)
    c.with_rank_at_most(1, 1)
    c.with_rank(2, 0)
    return [(None,), (None,)]


def _restore(c: ShapeContext) -> Shapes:
    c.with_rank_at_most(0, 1)
    c.with_rank(1, 0)
    return []


register_op(
    "FixedLengthRecordReader",
    outputs=("reader_handle: Ref(string)",),
    attrs=FIXED_LENGTH,
    stateful=True,
    deprecated=(26, "Use FixedLengthRecordReaderV2"),
    shape=vector_of_two,
)
register_op(
    "FixedLengthRecordReaderV2",
    outputs=("reader_handle: resource",),
    attrs=(*FIXED_LENGTH, "encoding: string = ''"),
    stateful=True,
    shape=scalar,
)
register_op(
    "IdentityReader",
    outputs=("reader_handle: Ref(string)",),
    attrs=("container: string = ''", "shared_name: string = ''"),
    stateful=True,
    deprecated=(26, "Use IdentityReaderV2"),
    shape=vector_of_two,
)
for _op_type in ("IdentityReaderV2", "WholeFileReaderV2"):
    register_op(
        _op_type,
        outputs=("reader_handle: resource",),
        attrs=("container: string = ''", "shared_name: string = ''"),
        stateful=True,
        shape=scalar,
    )
register_op(
    "ReaderNumRecordsProduced",
    inputs=("reader_handle: Ref(string)",),
    outputs=("records_produced: int64",),
    shape=handle_to_scalar,
)
register_op(
    "ReaderNumRecordsProducedV2",
    inputs=("reader_handle: resource",),
    outputs=("records_produced: int64",),
    stateful=True,
    shape=handle_to_scalar,
)
register_op(
    "ReaderNumWorkUnitsCompleted",
    inputs=("reader_handle: Ref(string)",),
    outputs=("units_completed: int64",),
    shape=handle_to_scalar,
)
register_op(
    "ReaderNumWorkUnitsCompletedV2",
    inputs=("reader_handle: resource",),
    outputs=("units_completed: int64",),
    stateful=True,
    shape=handle_to_scalar,
)
register_op(
    "ReaderRead",
    inputs=("reader_handle: Ref(string)", "queue_handle: Ref(string)"),
    outputs=("key: string", "value: string"),
    shape=_read,
    traits=BLOCKING,
)
register_op(
    "ReaderReadUpTo",
    inputs=("reader_handle: Ref(string)", "queue_handle: Ref(string)", "num_records: int64"),
    outputs=("keys: string", "values: string"),
    shape=_read_up_to,
    traits=BLOCKING,
)
register_op(
    "ReaderReadUpToV2",
    inputs=("reader_handle: resource", "queue_handle: resource", "num_records: int64"),
    outputs=("keys: string", "values: string"),
    stateful=True,
    shape=_read_up_to,
    traits=BLOCKING,
)
register_op(
    "ReaderReadV2",
    inputs=("reader_handle: resource", "queue_handle: resource"),
    outputs=("key: string", "value: string"),
    stateful=True,
    shape=_read,
    traits=BLOCKING,
)
register_op("ReaderReset", inputs=("reader_handle: Ref(string)",), shape=nothing)
register_op("ReaderResetV2", inputs=("reader_handle: resource",), stateful=True, shape=nothing)
register_op(
    "ReaderRestoreState", inputs=("reader_handle: Ref(string)", "state: string"), shape=_restore
)
register_op(
    "ReaderRestoreStateV2",
    inputs=("reader_handle: resource", "state: string"),
    stateful=True,
    shape=_restore,
)
register_op(
    "ReaderSerializeState",
    inputs=("reader_handle: Ref(string)",),
    outputs=("state: string",),
    shape=handle_to_scalar,
)
register_op(
    "ReaderSerializeStateV2",
    inputs=("reader_handle: resource",),
    outputs=("state: string",),
    stateful=True,
    shape=handle_to_scalar,
)
register_op(
    "TextLineReader",
    outputs=("reader_handle: Ref(string)",),
    attrs=("skip_header_lines: int = 0", "container: string = ''", "shared_name: string = ''"),
    stateful=True,
    deprecated=(26, "Use TextLineReaderV2"),
    shape=vector_of_two,
)
register_op(
    "TextLineReaderV2",
    outputs=("reader_handle: resource",),
    attrs=("skip_header_lines: int = 0", "container: string = ''", "shared_name: string = ''"),
    stateful=True,
    shape=scalar,
)
register_op(
    "TFRecordReader",
    outputs=("reader_handle: Ref(string)",),
    attrs=("container: string = ''", "shared_name: string = ''", "compression_type: string = ''"),
    stateful=True,
    deprecated=(26, "Use TFRecordReaderV2"),
    shape=vector_of_two,
)
register_op(
    "TFRecordReaderV2",
    outputs=("reader_handle: resource",),
    attrs=("container: string = ''", "shared_name: string = ''", "compression_type: string = ''"),
    stateful=True,
    shape=scalar,
)
register_op(
    "WholeFileReader",
    outputs=("reader_handle: Ref(string)",),
    attrs=("container: string = ''", "shared_name: string = ''"),
    stateful=True,
    shape=vector_of_two,
)
