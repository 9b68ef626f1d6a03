"""The rules that shape functions are written with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tfjit.framework.errors import InvalidArgumentError
from tfjit.framework.op_defs.shape_context import ShapeContext, summarize_node
from tfjit.framework.types.shape import TensorShape

C = ShapeContext("Op", "n", {"shape": TensorShape([2, None])}, [(2, 3), None, (4,)])


def fails(text: str, rule: Any, *arguments: Any) -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        rule(*arguments)
    assert raised.value.message == text


def test_ranks() -> None:
    assert (
        C.with_rank((2, 3), 2) == (2, 3)
        and C.with_rank(0, 2) == (2, 3)
        and C.with_rank(1, 2) == (None, None)
    )
    assert (
        C.with_rank_at_least(None, 3) is None
        and C.with_rank_at_least(0, 1) == (2, 3)
        and C.with_rank_at_most(0, 2) == (2, 3)
    )
    assert C.rank((1, 2)) == 2 and C.rank(None) is None
    fails("Shape must be rank 1 but is rank 2", C.with_rank, (2, 3), 1)
    fails("Shape must be at least rank 3 but is rank 2", C.with_rank_at_least, (2, 3), 3)
    fails("Shape must be at most rank 1 but is rank 2", C.with_rank_at_most, (2, 3), 1)


def test_dims() -> None:
    assert C.dim((2, 3), 1) == 3 and C.dim((2, 3), -1) == 3 and C.dim(None, 7) is None
    fails("Shape must be at least rank 3 but is rank 2", C.dim, (2, 3), 2)
    fails("Shape must be at least rank 3 but is rank 2", C.dim, (2, 3), -3)
    assert C.merge_dim(None, 3) == C.merge_dim(3, None) == C.merge_dim(3, 3) == 3
    fails("Dimensions must be equal, but are 4 and 7", C.merge_dim, 4, 7)
    assert C.with_value(None, 3) == C.with_value(3, 3) == 3
    fails("Dimension must be 3 but is 4", C.with_value, 4, 3)
    assert C.replace_dim((2, 3), -1, None) == (2, None) and C.replace_dim(None, 0, 1) is None
    assert C.axis(-1, 3) == 2 and C.axis(0, 3) == 0
    fails("Dimension must be in the range [-3, 3), but got 3", C.axis, 3, 3)


def test_arithmetic() -> None:
    assert C.divide(12, 4) == 3 and C.divide(None, 4) is None and C.divide(13, 4, evenly=False) == 3
    fails("Dimension size must be evenly divisible by 5 but is 12", C.divide, 12, 5)
    fails("Divisor must be positive but is 0", C.divide, 12, 0)
    assert C.add(2, 3) == 5 and C.add(None, 3) is None
    assert C.subtract(5, 3) == 2 and C.subtract(5, None) is None
    fails("Negative dimension size caused by subtracting 5 from 3", C.subtract, 3, 5)
    assert C.multiply(2, 3) == 6 and C.multiply(0, None) == 0 and C.multiply(2, None) is None
    fails(
        "Dimension size overflow when 4294967296 is multiplied with 4294967296",
        C.multiply,
        2**32,
        2**32,
    )


def test_shapes() -> None:
    assert C.merge((2, None), (None, 3)) == (2, 3)
    fails("Shapes must be equal rank, but are 1 and 2", C.merge, (2,), (2, 3))
    assert C.broadcast((2, 1), (3,)) == (2, 3)
    fails("Dimensions must be equal, but are 2 and 3", C.broadcast, (2,), (3,))
    assert (
        C.subshape((1, 2, 3), 1) == (2, 3)
        and C.subshape((1, 2, 3), 0, -1) == (1, 2)
        and C.subshape(None, 0, 2) == (None, None)
    )
    assert C.subshape(None, 1) is None
    fails(
        "Subshape start and end out of bounds: 4:None of shape with rank 3",
        C.subshape,
        (1, 2, 3),
        4,
    )
    assert C.concat((1,), (2,)) == (1, 2) and C.concat(None, (2,)) is None
    assert (
        C.scalar() == ()
        and C.vector() == (None,)
        and C.vector(3) == (3,)
        and C.unknown() is None
        and C.unknown(2) == (None, None)
    )
    assert (
        C.num_elements((2, 3)) == 6 and C.fully_defined((2, 3)) and not C.fully_defined((2, None))
    )
    assert C.attr("shape") == TensorShape([2, None]) and C.shape_attr("shape") == (2, None)


def test_constants_show_in_messages() -> None:
    known = {0: np.array([2, -1]), 1: np.array(3)}
    context = ShapeContext(
        "Reshape",
        "r",
        {},
        [(2,), (), (3,)],
        constant=known.get,
        constant_as_shape=lambda i: (5, None, 7),
        input_names=lambda: ("a", "b", "c"),
    )
    assert context.constant(1) == 3 and context.constant(2) is None and context.constant(9) is None
    assert context.constant_as_shape(0) == (2, None)
    assert context.constant_as_shape(2) == (5, None, 7) and context.all_constant_shape(2) is None
    assert context.where() == (
        " for '{{node r}} = Reshape(a, b, c)' with input shapes: [2], [], [3] and with computed "
        "input tensors: input[0] = <2 -1>, "
        "input[1] = <3> and with input tensors computed as partial shapes: input[2] = [5,?,7]."
    )
    bare = ShapeContext("Reshape", "r", {}, [(2,), None])
    assert (
        bare.constant(0) is None
        and bare.constant_as_shape(0) == (None, None)
        and bare.constant_as_shape(1) is None
    )
    scalar = ShapeContext(
        "Reshape", "r", {}, [(), ()], constant={0: np.array(-1), 1: np.array(4)}.get
    )
    assert scalar.constant_as_shape(0) is None
    fails(
        "Input must be scalar with value -1 or vector, but is scalar with value 4",
        scalar.constant_as_shape,
        1,
    )
    bad = ShapeContext(
        "Reshape", "r", {}, [(2,), (1, 1)], constant={0: np.array([2, -2]), 1: np.array([[1]])}.get
    )
    fails("Dimension -2 must be >= -1", bad.constant_as_shape, 0)
    fails("Shape must be rank 1 but is rank 2", bad.constant_as_shape, 1)


def test_node_summary() -> None:
    assert (
        summarize_node("n", "Op", {"b": True, "a": 1}, ["x", "^y"], "/gpu:0")
        == '{{node n}} = Op[a=1, b=true, _device="/gpu:0"](x, ^y)'
    )
