"""Readers of record files."""

from __future__ import annotations

from tfjit.ops.declare import register_op

register_op(
    "FixedLengthRecordReader",
    outputs=("reader_handle: Ref(string)",),
    attrs=(
        "header_bytes: int = 0",
        "record_bytes: int",
        "footer_bytes: int = 0",
        "hop_bytes: int = 0",
        "container: string = ''",
        "shared_name: string = ''",
    ),
    stateful=True,
    deprecated=(26, "Use FixedLengthRecordReaderV2"),
)
register_op(
    "FixedLengthRecordReaderV2",
    outputs=("reader_handle: resource",),
    attrs=(
        "header_bytes: int = 0",
        "record_bytes: int",
        "footer_bytes: int = 0",
        "hop_bytes: int = 0",
        "container: string = ''",
        "shared_name: string = ''",
        "encoding: string = ''",
    ),
    stateful=True,
)
register_op(
    "IdentityReader",
    outputs=("reader_handle: Ref(string)",),
    attrs=("container: string = ''", "shared_name: string = ''"),
    stateful=True,
    deprecated=(26, "Use IdentityReaderV2"),
)
register_op(
    "IdentityReaderV2", outputs=("reader_handle: resource",), attrs=("container: string = ''", "shared_name: string = ''"), stateful=True
)
register_op("ReaderNumRecordsProduced", inputs=("reader_handle: Ref(string)",), outputs=("records_produced: int64",))
register_op("ReaderNumRecordsProducedV2", inputs=("reader_handle: resource",), outputs=("records_produced: int64",), stateful=True)
register_op("ReaderNumWorkUnitsCompleted", inputs=("reader_handle: Ref(string)",), outputs=("units_completed: int64",))
register_op("ReaderNumWorkUnitsCompletedV2", inputs=("reader_handle: resource",), outputs=("units_completed: int64",), stateful=True)
register_op("ReaderRead", inputs=("reader_handle: Ref(string)", "queue_handle: Ref(string)"), outputs=("key: string", "value: string"))
register_op(
    "ReaderReadUpTo",
    inputs=("reader_handle: Ref(string)", "queue_handle: Ref(string)", "num_records: int64"),
    outputs=("keys: string", "values: string"),
)
register_op(
    "ReaderReadUpToV2",
    inputs=("reader_handle: resource", "queue_handle: resource", "num_records: int64"),
    outputs=("keys: string", "values: string"),
    stateful=True,
)
register_op(
    "ReaderReadV2", inputs=("reader_handle: resource", "queue_handle: resource"), outputs=("key: string", "value: string"), stateful=True
)
register_op("ReaderReset", inputs=("reader_handle: Ref(string)",))
register_op("ReaderResetV2", inputs=("reader_handle: resource",), stateful=True)
register_op("ReaderRestoreState", inputs=("reader_handle: Ref(string)", "state: string"))
register_op("ReaderRestoreStateV2", inputs=("reader_handle: resource", "state: string"), stateful=True)
register_op("ReaderSerializeState", inputs=("reader_handle: Ref(string)",), outputs=("state: string",))
register_op("ReaderSerializeStateV2", inputs=("reader_handle: resource",), outputs=("state: string",), stateful=True)
register_op(
    "TextLineReader",
    outputs=("reader_handle: Ref(string)",),
    attrs=("skip_header_lines: int = 0", "container: string = ''", "shared_name: string = ''"),
    stateful=True,
    deprecated=(26, "Use TextLineReaderV2"),
)
register_op(
    "TextLineReaderV2",
    outputs=("reader_handle: resource",),
    attrs=("skip_header_lines: int = 0", "container: string = ''", "shared_name: string = ''"),
    stateful=True,
)
register_op(
    "TFRecordReader",
    outputs=("reader_handle: Ref(string)",),
    attrs=("container: string = ''", "shared_name: string = ''", "compression_type: string = ''"),
    stateful=True,
    deprecated=(26, "Use TFRecordReaderV2"),
)
register_op(
    "TFRecordReaderV2",
    outputs=("reader_handle: resource",),
    attrs=("container: string = ''", "shared_name: string = ''", "compression_type: string = ''"),
    stateful=True,
)
register_op(
    "WholeFileReader", outputs=("reader_handle: Ref(string)",), attrs=("container: string = ''", "shared_name: string = ''"), stateful=True
)
register_op(
    "WholeFileReaderV2", outputs=("reader_handle: resource",), attrs=("container: string = ''", "shared_name: string = ''"), stateful=True
)
