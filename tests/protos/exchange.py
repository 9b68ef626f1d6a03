"""Carry messages between tfjit's classes and TensorFlow's."""

from __future__ import annotations

import mmap
import random
from pathlib import Path
from typing import Any

import tensorflow as tf
from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor, FileDescriptor
from google.protobuf.message import Message
from tensorflow.core.example import example_pb2
from tensorflow.core.framework import device_attributes_pb2, summary_pb2, variable_pb2
from tensorflow.core.protobuf import (
    config_pb2,
    control_flow_pb2,
    meta_graph_pb2,
    queue_runner_pb2,
    saved_model_pb2,
    tensor_bundle_pb2,
    tensorflow_server_pb2,
)
from tensorflow.core.util import event_pb2, saved_tensor_slice_pb2
from tensorflow.python.training import checkpoint_state_pb2

from tfjit import protos

# Fields of ours that TensorFlow does not have, by message.
EXTENSIONS = {
    "ConfigProto": {
        200: ("session_handle", FieldDescriptor.TYPE_STRING),
        201: ("tensor_fuse", FieldDescriptor.TYPE_BOOL),
        202: ("global_io_parallelism_threads", FieldDescriptor.TYPE_INT32),
        203: ("run_graph_mode", FieldDescriptor.TYPE_BOOL),
    },
    "RecvBufRequest": {200: ("failed_attempts", FieldDescriptor.TYPE_INT32)},
}


_ROOTS = (
    checkpoint_state_pb2,
    example_pb2,
    config_pb2,
    control_flow_pb2,
    device_attributes_pb2,
    meta_graph_pb2,
    saved_model_pb2,
    tensorflow_server_pb2,
    variable_pb2,
    queue_runner_pb2,
    event_pb2,
    summary_pb2,
    tensor_bundle_pb2,
    saved_tensor_slice_pb2,
)


# Files without a Python module, after those that they import. TensorFlow's library holds them
# encoded, as all generated C++ code does.
_EMBEDDED = (
    "tensorflow/core/protobuf/named_tensor.proto",
    "tensorflow/core/protobuf/master.proto",
    "tensorflow/core/protobuf/worker.proto",
    "tensorflow/core/protobuf/transport_options.proto",
    "xla/tsl/protobuf/distributed_runtime_payloads.proto",
)


def _embedded_files() -> list[FileDescriptor]:
    """Return the files of `_EMBEDDED`, as TensorFlow's library has them."""
    pool = descriptor_pool.Default()
    found = []
    package = Path(tf.__file__).parent
    libraries = [package / "libtensorflow_framework.so.2", package / "libtensorflow_cc.so.2"]
    for path in _EMBEDDED:
        name = path.encode()
        for library in libraries:
            with library.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as m:
                start = m.find(b"\x0a" + bytes([len(name)]) + name + b"\x12")
                if start >= 0:
                    last = b"\x62\x06proto3"
                    encoded = m[start : m.find(last, start) + len(last)]
                    pool.Add(descriptor_pb2.FileDescriptorProto.FromString(encoded))
                    break
        found.append(pool.FindFileByName(path))
    return found


# Messages that no file holds: a worker's heartbeats (event.proto).
_LEFT_OUT = {
    "RequestedExitCode",
    "WatchdogConfig",
    "WorkerHealth",
    "WorkerHeartbeatRequest",
    "WorkerHeartbeatResponse",
    "WorkerShutdownMode",
}


def _files(file: FileDescriptor, seen: dict[str, FileDescriptor]) -> None:
    if file.name not in seen and file.package.startswith("tensorflow"):
        seen[file.name] = file
        for dependency in file.dependencies:
            _files(dependency, seen)


def _theirs() -> tuple[dict[str, Descriptor], dict[str, EnumDescriptor]]:
    """Return TensorFlow's top-level messages and enums by name.

    Those named here and all that they reference.
    """
    files: dict[str, FileDescriptor] = {}
    for root in [*(module.DESCRIPTOR for module in _ROOTS), *_embedded_files()]:
        _files(root, files)
    messages = {
        name: d
        for file in files.values()
        for name, d in file.message_types_by_name.items()
        if name not in _LEFT_OUT
    }
    enums = {
        name: d
        for file in files.values()
        for name, d in file.enum_types_by_name.items()
        if name not in _LEFT_OUT
    }
    return messages, enums


THEIR_MESSAGES, THEIR_ENUMS = _theirs()


MESSAGES = sorted(THEIR_MESSAGES)


def _their_class(name: str) -> type[Message]:
    from google.protobuf.message_factory import GetMessageClass

    return GetMessageClass(THEIR_MESSAGES[name])


def _our_class(name: str) -> type[Message]:
    return getattr(protos, name)


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _scalar(field: FieldDescriptor, rng: random.Random) -> Any:
    """A value of the field's type, the extremes among them."""
    f = FieldDescriptor
    if field.type in (f.TYPE_INT32, f.TYPE_SINT32, f.TYPE_SFIXED32):
        return rng.choice([0, 1, -1, 2**31 - 1, -(2**31), rng.randrange(-1000, 1000)])
    if field.type in (f.TYPE_INT64, f.TYPE_SINT64, f.TYPE_SFIXED64):
        return rng.choice([0, 1, -1, 2**63 - 1, -(2**63), rng.randrange(-(10**12), 10**12)])
    if field.type in (f.TYPE_UINT32, f.TYPE_FIXED32):
        return rng.choice([0, 1, 2**32 - 1, rng.randrange(2**32)])
    if field.type in (f.TYPE_UINT64, f.TYPE_FIXED64):
        return rng.choice([0, 1, 2**64 - 1, rng.randrange(2**64)])
    if field.type in (f.TYPE_FLOAT, f.TYPE_DOUBLE):
        return rng.choice([0.0, -0.0, 1.5, -2.25, float("inf"), float("nan"), 1e-30])
    if field.type == f.TYPE_BOOL:
        return rng.random() < 0.7
    if field.type == f.TYPE_STRING:
        return rng.choice(["", "name:0", "^control", "größer / 大", "x" * 200])
    if field.type == f.TYPE_BYTES:
        return rng.randbytes(rng.choice([0, 1, 7, 300]))
    if field.type == f.TYPE_ENUM:
        known = [v.number for v in field.enum_type.values]
        return rng.choice(known)
    raise AssertionError(f"field type {field.type} of {field.full_name}")


def fill(message: Message, rng: random.Random, depth: int = 0) -> None:
    """Set a random choice of the fields of `message`.

    The share is random, too; it may be all of them.
    """
    share = rng.choice([0.3, 0.7, 1.0]) if depth < 3 else 0.15
    extensions = EXTENSIONS.get(message.DESCRIPTOR.name, {})
    for field in message.DESCRIPTOR.fields:
        if field.number in extensions or rng.random() > share:
            continue
        if _is_map(field):
            key, value = field.message_type.fields
            for _ in range(rng.randrange(1, 3)):
                if value.message_type is not None:
                    entry = getattr(message, field.name)[_scalar(key, rng)]
                    if depth < 5:
                        fill(entry, rng, depth + 1)
                else:
                    getattr(message, field.name)[_scalar(key, rng)] = _scalar(value, rng)
        elif field.is_repeated and field.message_type is not None:
            for _ in range(rng.randrange(1, 3)):
                item = getattr(message, field.name).add()
                if depth < 5:
                    fill(item, rng, depth + 1)
        elif field.is_repeated:
            getattr(message, field.name).extend(
                _scalar(field, rng) for _ in range(rng.randrange(1, 5))
            )
        elif field.message_type is not None:
            item = getattr(message, field.name)
            item.SetInParent()
            if depth < 5 and field.message_type.full_name != "google.protobuf.Any":
                fill(item, rng, depth + 1)
        else:
            setattr(message, field.name, _scalar(field, rng))


def _exchange(name: str, wire: bytes) -> None:
    """Check that `wire` comes back unchanged from both classes.

    It is a deterministic encoding of either class; neither keeps an unknown field.
    """
    ours, theirs = _our_class(name).FromString(wire), _their_class(name).FromString(wire)
    assert ours.SerializeToString(deterministic=True) == wire
    assert theirs.SerializeToString(deterministic=True) == wire
    # str() prints fields by name and unknown ones by number, so this compares names and values,
    # nested ones too. Embedded Any values carry the full name of a message, and are opaque here.
    assert str(ours) == str(theirs)


def exchange_random(name: str, count: int) -> None:
    """Exchange random messages of that name, made by either class."""
    rng = random.Random(name)
    for _ in range(count):
        for make in (_their_class, _our_class):
            message = make(name)()
            fill(message, rng)
            _exchange(name, message.SerializeToString(deterministic=True))


def check_fields(name: str) -> None:
    """Compare the fields of two messages, nested ones and enums included.

    Number, name, type, label, presence, packing, oneof and type names of every field.
    """

    def compare(ours: Descriptor, theirs: Descriptor) -> None:
        extensions = EXTENSIONS.get(theirs.name, {})
        assert {
            n: (f.name, f.type) for n, f in ours.fields_by_number.items() if n in extensions
        } == extensions
        assert sorted(ours.fields_by_number) == sorted([*theirs.fields_by_number, *extensions])
        for number, field in theirs.fields_by_number.items():
            mine = ours.fields_by_number[number]
            for attribute in (
                "name",
                "type",
                "is_repeated",
                "is_packed",
                "has_presence",
                "default_value",
            ):
                if attribute == "default_value" and field.message_type is not None:
                    continue
                assert getattr(mine, attribute) == getattr(field, attribute), (
                    field.full_name,
                    attribute,
                )
            oneofs = [
                f.containing_oneof.name if f.containing_oneof else None for f in (mine, field)
            ]
            assert oneofs[0] == oneofs[1], field.full_name
            for attribute in ("message_type", "enum_type"):
                mine_type, their_type = getattr(mine, attribute), getattr(field, attribute)
                if their_type is not None:
                    assert _bare(mine_type.full_name) == _bare(their_type.full_name)
        assert [d.name for d in sorted(ours.nested_types, key=_by_name)] == [
            d.name for d in sorted(theirs.nested_types, key=_by_name)
        ]
        for nested in theirs.nested_types:
            compare(ours.nested_types_by_name[nested.name], nested)
        for enum in theirs.enum_types:
            _compare_enums(ours.enum_types_by_name[enum.name], enum)

    compare(_our_class(name).DESCRIPTOR, THEIR_MESSAGES[name])


def _by_name(descriptor: Descriptor) -> str:
    return str(descriptor.name)


def _bare(full_name: str) -> str:
    for prefix in ("tensorflow.error.", "tensorflow.distributed_runtime.", "tensorflow.", "tfjit."):
        if full_name.startswith(prefix):
            return full_name[len(prefix) :]
    return full_name


def _compare_enums(ours: EnumDescriptor, theirs: EnumDescriptor) -> None:
    assert {v.name: v.number for v in ours.values} == {v.name: v.number for v in theirs.values}
