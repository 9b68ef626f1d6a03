"""The op registry and the language of op definitions, against TensorFlow's registry."""

from __future__ import annotations

from typing import Any

import pytest
from tensorflow.core.framework import op_def_pb2 as tf_op_def_pb2
from tensorflow.python.client import pywrap_tf_session

from tfjit.framework.op_defs import op_spec
from tfjit.framework.op_defs.op_def import NO_DEFAULT, OpDef
from tfjit.framework.op_defs.op_registry import OpRegistry, register_op, registry
from tfjit.framework.types import dtypes
from tfjit.framework.types.shape import TensorShape


@pytest.fixture(scope="module")
def all_ops() -> dict[str, Any]:
    """Every OpDef that TensorFlow has, without prose."""
    found = tf_op_def_pb2.OpList.FromString(
        pywrap_tf_session.TF_GetBuffer(pywrap_tf_session.TF_GetAllOpList())
    )
    for op in found.op:
        op.summary = op.description = ""
        for part in (*op.input_arg, *op.output_arg, *op.attr):
            part.description = ""
    return {op.name: op for op in found.op}


def test_every_op_def_of_tensorflow_both_ways(all_ops: dict[str, Any]) -> None:
    differing = []
    for name, op in all_ops.items():
        mine = OpDef.from_proto(op).to_proto()
        if mine.SerializeToString(deterministic=True) != op.SerializeToString(deterministic=True):
            differing.append(name)
    # Its default is a small uint8 tensor, which TensorFlow spells out as int_val and we write as
    # content.
    assert differing == ["ImageSummary"]


def attr_spec(attr: Any) -> str | None:
    """A TensorFlow attr written in the language of op definitions; None where the language has no
    way to say it.
    """
    kind = attr.type
    inner = kind[5:-1] if kind.startswith("list(") else kind
    if attr.HasField("allowed_values"):
        values = attr.allowed_values.list
        inner = (
            "{"
            + ", ".join(
                [f"'{s.decode()}'" for s in values.s]
                or [dtypes.short_name(dtypes.as_dtype(t)) for t in values.type]
            )
            + "}"
        )
    text = f"{attr.name}: " + (f"list({inner})" if kind.startswith("list(") else inner)
    if attr.has_minimum:
        text += f" >= {attr.minimum}"
    if attr.HasField("default_value"):
        default = spec_of(attr.default_value, kind)
        if default is None:
            return None
        text += " = " + default
    return text


def spec_of(value: Any, kind: str) -> str | None:
    if kind.startswith("list("):
        items = [
            scalar_spec(item, kind[5:-1])
            for item in (
                *value.list.i,
                *value.list.f,
                *value.list.b,
                *value.list.s,
                *value.list.type,
                *value.list.shape,
            )
        ]
        return None if None in items else "[" + ", ".join(str(i) for i in items) + "]"
    field = {
        "string": "s",
        "int": "i",
        "float": "f",
        "bool": "b",
        "type": "type",
        "shape": "shape",
    }.get(kind)
    return None if field is None else scalar_spec(getattr(value, field), kind)


def scalar_spec(value: Any, kind: str) -> str | None:
    if kind == "string":
        return repr(value.decode())
    if kind == "bool":
        return "true" if value else "false"
    if kind == "type":
        return dtypes.enum_name(dtypes.as_dtype(value))
    if kind == "shape":
        return (
            "{ unknown_rank: true }"
            if value.unknown_rank
            else "{ " + " ".join(f"dim {{ size: {d.size} }}" for d in value.dim) + " }"
        )
    return repr(value) if kind in ("int", "float") else None


def arg_spec(arg: Any) -> str:
    text = arg.type_list_attr or arg.type_attr or dtypes.short_name(dtypes.as_dtype(arg.type))
    if arg.number_attr:
        text = f"{arg.number_attr} * {text}"
    return f"{arg.name}: Ref({text})" if arg.is_ref else f"{arg.name}: {text}"


def test_the_language_can_say_what_tensorflow_registers(all_ops: dict[str, Any]) -> None:
    said = 0
    for op in all_ops.values():
        specs = [attr_spec(attr) for attr in op.attr]
        if None in specs or any(
            a.HasField("experimental_full_type") for a in (*op.input_arg, *op.output_arg)
        ):
            continue
        own = OpRegistry()
        definition = OpDef.from_proto(op)
        kinds = {attr.name: attr.type for attr in definition.attrs}
        parsed = [op_spec.parse_attr(spec) for spec in specs if spec is not None]
        for fields, attr in zip(parsed, definition.attrs):
            assert fields == {
                "name": attr.name,
                "type": attr.type,
                **({"allowed": attr.allowed} if attr.allowed else {}),
                **({"minimum": attr.minimum} if attr.minimum is not None else {}),
                **({"default": attr.default} if attr.default is not NO_DEFAULT else {}),
            }, op.name
        for arg, message in zip(
            (*definition.inputs, *definition.outputs), (*op.input_arg, *op.output_arg)
        ):
            fields = op_spec.parse_arg(arg_spec(message), kinds)
            assert all(getattr(arg, key) == value for key, value in fields.items()), op.name
        own.register(definition)
        assert own.lookup(op.name) is definition
        said += 1
    assert said > 1600


def test_type_sets_are_tensorflows(all_ops: dict[str, Any]) -> None:
    def allowed(op: str, attr: str) -> tuple[Any, ...]:
        definition = OpDef.from_proto(all_ops[op]).attr(attr)
        assert definition is not None
        return definition.allowed

    assert op_spec.parse_attr("T: {numbertype, variant}")["allowed"] == allowed("AddN", "T")
    assert op_spec.parse_attr("T: {realnumbertype, quantizedtype}")["allowed"] == allowed(
        "Max", "T"
    )
    assert op_spec.parse_attr("T: numbertype")["allowed"] == allowed(
        "BatchNormWithGlobalNormalization", "T"
    )
    assert op_spec.parse_attr("T: quantizedtype = DT_QINT32")["allowed"] == allowed(
        "QuantizedConv2D", "out_type"
    )


SPECS: dict[str, dict[str, Any]] = {
    "N: int": {"name": "N", "type": "int"},
    "N:int>=1": {"name": "N", "type": "int", "minimum": 1},
    "T: {float, DT_HALF} = DT_FLOAT": {
        "name": "T",
        "type": "type",
        "allowed": (dtypes.float32, dtypes.float16),
        "default": dtypes.float32,
    },
    "p: {'SAME', \"VALID\"}": {"name": "p", "type": "string", "allowed": (b"SAME", b"VALID")},
    "p: list({'a', 'b'}) >= 1": {
        "name": "p",
        "type": "list(string)",
        "allowed": (b"a", b"b"),
        "minimum": 1,
    },
    "s: string = 'it\\'s'": {"name": "s", "type": "string", "default": b"it's"},
    "f: float = 0.1": {"name": "f", "type": "float", "default": 0.10000000149011612},
    "f: float = -inf": {"name": "f", "type": "float", "default": float("-inf")},
    "l: list(int) >= 4 = [1, 1, 1, 1]": {
        "name": "l",
        "type": "list(int)",
        "minimum": 4,
        "default": (1, 1, 1, 1),
    },
    "l: list(string) = ['a, b', 'c']": {
        "name": "l",
        "type": "list(string)",
        "default": (b"a, b", b"c"),
    },
    "l: list(shape) = []": {"name": "l", "type": "list(shape)", "default": ()},
    "s: shape = {}": {"name": "s", "type": "shape", "default": TensorShape([])},
    "s: shape = { unknown_rank: true }": {
        "name": "s",
        "type": "shape",
        "default": TensorShape(None),
    },
    "s: shape = [2, ?]": {"name": "s", "type": "shape", "default": TensorShape([2, None])},
    "b: bool = true": {"name": "b", "type": "bool", "default": True},
    "f: func": {"name": "f", "type": "func"},
    "t: tensor": {"name": "t", "type": "tensor"},
}


@pytest.mark.parametrize("spec", SPECS)
def test_attr_specs(spec: str) -> None:
    assert op_spec.parse_attr(spec) == SPECS[spec]


BAD_SPECS = [
    "int",
    "N: nope",
    "T: {nope}",
    "T: {float",
    "N: float >= 1",
    "N: int = x",
    "b: bool = 1",
    "l: list(int = []",
    "l: list(int) = 3",
    "N: int what",
    "T: type = nope",
    "s: string = a",
    "s: shape = 3",
    "x: 3",
]


@pytest.mark.parametrize("spec", BAD_SPECS)
def test_bad_attr_specs(spec: str) -> None:
    with pytest.raises(op_spec.SpecError, match="spec"):
        op_spec.parse_attr(spec)


def test_bad_arg_specs() -> None:
    for spec in ("x", "x: nope", "x: N * T", "x: s * float"):
        with pytest.raises(op_spec.SpecError):
            op_spec.parse_arg(spec, {"T": "type", "s": "string"})
    with pytest.raises(op_spec.SpecError, match="register_op\\('Bad'\\)"):
        register_op("Bad", ("x: nope",))
    with pytest.raises(op_spec.SpecError, match="defined twice"):
        register_op("Bad", attrs=("T: type", "T: int"))
    with pytest.raises(TypeError, match="specs come as a tuple"):
        register_op("Bad", "x: float")
    assert "Bad" not in registry
