"""`tfjit.io`: files of records, parsing, matching names."""

from __future__ import annotations

from tfjit.client.parsing import (
    FixedLenFeature,
    FixedLenSequenceFeature,
    decode_csv,
    decode_raw,
    parse_example,
    parse_single_example,
)
from tfjit.client.record_files import TFRecordCompressionType, TFRecordOptions, TFRecordWriter, tf_record_iterator

__all__ = [
    "FixedLenFeature",
    "FixedLenSequenceFeature",
    "TFRecordCompressionType",
    "TFRecordOptions",
    "TFRecordWriter",
    "decode_csv",
    "decode_raw",
    "parse_example",
    "parse_single_example",
    "tf_record_iterator",
]
