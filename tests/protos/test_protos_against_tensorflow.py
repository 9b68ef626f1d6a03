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

import pytest
import tensorflow as tf  # noqa: F401  - first, on purpose
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message
from tensorflow.core.protobuf import (
    config_pb2,
)

from tests.protos.exchange import (
    MESSAGES,
    THEIR_ENUMS,
    THEIR_MESSAGES,
    _compare_enums,
    _exchange,
    _our_class,
    _their_class,
    check_fields,
    exchange_random,
    fill,
)
from tfjit import protos

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

# of calls between tasks of tfjit
OUR_OWN = {"RecvTensorsRequest", "RecvTensorsResponse"}


def test_every_named_message_is_covered() -> None:
    assert NAMED_IN_CONTRACT.issubset(MESSAGES)
    assert set(MESSAGES) | set(THEIR_ENUMS) | OUR_OWN == set(protos.__all__)


@pytest.mark.parametrize("name", MESSAGES)
def test_fields_agree(name: str) -> None:
    check_fields(name)


@pytest.mark.parametrize("name", sorted(THEIR_ENUMS))
def test_enums_agree(name: str) -> None:
    _compare_enums(getattr(protos, name).DESCRIPTOR, THEIR_ENUMS[name])


@pytest.mark.parametrize("name", MESSAGES)
def test_random_messages_travel_both_ways(name: str) -> None:
    exchange_random(name, 40)


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

import exchange
for name in exchange.MESSAGES:
    exchange.check_fields(name)
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
