"""Values to tensors, raw ops, and the errors of building nodes, against TensorFlow's v1 names."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest

import tfjit
from tfjit.framework.graphs.operation import Tensor
from tfjit.ops import raw_ops
from tfjit.ops.core.convert import (
    convert_n_to_tensor,
    convert_to_tensor,
    register_tensor_conversion_function,
)

tensorflow = pytest.importorskip("tensorflow")
tf1 = tensorflow.compat.v1

VALUES: list[tuple[Any, str | None]] = [
    (1, None),
    (1.5, None),
    (True, None),
    ("text", None),
    (b"bytes", None),
    (2**40, None),
    ([1, 2], None),
    ([1, 2.5], None),
    ([[1, 2], [3, 4]], "float32"),
    ([], None),
    ([], "int32"),
    (np.arange(3), None),
    (np.float64(2), None),
    (np.array([1, 2], np.uint8), "uint8"),
    (1j, None),
    (["a", b"b"], None),
    ([True, False], None),
    (1, "float16"),
    ([1, 2], "bfloat16"),
    (300, "uint8"),
]

REFUSED: list[tuple[Any, str | None]] = [
    ([[1, 2], [3]], None),
    (1.5, "int32"),
    ("a", "float32"),
    ([1, "a"], None),
    (None, None),
    (object(), None),
]


@pytest.mark.parametrize(("value", "dtype"), VALUES)
def test_constants(value: Any, dtype: str | None) -> None:
    with tf1.Graph().as_default():
        theirs = tf1.convert_to_tensor(value, dtype)
        with tf1.Session() as session:
            expected = session.run(theirs)
    with tfjit.Graph().as_default():
        ours = convert_to_tensor(value, dtype)
        assert ours.dtype.name == theirs.dtype.name
        assert ours.shape.as_list() == theirs.shape.as_list()
        found = ours.op.attr("value")
    assert np.array_equal(np.asarray(found), np.asarray(expected, dtype=found.dtype))


@pytest.mark.parametrize(("value", "dtype"), REFUSED)
def test_refused_values(value: Any, dtype: str | None) -> None:
    with tf1.Graph().as_default(), pytest.raises((TypeError, ValueError)) as theirs:
        tf1.convert_to_tensor(value, dtype)
    with tfjit.Graph().as_default(), pytest.raises((TypeError, ValueError)) as ours:
        convert_to_tensor(value, dtype)
    assert isinstance(ours.value, TypeError) == isinstance(theirs.value, TypeError)


def test_dtype_of_a_tensor_is_not_changed() -> None:
    with tfjit.Graph().as_default():
        x = tfjit.constant(1.0)
        assert convert_to_tensor(x, "float32") is x
        with pytest.raises(
            ValueError,
            match="Tensor conversion requested dtype int32 for Tensor with dtype float32",
        ):
            convert_to_tensor(x, "int32")
        assert convert_to_tensor(3, preferred_dtype="float32").dtype is tfjit.float32
        assert convert_to_tensor("a", preferred_dtype="float32").dtype is tfjit.string


def test_registered_types_convert_by_priority() -> None:
    class Meters:
        def __init__(self, value: float) -> None:
            self.value = value

    def plain(
        value: Meters, dtype: Any = None, name: str | None = None, as_ref: bool = False
    ) -> Any:
        return (
            NotImplemented
            if dtype is tfjit.int32
            else tfjit.constant(value.value, dtype=dtype or tfjit.float64)
        )

    def whole(
        value: Meters, dtype: Any = None, name: str | None = None, as_ref: bool = False
    ) -> Any:
        return tfjit.constant(int(value.value), dtype=dtype)

    register_tensor_conversion_function(Meters, plain, 50)
    register_tensor_conversion_function(Meters, whole, 60)
    with tfjit.Graph().as_default():
        assert convert_to_tensor(Meters(2.5)).dtype is tfjit.float64
        assert convert_to_tensor(Meters(2.5), "int32").dtype is tfjit.int32
        assert (tfjit.constant(1.0) + Meters(2.0)).op.type == "AddV2"
    with pytest.raises(TypeError, match="must be a type"):
        register_tensor_conversion_function("Meters", plain)  # type: ignore[arg-type]


def test_names_of_a_list_of_tensors() -> None:
    with tfjit.Graph().as_default():
        assert [t.op.name for t in convert_n_to_tensor([1, 2], name="n")] == ["n_0", "n_1"]


def test_raw_ops_cover_the_registry() -> None:
    names = dir(raw_ops)
    assert len(names) >= 1123
    assert all(callable(getattr(raw_ops, name)) for name in names)
    with pytest.raises(AttributeError, match="NoSuchOp"):
        _ = raw_ops.NoSuchOp


def test_raw_op_arguments() -> None:
    with tfjit.Graph().as_default():
        out = raw_ops.TopKV2(input=[[1.0, 3.0, 2.0]], k=2)
        assert out._fields == ("values", "indices")
        parts = raw_ops.Split(split_dim=0, value=[1, 2, 3], num_split=3)
        assert isinstance(parts, list) and len(parts) == 3
        assert raw_ops.NoOp(name="nothing").name == "nothing"
        assert isinstance(raw_ops.Exp(x=1.0), Tensor)
        with pytest.raises(TypeError, match="No argument for input y"):
            raw_ops.Add(x=1)
        with pytest.raises(TypeError, match="unexpected keyword argument 'z'"):
            raw_ops.Exp(x=1.0, z=2)
        with pytest.raises(TypeError, match="Expected list for 'values'"):
            raw_ops.Pack(values=1)


BAD: list[Any] = [
    lambda t: t.add(t.constant(1.0), t.constant(1)),
    lambda t: t.constant(1.0) + t.constant(1),
    lambda t: t.matmul(t.zeros([2, 3]), t.zeros([2, 3])),
    lambda t: t.concat([t.zeros([2]), t.zeros([2, 2])], 0),
    lambda t: t.concat([t.zeros([2]), t.zeros([2], t.int32)], 0),
    lambda t: t.reshape(t.zeros([2, 3]), [4]),
    lambda t: t.zeros([2])[0, 0],
    lambda t: t.zeros([2])["a"],
    lambda t: t.zeros([2])[1.5],
    lambda t: t.nn.conv2d(t.zeros([1, 4, 4, 3]), t.zeros([2, 2, 2, 5]), [1, 1, 1, 1], "SAME"),
    lambda t: t.nn.conv2d(t.zeros([1, 4, 4, 3]), t.zeros([2, 2, 3, 5]), [1, 1, 1, 1], "WRONG"),
    lambda t: t.nn.softmax_cross_entropy_with_logits(t.zeros([2, 3])),
    lambda t: t.split(t.zeros([3]), 2),
    lambda t: t.reduce_sum(t.zeros([2]), 1),
    lambda t: t.where(t.constant(True), t.zeros([2])),
    lambda t: t.cast(t.zeros([2]), "nonsense"),
    lambda t: t.random_uniform([2], dtype=t.int32),
    lambda t: t.unstack(t.placeholder(t.float32)),
    lambda t: t.stack([t.zeros([2]), t.zeros([3])]),
    lambda t: t.expand_dims(t.zeros([2]), 5),
    lambda t: t.squeeze(t.zeros([2]), [0]),
    lambda t: t.logical_and(t.zeros([2]), True),
    lambda t: t.one_hot([1], 3, axis=-5),
    lambda t: bool(t.constant(True)),
    lambda t: list(t.placeholder(t.float32)),
]


@pytest.mark.parametrize("index", range(len(BAD)))
def test_errors_have_tensorflows_class(index: int) -> None:
    """Where TensorFlow raises TypeError or ValueError so do we; where it raises its own kind, ours
    has that name.
    """
    with tf1.Graph().as_default(), pytest.raises(Exception) as theirs:
        BAD[index](tf1)
    with tfjit.Graph().as_default(), pytest.raises(Exception) as ours:
        BAD[index](tfjit)
    names = {kind.__name__ for kind in type(ours.value).__mro__}
    assert type(theirs.value).__name__ in names, f"TensorFlow {theirs.value!r}, here {ours.value!r}"


def test_a_function_registered_during_a_conversion_is_not_missed() -> None:
    """As by another thread: what was found before it came is not kept for later conversions."""

    class Value:
        """A type that is registered while another one of its values is being converted."""

    class Registers(type):
        done = False

        def __subclasscheck__(cls, kind: type) -> bool:
            if kind is Value and not Registers.done:
                Registers.done = True
                register_tensor_conversion_function(
                    Value, lambda value, **_: tfjit.constant(7.0), priority=-1
                )
            return False

    class Trigger(metaclass=Registers):
        """A registered type; asking whether another one derives from it registers that one."""

    register_tensor_conversion_function(Trigger, lambda value, **_: NotImplemented, priority=0)
    with tfjit.Graph().as_default():
        with contextlib.suppress(TypeError):
            tfjit.convert_to_tensor(Value())
        assert tfjit.convert_to_tensor(Value()).op.type == "Const"
