"""Attr values: both forms, conversion, checks, and how messages show them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from tfjit.framework.errors import InvalidArgumentError
from tfjit.framework.op_defs import attrs
from tfjit.framework.op_defs.attrs import FuncRef, Unset
from tfjit.framework.op_defs.op_def import AttrDef
from tfjit.framework.types import dtypes
from tfjit.framework.types.shape import TensorShape
from tfjit.protos import attr_value_pb2

scalars = (
    st.binary(max_size=4)
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(width=32, allow_nan=False)
    | st.booleans()
    | st.sampled_from(dtypes.ALL)
    | st.none().map(TensorShape)
    | st.lists(st.none() | st.integers(0, 9), max_size=3).map(TensorShape)
    | st.builds(FuncRef, st.just("f"), st.dictionaries(st.sampled_from("ab"), st.integers(0, 9)))
    | st.lists(st.integers(-9, 9), max_size=3).map(np.array)
)
values = (
    scalars
    | st.builds(Unset, st.just("T"))
    | st.lists(st.integers(-(2**63), 2**63 - 1)).map(tuple)
    | st.lists(st.sampled_from(dtypes.ALL)).map(tuple)
)


@given(values)
def test_round_trip(value: Any) -> None:
    proto = attrs.to_proto(value)
    again = attrs.from_proto(attr_value_pb2.AttrValue.FromString(proto.SerializeToString()))
    assert attrs.equal(again, value)
    assert (
        attrs.from_proto(tf.compat.v1.AttrValue.FromString(proto.SerializeToString())) is not None
    )
    kinds = {attrs.kind_of(value), attrs.kind_of_proto(proto)}
    assert len(kinds) == 1


@given(st.lists(scalars, min_size=1, max_size=3))
def test_lists_of_one_kind(items: list[Any]) -> None:
    kind = attrs.kind_of(items[0])
    value = tuple(item for item in items if attrs.kind_of(item) == kind)
    assert attrs.equal(attrs.from_proto(attrs.to_proto(value)), value)
    assert attrs.matches_kind(value, f"list({kind})")


def test_empty_and_unset() -> None:
    assert attrs.from_proto(attr_value_pb2.AttrValue()) is attrs.ABSENT
    assert attrs.from_proto(attrs.to_proto(())) == ()
    assert attrs.kind_of_proto(attr_value_pb2.AttrValue()) == ""
    with pytest.raises(InvalidArgumentError, match="Type number 77 is not a known DataType"):
        attrs.from_proto(attr_value_pb2.AttrValue(type=77))
    with pytest.raises(TypeError, match="is no attr value"):
        attrs.to_proto({})
    with pytest.raises(TypeError, match="is no element of a list attr"):
        attrs.to_proto(({},))


CONVERSIONS: list[tuple[str, Any, Any]] = [
    ("string", "é", "é".encode()),
    ("int", np.int64(3), 3),
    ("int", 3.7, 3),
    ("int", True, 1),
    ("float", 0.1, float(np.float32(0.1))),
    ("float", 1, 1.0),
    ("bool", np.bool_(True), True),
    ("type", np.float32, dtypes.float32),
    ("type", dtypes.float32._as_ref, dtypes.float32),
    ("type", "half", dtypes.float16),
    ("shape", [2, None], TensorShape([2, None])),
    ("shape", None, TensorShape(None)),
    ("func", "f", FuncRef("f")),
    ("list(int)", [1, 2], (1, 2)),
    ("list(int)", range(2), (0, 1)),
    ("list(type)", [tf.float32, "int32"], (dtypes.float32, dtypes.int32)),
    ("list(shape)", [[1], None], (TensorShape([1]), TensorShape(None))),
    ("list(string)", [], ()),
]


@pytest.mark.parametrize(("kind", "value", "expected"), CONVERSIONS, ids=str)
def test_conversion(kind: str, value: Any, expected: Any) -> None:
    found = attrs.convert(value, kind, "x")
    assert attrs.equal(found, expected)


BAD: list[tuple[str, Any, str]] = [
    ("int", "x", "Expected int for argument 'strides' not 'x'."),
    ("int", None, "Expected int for argument 'strides' not None."),
    ("float", "x", "Expected float for argument 'strides' not 'x'."),
    ("bool", 1, "Expected bool for argument 'strides' not 1."),
    ("string", 1, "Expected string for argument 'strides' not 1."),
    ("type", int, "Expected DataType for argument 'strides' not <class 'int'>."),
    ("list(int)", 3, "Expected list for 'strides' argument to 'conv2d' Op, not 3."),
    ("list(int)", "12", "Expected list for 'strides' argument to 'conv2d' Op, not '12'."),
    ("list(int)", ["x"], "Expected int for argument 'strides' not 'x'."),
    ("tensor", 1, "Don't know how to convert 1 to a TensorProto for argument 'strides'"),
    ("func", 1, "Expected func for argument 'strides' not 1."),
]


@pytest.mark.parametrize(("kind", "value", "message"), BAD, ids=str)
def test_bad_conversion(kind: str, value: Any, message: str) -> None:
    with pytest.raises(TypeError) as raised:
        attrs.convert(value, kind, "strides", "Conv2D")
    assert str(raised.value) == message


def test_bad_shape_and_number() -> None:
    with pytest.raises(
        ValueError,
        match=r"Error converting \[-1\] \(argument name 'x'\) to a TensorShape: Dimension -1 must "
        r"be >= 0",
    ):
        attrs.convert([-1], "shape", "x")
    with pytest.raises(ValueError, match="does not fit 64 bits"):
        attrs.convert(2**63, "int", "x")


NOT_ALLOWED = "not in the list of allowed values"
OF_INT32 = f"Value for attr '{{}}' of int32 is {NOT_ALLOWED}"
CHECKS: list[tuple[AttrDef, Any, str | None]] = [
    (AttrDef("T", "type", allowed=(dtypes.float32, dtypes.float16)), dtypes.float32, None),
    (AttrDef("T", "type", allowed=(dtypes.float32, dtypes.float16)), dtypes.int32, f"{OF_INT32.format('T')}: float, half"),
    (AttrDef("p", "string", allowed=(b"SAME", b"VALID")), b"XX", 'Value for attr \'p\' of "XX" is '
                                                                 f'{NOT_ALLOWED}: "SAME", "VALID"'),
    (AttrDef("N", "int", minimum=1), 0, "Value for attr 'N' of 0 must be at least minimum 1"),
    (AttrDef("Tin", "list(type)", minimum=1), (), "Length for attr 'Tin' of 0 must be at least "
                                                  "minimum 1"),
    (AttrDef("Tin", "list(type)", allowed=(dtypes.float32,)), (dtypes.float32, dtypes.int32), OF_INT32.format("Tin") + ": float"),
    (AttrDef("T", "type"), 3, "AttrValue had value with type 'int' when 'type' expected\n\t for "
                              "attr 'T'"),
    (AttrDef("T", "type"), dtypes.float32._as_ref, "AttrValue must not have reference type value "
                                                   "of float_ref\n\t for attr 'T'"),
    (AttrDef("L", "list(int)"), (True,), "AttrValue had value with type 'list(bool)' when "
                                         "'list(int)' expected\n\t for attr 'L'"),
    (AttrDef("L", "list(int)"), (), None),
    (AttrDef("N", "int", minimum=1), Unset("N"), None),
]  # fmt: skip


@pytest.mark.parametrize(("definition", "value", "message"), CHECKS, ids=str)
def test_checks(definition: AttrDef, value: Any, message: str | None) -> None:
    if message is None:
        attrs.check(value, definition)
        return
    with pytest.raises(InvalidArgumentError) as raised:
        attrs.check(value, definition)
    assert raised.value.message == message


def test_summaries_are_the_runtimes() -> None:
    """As in the messages of TensorFlow's graph building."""
    shown = {
        "DT_FLOAT": dtypes.float32,
        "true": True,
        "-3": -3,
        "0.1": float(np.float32(0.1)),
        '"SAME"': b"SAME",
        '"a\\"\\n\\000"': b'a"\n\0',
        "[2,?]": TensorShape([2, None]),
        "<unknown>": TensorShape(None),
        "[1, 2]": (1, 2),
        "[]": (),
        "f[]": FuncRef("f"),
        "f[T=DT_FLOAT]": FuncRef("f", {"T": dtypes.float32}),
        "$T": Unset("T"),
    }
    for text, value in shown.items():
        assert attrs.summarize(value) == text
    long = attrs.summarize(tuple(range(60)))
    assert long.startswith("[0, 1, 2, 3, 4, ...") and long.endswith("59]")


def test_guess() -> None:
    for value, expected in [
        ("a", b"a"),
        ([1, "b"], (1, b"b")),
        (np.int32(3), 3),
        (np.float32(0.5), 0.5),
        (np.True_, True),
        (tf.float32, dtypes.float32),
    ]:
        assert attrs.guess(value) == expected
    with pytest.raises(TypeError):
        attrs.guess(object())
