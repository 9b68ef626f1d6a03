"""Fields of protocol buffer messages against TensorFlow, errors included."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

import tfjit
from tests import oracle

tf1 = tf.compat.v1
raw = tf.raw_ops

# name, number of the type, label: 1 optional, 3 repeated
FIELDS = (
    *(("i", 5, 1), ("f", 2, 3), ("s", 9, 1), ("y", 12, 3), ("u", 4, 1), ("e", 14, 1)),
    *(("m", 11, 3), ("b", 8, 1), ("z", 17, 3), ("x", 7, 1), ("d", 1, 1), ("p", 3, 3)),
    *(("w", 16, 1), ("v", 15, 3), ("k", 18, 1), ("n", 13, 1)),
)
TYPES = (
    *(tf.int32, tf.float32, tf.string, tf.string, tf.uint64, tf.int32, tf.string, tf.bool),
    *(tf.int32, tf.uint32, tf.float64, tf.int64, tf.int64, tf.int32, tf.int64, tf.uint32),
)


def files() -> descriptor_pb2.FileDescriptorSet:
    found = descriptor_pb2.FileDescriptorSet()
    file = found.file.add(name="test_messages.proto", package="p")
    message = file.message_type.add(name="M")
    for number, (name, kind, label) in enumerate(FIELDS, 1):
        field = message.field.add(name=name, number=number, type=kind, label=label)
        if kind in (11, 14):
            field.type_name = ".p.M" if kind == 11 else ".p.E"
        if name == "d":
            field.default_value = "2.5"
        if name == "p":
            field.options.packed = True
    for number, name in ((0, "A"), (3, "B")):
        if number == 0:
            file.enum_type.add(name="E")
        file.enum_type[0].value.add(name=name, number=number)
    return found


FILES = files()
SOURCE = b"bytes://" + FILES.SerializeToString()
POOL = descriptor_pool.DescriptorPool()
POOL.Add(FILES.file[0])
M = message_factory.GetMessageClass(POOL.FindMessageTypeByName("p.M"))
FULL = M(
    i=-5,
    f=[1, 2.5],
    s="hé",
    y=[b"\xff", b""],
    u=2**64 - 1,
    e=3,
    m=[M(i=1)],
    b=True,
    z=[-3, 4],
    x=9,
    d=-1,
    p=[1, -2, 300],
    w=-7,
    v=[-1, 2**31 - 1],
    k=-(2**63),
    n=2**32 - 1,
)
BYTES = [FULL.SerializeToString(), M().SerializeToString()]


def decoding(data: Any, *names: str, **changes: Any) -> Any:
    given = {
        "message_type": "p.M",
        "descriptor_source": SOURCE,
        "output_types": [dict(zip([f[0] for f in FIELDS], TYPES))[name] for name in names],
        **changes,
    }
    made = raw.DecodeProtoV2(bytes=data, field_names=list(names), **given)
    return [made.sizes, *made.values]


def encoding(sizes: Any, *pairs: tuple[str, Any, Any], **changes: Any) -> Any:
    given = {"message_type": "p.M", "descriptor_source": SOURCE, **changes}
    return raw.EncodeProto(
        sizes=np.array(sizes, np.int32),
        values=[tf.constant(value, dtype) for _, value, dtype in pairs],
        field_names=[name for name, _, _ in pairs],
        **given,
    )


def cases() -> list[Any]:
    names = [name for name, _, _ in FIELDS]
    node = tf1.NodeDef(name="n", op="Op", input=["a", "b"]).SerializeToString()
    local = {"message_type": "tensorflow.NodeDef", "descriptor_source": "local://"}
    text = str(FULL).encode()
    return [
        decoding(BYTES, *names),
        decoding([[BYTES[0]], [BYTES[1]]], "f", "d"),
        decoding(BYTES[0], "i", output_types=[tf.int64]),
        decoding(BYTES, output_types=[]),
        decoding(BYTES, "f", output_types=[tf.float64]),
        decoding(BYTES, "i", output_types=[tf.string]),
        decoding(BYTES, "i", message_type="p.N"),
        decoding(BYTES, "i", descriptor_source="bytes://zz"),
        decoding(BYTES, "i", descriptor_source="/absent"),
        decoding(BYTES, "i", message_format="x"),
        decoding([text], *names, message_format="text"),
        decoding([b"qq"], "i", message_format="text"),
        decoding(BYTES, "i", sanitize=True),
        decoding([b"\x08\x01\x08\x02"], "i"),
        decoding([b"\xff"], "i"),
        decoding([b"\x12\x09\x01"], "f"),
        decoding([BYTES[0][:-1]], "i"),
        decoding([b"\x12\x04\x00\x00\x80\x3f"], "f"),
        decoding([node], "s", "y", **local, output_types=[tf.string] * 2),
        raw.DecodeProtoV2(
            bytes=[node], field_names=["name", "input"], output_types=[tf.string] * 2, **local
        ).values,
        *(
            encoding([[1], [0]], (name, value, dtype))
            for name, value, dtype in (
                ("i", [[-5], [6]], tf.int32), ("i", [[-5], [6]], tf.int64),
                ("d", [[1.5], [2]], tf.float64), ("s", [[b"ab"], [b""]], tf.string),
                ("m", [[b"q"], [b""]], tf.string), ("b", [[True], [False]], tf.bool),
                ("u", [[2**63], [0]], tf.uint64), ("x", [[7], [0]], tf.uint32),
                ("k", [[-(2**62)], [0]], tf.int64), ("w", [[-7], [0]], tf.int64),
                ("e", [[3], [0]], tf.int32), ("n", [[2**31], [0]], tf.uint32),
                ("x", [[7], [0]], tf.int64), ("i", [[7], [0]], tf.float32),
            )
        ),
        encoding([[3, 2, 1]], ("p", [[1, -2, 300]], tf.int64), ("f", [[1, 2, 3]], tf.float32), ("i", [[9]], tf.int32)),
        encoding([[2], [1]], ("z", [[-1, 3], [-9, 0]], tf.int32)),
        encoding([[0]], ("p", [[1]], tf.int64)),
        encoding([[-1]], ("z", [[-1]], tf.int32)),
        encoding([[3]], ("i", [[5, 6]], tf.int32)),
        encoding([[1, 1]], ("i", [[5]], tf.int32)),
        encoding([[1]], ("nope", [[5]], tf.int32)),
    ]  # fmt: skip


def test_equal_tensorflow() -> None:
    with tf1.Graph().as_default() as graph:
        fetches = cases()
    answers: list[list[Any]] = []
    for kind in (tf1.Session, tfjit.Session):
        found: list[Any] = []
        with kind(graph=graph) as session:
            for fetch in fetches:
                try:
                    values = session.run(fetch)
                    found.append(values if isinstance(values, list) else [values])
                except Exception as error:
                    text = oracle.cause(error.message).split("\t [[")[0]
                    found.append([type(error).__name__, text])
        answers.append(found)
    wrong = []
    for place, (theirs, ours) in enumerate(zip(*answers, strict=True)):
        same = len(theirs) == len(ours) and all(
            np.shape(a) == np.shape(b) and (np.asarray(a) == np.asarray(b)).all()
            for a, b in zip(theirs, ours, strict=True)
        )
        if not same:
            wrong.append(f"{place}: TensorFlow {theirs}, here {ours}")
    assert not wrong, "\n".join(wrong)
