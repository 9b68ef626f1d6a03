"""Every registered OpDef against TensorFlow's registry."""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import pytest

import tfjit.ops.core.families  # noqa: F401
from tfjit.framework.op_defs.op_registry import registry
from tfjit.framework.types import tensors
from tfjit.protos import op_def_pb2

pytest.importorskip("tensorflow")
from tensorflow.python.framework import op_def_registry

_OWN = {"_GetRow", "_SetRow", "_PaddedUnique"}  # passes make these; TensorFlow has none of them
# tests of the registry add ops of that name
OPS = sorted(op for op in registry if not op.startswith("Test") and op not in _OWN)


def comparable(proto: op_def_pb2.OpDef) -> op_def_pb2.OpDef:
    """An OpDef without prose, and without the type inference facts of TF2's functional compiler,
    which no TF1 graph uses.
    """
    out = op_def_pb2.OpDef()
    out.CopyFrom(proto)
    out.ClearField("summary")
    out.ClearField("description")
    for arg in (*out.input_arg, *out.output_arg):
        arg.ClearField("description")
        arg.ClearField("experimental_full_type")
        arg.ClearField("handle_data")
    for attr in out.attr:
        attr.ClearField("description")
        if attr.default_value.HasField("tensor"):  # one value, several encodings
            value = tensors.from_proto(attr.default_value.tensor)
            attr.default_value.tensor.Clear()
            tensors.fill_proto(attr.default_value.tensor, value)
    return out


def test_op_count() -> None:
    assert len(OPS) >= 1123


def test_op_defs_equal_tensorflows() -> None:
    for op_type in OPS:
        theirs = op_def_pb2.OpDef.FromString(op_def_registry.get(op_type).SerializeToString())
        assert str(comparable(registry.require(op_type).to_proto())) == str(comparable(theirs))
