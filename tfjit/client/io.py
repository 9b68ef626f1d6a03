"""`tfjit.io`: files of records, parsing, matching names."""

from __future__ import annotations

from tfjit.client.data.file_ops import matching_files, read_file, write_file
from tfjit.client.data.parsing import (
    FixedLenFeature,
    FixedLenSequenceFeature,
    SparseFeature,
    VarLenFeature,
    decode_csv,
    decode_json_example,
    decode_raw,
    parse_example,
    parse_single_example,
)
from tfjit.client.data.record_files import (
    TFRecordCompressionType,
    TFRecordOptions,
    TFRecordWriter,
    tf_record_iterator,
)
from tfjit.client.strings import (
    decode_base64,
    decode_compressed,
    encode_base64,
    parse_tensor,
    serialize_tensor,
)
from tfjit.client.training.input_queues import match_filenames_once

__all__ = [
    "FixedLenFeature",
    "FixedLenSequenceFeature",
    "SparseFeature",
    "TFRecordCompressionType",
    "TFRecordOptions",
    "TFRecordWriter",
    "VarLenFeature",
    "decode_base64",
    "decode_compressed",
    "decode_csv",
    "decode_json_example",
    "decode_raw",
    "encode_base64",
    "match_filenames_once",
    "matching_files",
    "parse_example",
    "parse_single_example",
    "parse_tensor",
    "read_file",
    "serialize_tensor",
    "tf_record_iterator",
    "write_file",
]
