"""The registry of op types, and shape inference by it."""

from __future__ import annotations

from typing import Any

import pytest

from tfjit.framework.errors import (
    InternalError,
    InvalidGraphError,
    NotFoundError,
    UnimplementedError,
)
from tfjit.framework.op_defs.op_def import OpDef
from tfjit.framework.op_defs.op_registry import OpRegistry, infer_shapes, register_op
from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.framework.types import dtypes

# Ops of this file's own; the names can't clash with TensorFlow's.
PAIR = register_op(
    "TestPair",
    ("x: T", "y: Ref(T)", "values: N * T", "args: Tin", "n: int32"),
    ("z: T", "more: N * float", "rest: Tin", "r: Ref(T)"),
    ("T: {float, int32}", "N: int >= 1", "Tin: list(type) >= 0", "k: int = 3"),
    lambda c: [c.merge(c.inputs[0], c.inputs[1])] * c.num_outputs,
)


def test_registry() -> None:
    own = OpRegistry()
    own.register(PAIR)
    own.register(PAIR)
    assert own.lookup("TestPair") is own.require("TestPair") is PAIR and own.lookup("x") is None
    assert (
        "TestPair" in own and len(own) == 1 and list(own) == ["TestPair"] and own.list() == (PAIR,)
    )
    with pytest.raises(ValueError, match="Op type TestPair is registered with another definition"):
        own.register(OpDef("TestPair"))
    with pytest.raises(
        NotFoundError,
        match="Op type not registered 'Nope' in binary running on .*needed by node 'n'",
    ):
        own.require("Nope", "n")
    with pytest.raises(AttributeError):
        PAIR.name = "x"  # type: ignore[misc]
    assert hash(PAIR) == hash(OpDef("TestPair"))


def test_shape_inference_and_its_messages() -> None:
    def run(*shapes: Any, **more: Any) -> Any:
        attrs = {"T": dtypes.float32, "N": 1}
        return infer_shapes(
            ShapeContext(
                "TestPair", "p", attrs, shapes, num_outputs=3, input_names=("a", "b:1"), **more
            ),
            PAIR,
        )

    assert run((2, None), (None, 3)) == [(2, 3)] * 3
    with pytest.raises(InvalidGraphError) as raised:
        run((2,), (3,))
    assert raised.value.message == (
        "Dimension 0 in both shapes must be equal, but are 2 and 3. Shapes are [2] and [3]. "
        "for '{{node p}} = TestPair[N=1, T=DT_FLOAT](a, b:1)' with input shapes: [2], [3]."
    )
    unknown = register_op("TestNoShape", ("x: float",), ("y: float",))
    assert infer_shapes(ShapeContext("TestNoShape", "n", {}, [(1,)]), unknown) == [None]
    wrong = register_op("TestWrongShape", (), ("y: float",), shape=lambda c: [])
    with pytest.raises(
        InternalError,
        match="the shape function of TestWrongShape gave 0 shapes for 1 outputs of 'n'",
    ):
        infer_shapes(ShapeContext("TestWrongShape", "n", {}, []), wrong)

    def unimplemented(context: ShapeContext) -> Any:
        raise UnimplementedError(None, None, "not yet")

    later = register_op("TestLater", (), ("y: float",), shape=unimplemented)
    with pytest.raises(UnimplementedError, match="not yet"):
        infer_shapes(ShapeContext("TestLater", "n", {}, []), later)
