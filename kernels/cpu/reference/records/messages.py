"""Take fields out of protocol buffer messages, and build messages of fields.

Messages are read and written on the wire; the library of protocol buffers gives descriptors, and
reads texts.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tfjit.framework.errors import DataLossError
from tfjit.framework.files.sorted_table import get_varint, put_varint
from tfjit.framework.types.dtypes import as_dtype, short_name
from tfjit.framework.types.shape import format_shape
from tfjit.kernels.cpu.reference.inputs import Arrays, invalid
from tfjit.kernels.memory_limits import check_fits_in_memory
from tfjit.kernels.registry import NodeSpec, reference

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor
    from google.protobuf.descriptor_pool import DescriptorPool

Element = Any  # a number, a bool or bytes

_VARINT, _FIXED64, _BYTES, _START, _END, _FIXED32 = range(6)
# number of a field's type in a descriptor -> its name, wire type, format of fixed numbers, dtypes
_TYPES: Final = {
    1: ("double", _FIXED64, "<d", "float64"),
    2: ("float", _FIXED32, "<f", "float32 float64"),
    3: ("int64", _VARINT, "", "int64"),
    4: ("uint64", _VARINT, "", "uint64"),
    5: ("int32", _VARINT, "", "int32 int64"),
    6: ("fixed64", _FIXED64, "<Q", "uint64"),
    7: ("fixed32", _FIXED32, "<I", "uint32 uint64"),
    8: ("bool", _VARINT, "", "bool"),
    9: ("string", _BYTES, "", "string"),
    11: ("message", _BYTES, "", "string"),
    12: ("bytes", _BYTES, "", "string"),
    13: ("uint32", _VARINT, "", "uint32 uint64"),
    14: ("enum", _VARINT, "", "int32"),
    15: ("sfixed32", _FIXED32, "<i", "int32 int64"),
    16: ("sfixed64", _FIXED64, "<q", "int64"),
    17: ("sint32", _VARINT, "", "int32 int64"),
    18: ("sint64", _VARINT, "", "int64"),
}
_ZIGZAG: Final = (17, 18)
_BITS: Final = {3: 64, 4: 64, 5: 32, 8: 1, 13: 32, 14: 32, 17: 32, 18: 64}
_SIGNED: Final = (3, 5, 14)
_TRUNCATED: Final = "CountFields: Failed to consume entire buffer"
_REASONS: Final = (
    _TRUNCATED,
    "Failed skipping unrequested field",
    "ReadPackedValues: Skipping packed field failed",
)


@functools.lru_cache(maxsize=64)
def _pool(source: bytes) -> DescriptorPool:
    """Return the descriptors of a source.

    They are this library's, or those of a set of files, in bytes or in a file.
    """
    from google.protobuf import descriptor_pb2, descriptor_pool
    from google.protobuf.message import DecodeError

    if source in (b"", b"local://"):
        import tfjit.protos.graph_pb2  # noqa: F401  messages that graphs name most

        return descriptor_pool.Default()
    try:
        data = (
            source.removeprefix(b"bytes://")
            if source.startswith(b"bytes://")
            else Path(source.decode(errors="surrogateescape")).read_bytes()
        )
        files = descriptor_pb2.FileDescriptorSet.FromString(data)
        pool = descriptor_pool.DescriptorPool()
        for file in files.file:
            pool.Add(file)
    except (OSError, DecodeError, TypeError, ValueError):
        name = source.decode(errors="replace")
        invalid(
            "Source does not represent serialized file descriptor set proto. This may be due to a "
            "missing dependency on the file containing "
            f'REGISTER_DESCRIPTOR_POOL("{name}", ...);'
        )
    return pool


def _descriptor(node: NodeSpec) -> Descriptor:
    """Return the descriptor of the message type; tensorflow.X is tfjit's X."""
    name = node.attrs["message_type"].decode()
    pool = _pool(node.attrs["descriptor_source"])
    for known in (name, f"tfjit.{name.removeprefix('tensorflow.')}"):
        try:
            return pool.FindMessageTypeByName(known)
        except KeyError:
            continue
    invalid(f"No descriptor found for message type {name}")


@dataclass(frozen=True, slots=True)
class _Field:
    """A field of a message.

    type: its number in descriptors. default: None where the library has none.
    """

    name: str
    number: int
    type: int
    repeated: bool
    packed: bool
    default: Element


def _fields(node: NodeSpec, descriptor: Descriptor) -> list[_Field]:
    """Return the fields that the node names."""
    from google.protobuf import descriptor_pb2

    file, message = descriptor_pb2.FileDescriptorProto(), descriptor_pb2.DescriptorProto()
    descriptor.file.CopyToProto(file)
    descriptor.CopyToProto(message)
    known = {field.name: field for field in message.field}
    found = []
    for raw in node.attrs["field_names"]:
        name = raw.decode()
        field = known.get(name)
        if field is None:
            kind = node.attrs["message_type"].decode()
            invalid(f"Unknown field: {name} in message type {kind}")
        if field.type not in _TYPES:
            invalid(f"Field {name} is a group, which has no kernel")
        repeated = field.label == field.LABEL_REPEATED
        packs = repeated and _TYPES[field.type][1] != _BYTES
        packed = (
            field.options.packed
            if field.options.HasField("packed")
            else file.syntax in ("proto3", "editions")
        )
        default = None
        if not repeated and field.type != field.TYPE_MESSAGE:
            default = descriptor.fields_by_name[name].default_value
        found.append(
            _Field(name, field.number, int(field.type), repeated, packs and packed, default)
        )
    return found


def _lost(reason: str) -> DataLossError:
    return DataLossError(None, None, reason)


def _items(data: bytes) -> Iterator[tuple[int, int, Element]]:
    """Yield (field number, wire type, value); groups are passed over.

    The value of a field that the data ends in is None.
    """
    at = depth = 0
    while at < len(data):
        key, at = get_varint(data, at)
        number, wire = key >> 3, key & 7
        value: Element = None
        if wire in (_VARINT, _BYTES):
            try:
                value, at = get_varint(data, at)
            except DataLossError:
                yield number, wire, None
                return
            if wire == _BYTES:
                value, at = data[at : at + value], at + value
        elif wire in (_FIXED32, _FIXED64):
            size = 4 if wire == _FIXED32 else 8
            value, at = data[at : at + size], at + size
        elif wire == _START:
            depth += 1
        elif wire == _END and depth:
            depth -= 1
            continue
        else:
            raise _lost(_TRUNCATED)
        if at > len(data):
            yield number, wire, None
            return
        if not number:
            raise _lost(_TRUNCATED)
        if not depth:
            yield number, wire, value
    if depth:
        raise _lost(_TRUNCATED)


def _number(field: _Field, value: int) -> int:
    """Return the number of a varint."""
    bits = _BITS[field.type]
    if field.type == 8:
        return int(value != 0)
    value &= (1 << bits) - 1
    if field.type in _ZIGZAG:
        return (value >> 1) ^ -(value & 1)
    return value - (1 << bits) if field.type in _SIGNED and value >> (bits - 1) else value


def _values(field: _Field, wire: int, value: Element) -> list[Element]:
    """Return the elements of one occurrence of a field.

    There are none where the wire type is another's.
    """
    _, own, form, _ = _TYPES[field.type]
    if wire == own:
        if own == _VARINT:
            return [_number(field, value)]
        return [value] if own == _BYTES else list(struct.unpack(form, value))
    if wire != _BYTES or not field.repeated:
        return []
    if own == _VARINT:
        numbers, at = [], 0
        while at < len(value):
            item, at = get_varint(value, at)
            numbers.append(_number(field, item))
        return numbers
    if len(value) % struct.calcsize(form):
        raise _lost(_TRUNCATED)
    return [number for (number,) in struct.iter_unpack(form, value)]


def _decoded(
    data: bytes, by_number: dict[int, tuple[int, _Field]], count: int
) -> list[list[Element]]:
    """Return the elements of each wanted field.

    Of a field that is not repeated, the last counts.
    """
    found: list[list[Element]] = [[] for _ in range(count)]
    try:
        for number, wire, value in _items(data):
            place, field = by_number.get(number, (-1, None))
            if value is None and wire != _START:
                raise _lost(_cut(field, wire))
            if field is not None:
                values = _values(field, wire, value)
                if not field.repeated and values:
                    found[place].clear()
                found[place].extend(values)
    except DataLossError as error:
        # the data ends within a number
        if error.message in _REASONS:
            raise
        raise _lost(_TRUNCATED) from None
    return found


def _cut(field: _Field | None, wire: int) -> str:
    """Return the message for data that ends within a field."""
    if field is None:
        return _REASONS[1]
    packed = field.repeated and wire == _BYTES != _TYPES[field.type][1]
    return _REASONS[2] if packed else _TRUNCATED


def _binary(node: NodeSpec, descriptor: Descriptor, data: bytes) -> bytes:
    """Return a message in the binary format.

    A text, and a message to sanitize, is read by the library.
    """
    from google.protobuf import message_factory, text_format
    from google.protobuf.message import DecodeError

    is_text = node.attrs["message_format"] == b"text"
    if not is_text and not node.attrs["sanitize"]:
        return data
    message = message_factory.GetMessageClass(descriptor)()
    try:
        if is_text:
            text_format.Parse(data.decode(), message)
        else:
            message.ParseFromString(data)
    except (text_format.ParseError, UnicodeDecodeError):
        raise _lost("Unable to parse text protobuf") from None
    except DecodeError:
        raise _lost("Unable to parse binary protobuf") from None
    serialized: bytes = message.SerializeToString(deterministic=True)
    return serialized


@reference("DecodeProtoV2")
def _decode(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Take fields out of serialized messages.

    bytes [...] -> the number of elements int32 [..., fields], and for each field its elements [...,
    the largest number], with the field's default behind them.
    """
    if node.attrs["message_format"] not in (b"binary", b"text"):
        invalid("format must be one of binary or text")
    descriptor = _descriptor(node)
    fields = _fields(node, descriptor)
    dtypes = [as_dtype(dtype) for dtype in node.attrs["output_types"]]
    if len(dtypes) != len(fields):
        invalid("field_names and output_types attributes must have the same length")
    for field, dtype in zip(fields, dtypes, strict=True):
        name, _, _, allowed = _TYPES[field.type]
        if dtype.name not in allowed.split():
            invalid(
                f"Unexpected output type for {node.attrs['message_type'].decode()}.{field.name}: "
                f"{name} to DT_{short_name(dtype).upper()}"
            )
    messages = np.asarray(inputs[0], object)
    by_number = {field.number: (i, field) for i, field in enumerate(fields)}
    parts = [
        _decoded(_binary(node, descriptor, data), by_number, len(fields))
        for data in messages.reshape(-1)
    ]
    sizes = np.array([[len(values) for values in part] for part in parts], np.int32)
    outputs = [sizes.reshape(*messages.shape, len(fields))]
    for i, (field, dtype) in enumerate(zip(fields, dtypes, strict=True)):
        most = max((len(part[i]) for part in parts), default=0)
        kind = object if dtype.name == "string" else dtype.as_numpy_dtype
        check_fits_in_memory((len(parts), most), np.dtype(kind))
        out = np.full((len(parts), most), _default(field), kind)
        for row, part in zip(out, parts, strict=True):
            row[: len(part[i])] = part[i]
        outputs.append(out.reshape(*messages.shape, most))
    return outputs


def _default(field: _Field) -> Element:
    """Return the element behind a field's own."""
    wire = _TYPES[field.type][1]
    value = field.default
    if wire == _BYTES:
        return (value.encode() if isinstance(value, str) else value) or b""
    return value or 0


@reference("EncodeProto")
def _encode(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Build serialized messages.

    sizes int32 [..., fields], and for each field its elements [..., n] -> bytes [...].
    """
    sizes, values = inputs[0], inputs[1:]
    fields = _fields(node, _descriptor(node))
    batch = values[0].shape[:-1]
    for value in values:
        if not value.ndim or value.shape[:-1] != batch:
            invalid(
                "Values must match up to the last dimension, but have shapes "
                f"{', '.join(format_shape(v.shape) for v in values)}"
            )
    if len(fields) != len(values):
        invalid(f"Got {len(values)} values for {len(fields)} fields")
    if sizes.shape != (*batch, len(fields)):
        invalid(
            "sizes should be batch_size + [len(field_names)].  Saw: "
            f"{format_shape(sizes.shape)} but expected: {format_shape((*batch, len(fields)))}"
        )
    for field, value in zip(fields, values, strict=True):
        name, _, _, allowed = _TYPES[field.type]
        dtype = as_dtype(value.dtype)
        if dtype.name not in allowed.split():
            invalid(
                f"Incompatible type for field {field.name}.  Saw dtype: {short_name(dtype)} but "
                f"field type is: {name}"
            )
    rows = [value.reshape(-1, value.shape[-1]) for value in values]
    counts = sizes.reshape(-1, len(fields))
    order = sorted(range(len(fields)), key=lambda i: fields[i].number)
    out = np.empty(len(counts), object)
    for at, row in enumerate(counts.tolist()):
        parts = []
        for i in order:
            if row[i] > rows[i].shape[1]:
                invalid(
                    "Size to write must not be larger than value tensor; but saw: "
                    f"{row[i]} > {rows[i].shape[1]} at message {at} field {i}"
                )
            parts.append(_encoded(fields[i], rows[i][at, : max(row[i], 0)].tolist()))
        out[at] = b"".join(parts)
    return (out.reshape(batch),)


def _encoded(field: _Field, values: list[Element]) -> bytes:
    """Return the elements of a field with its key."""
    wire, form = _TYPES[field.type][1:3]
    if wire == _VARINT:
        items = [put_varint(_bits(field, value)) for value in values]
    elif wire == _BYTES:
        items = [put_varint(len(value)) + value for value in values]
    else:
        items = [struct.pack(form, value) for value in values]
    if field.packed:
        joined = b"".join(items)
        return (
            put_varint(field.number << 3 | _BYTES) + put_varint(len(joined)) + joined
            if items
            else b""
        )
    key = put_varint(field.number << 3 | wire)
    return b"".join(key + item for item in items)


def _bits(field: _Field, value: int) -> int:
    """Return the varint of a number."""
    value = int(value)
    if field.type in _ZIGZAG:
        bits = _BITS[field.type]
        return ((value << 1) ^ (value >> (bits - 1))) & ((1 << bits) - 1)
    return value & ((1 << 64) - 1)
