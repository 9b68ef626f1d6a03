"""Our messages beside TensorFlow's: the same fields and the same bytes, whichever of the two is
imported first.

This process imports TensorFlow first; `test_tensorflow_imported_last` repeats the exchange in a
process that does it the other way round.
"""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf  # noqa: F401  - first, on purpose
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor, FileDescriptor
from google.protobuf.message import DecodeError, Message
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
from tensorflow.core.util import event_pb2
from tensorflow.python.training import checkpoint_state_pb2

from tfjit import protos

# Fields of ours that TensorFlow does not have, by message.
EXTENSIONS = {
    "ConfigProto": {
        200: ("session_handle", FieldDescriptor.TYPE_STRING),
        201: ("tensor_fuse", FieldDescriptor.TYPE_BOOL),
        202: ("global_io_parallelism_threads", FieldDescriptor.TYPE_INT32),
        203: ("run_graph_mode", FieldDescriptor.TYPE_BOOL),
    }
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
)
# Messages of event.proto that no file holds: a worker's heartbeats.
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
    """TensorFlow's top-level messages and enums by name: those named here and all that they
    reference.
    """
    files: dict[str, FileDescriptor] = {}
    for module in _ROOTS:
        _files(module.DESCRIPTOR, files)
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
NAMED_IN_CONTRACT = {
    "GraphDef",
    "NodeDef",
    "AttrValue",
    "TensorProto",
    "TensorShapeProto",
    "OpDef",
    "FunctionDefLibrary",
    "VersionDef",
    "ConfigProto",
    "RunOptions",
    "RunMetadata",
    "StepStats",
    "CostGraphDef",
    "DeviceAttributes",
    "MetaGraphDef",
    "SaverDef",
    "SignatureDef",
    "SavedModel",
    "CallableOptions",
    "ClusterDef",
    "ServerDef",
}


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
    """Set a random choice of the fields of `message`, all of them where the dice say so."""
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
    """`wire`, a deterministic encoding of either class, comes back unchanged from both, and neither
    keeps an unknown field.
    """
    ours, theirs = _our_class(name).FromString(wire), _their_class(name).FromString(wire)
    assert ours.SerializeToString(deterministic=True) == wire
    assert theirs.SerializeToString(deterministic=True) == wire
    # str() prints fields by name and unknown ones by number, so this compares names and values,
    # nested ones too. Embedded Any values carry the full name of a message, and are opaque here.
    assert str(ours) == str(theirs)


def test_every_named_message_is_covered() -> None:
    assert NAMED_IN_CONTRACT.issubset(MESSAGES)
    assert set(MESSAGES) | set(THEIR_ENUMS) == set(protos.__all__)


@pytest.mark.parametrize("name", MESSAGES)
def test_fields_agree(name: str) -> None:
    """Number, name, type, label, presence, packing, oneof and type names of every field, nested
    messages and enums included.
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
    for prefix in ("tensorflow.error.", "tensorflow.", "tfjit."):
        if full_name.startswith(prefix):
            return full_name[len(prefix) :]
    return full_name


def _compare_enums(ours: EnumDescriptor, theirs: EnumDescriptor) -> None:
    assert {v.name: v.number for v in ours.values} == {v.name: v.number for v in theirs.values}


@pytest.mark.parametrize("name", sorted(THEIR_ENUMS))
def test_enums_agree(name: str) -> None:
    _compare_enums(getattr(protos, name).DESCRIPTOR, THEIR_ENUMS[name])


@pytest.mark.parametrize("name", MESSAGES)
def test_random_messages_travel_both_ways(name: str) -> None:
    exchange_random(name, 40)


def exchange_random(name: str, count: int) -> None:
    """Exchange random messages of that name, made by either class."""
    rng = random.Random(name)
    for _ in range(count):
        for make in (_their_class, _our_class):
            message = make(name)()
            fill(message, rng)
            _exchange(name, message.SerializeToString(deterministic=True))


@pytest.mark.parametrize("name", MESSAGES)
def test_every_field_travels_alone(name: str) -> None:
    """One field at a time, so that a wrong one cannot hide behind another, and its mistake is
    named.
    """
    rng = random.Random(name)
    their_class = _their_class(name)
    for field in THEIR_MESSAGES[name].fields:
        for _ in range(3):
            whole = their_class()
            while not _set_fields(whole, field.name):
                fill(whole, rng, 2)  # nested a few levels: whole random messages go deeper
            alone = their_class()
            _keep_only(whole, alone, field)
            _exchange(name, alone.SerializeToString(deterministic=True))


def _set_fields(message: Message, name: str) -> bool:
    return any(field.name == name for field, _ in message.ListFields())


def _keep_only(source: Message, target: Message, field: FieldDescriptor) -> None:
    target.CopyFrom(source)
    for other, _ in source.ListFields():
        if other.name != field.name:
            target.ClearField(other.name)


def _graph_files(root: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(
        [*(root / "tests" / "data").rglob("*"), *(root / "tfjit" / "demo").rglob("*")]
    ):
        if path.name == "saved_model.pb":
            yield "SavedModel", path
        elif path.suffix == ".meta":
            yield "MetaGraphDef", path
        elif path.suffix == ".pb" and path.name != "fingerprint.pb":
            yield "GraphDef", path


def test_real_graphs_travel_both_ways(root: Path) -> None:
    files = list(_graph_files(root))
    assert {name for name, _ in files} == {"GraphDef", "MetaGraphDef", "SavedModel"}
    for name, path in files:
        ours, theirs = _our_class(name), _their_class(name)
        wire = path.read_bytes()
        from_theirs = theirs.FromString(wire).SerializeToString(deterministic=True)
        from_ours = ours.FromString(wire).SerializeToString(deterministic=True)
        assert from_ours == from_theirs, path
        assert theirs.FromString(from_ours) == theirs.FromString(wire), path
        assert ours.FromString(from_theirs) == ours.FromString(wire), path


def test_our_extension_fields_survive_tensorflow() -> None:
    config = protos.ConfigProto(
        session_handle="trainer",
        tensor_fuse=True,
        global_io_parallelism_threads=3,
        run_graph_mode=True,
    )
    config.device_count["CPU"] = 2
    theirs = config_pb2.ConfigProto.FromString(config.SerializeToString())
    assert theirs.device_count["CPU"] == 2
    assert protos.ConfigProto.FromString(theirs.SerializeToString()) == config


def test_reserved_numbers_of_other_forks_parse() -> None:
    """A config that carries fields 204 to 209 parses, keeps them as they are, and does not disturb
    ours.
    """
    # field 204 varint 1, field 208 message of 2 bytes
    foreign = bytes([0xE0, 0x0C, 0x01]) + bytes([0x82, 0x0D, 0x02, 0x08, 0x01])
    config = protos.ConfigProto.FromString(
        protos.ConfigProto(tensor_fuse=True).SerializeToString() + foreign
    )
    assert config.tensor_fuse and not config.run_graph_mode
    assert (
        config.SerializeToString()
        == protos.ConfigProto(tensor_fuse=True).SerializeToString() + foreign
    )


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.9, 0.999])
def test_truncated_graph_is_refused(demo_dir: Path, keep: float) -> None:
    wire = (demo_dir / "digits_cnn.pb").read_bytes()
    with pytest.raises(DecodeError):
        protos.GraphDef.FromString(wire[: int(len(wire) * keep)])


def test_messages_pickle() -> None:
    import pickle

    graph = protos.GraphDef(versions=protos.VersionDef(producer=2474))
    graph.node.add(name="x", op="Placeholder").attr["dtype"].type = protos.DataType.Value(
        "DT_FLOAT"
    )
    assert pickle.loads(pickle.dumps(graph)) == graph


_LAST = """
import sys
sys.path.insert(0, {tests!r})
from tfjit import protos
assert not any(name.split(".")[0] == "tensorflow" for name in sys.modules)
messages = [getattr(protos, name) for name in protos.__all__]
graph = protos.GraphDef.FromString(open({graph!r}, "rb").read())
ours = graph.SerializeToString(deterministic=True)

import test_protos_against_tensorflow as exchange
for name in exchange.MESSAGES:
    exchange.test_fields_agree(name)
    exchange.exchange_random(name, 5)  # the order of imports may change classes, not values
theirs = exchange._their_class("GraphDef").FromString(ours)
assert theirs.SerializeToString(deterministic=True) == ours
print("exchanged", len(exchange.MESSAGES))
"""


def test_tensorflow_imported_last(root: Path, demo_dir: Path) -> None:
    code = _LAST.format(tests=str(Path(__file__).parent), graph=str(demo_dir / "digits_cnn.pb"))
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=root.parent, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split() == ["exchanged", str(len(MESSAGES))]
