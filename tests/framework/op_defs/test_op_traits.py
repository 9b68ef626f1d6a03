"""Traits agree with the contracts, the scalar table and the kernels of the ops that declare them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import tfjit
from tfjit.framework.op_defs import op_traits
from tfjit.framework.op_defs.op_def import OpDef, define_op
from tfjit.framework.op_defs.op_registry import registry
from tfjit.framework.op_defs.op_traits import (
    ASSIGN,
    ASSIGN_ADD,
    CALL,
    CANNOT_FAIL,
    CASE,
    CONTROL_FLOW,
    ELEMENTWISE,
    FAILS_ON_INTEGERS,
    IDENTITY,
    IF,
    MATRIX_PRODUCT,
    NEVER_EVALUATED,
    PLACEHOLDER,
    READS_STATE,
    REDUCTION,
    RESHAPE,
    RUNS_FUNCTIONS,
    SHAPE_QUERY,
    SPECULATABLE,
    SWITCH,
    VARIABLE,
    VIEW,
    WHILE,
    WRITES_VARIABLE,
    completed,
    names,
)
from tfjit.framework.scalar import elementwise
from tfjit.framework.types import dtypes


def ops(traits: int) -> Iterator[OpDef]:
    """Yield the ops that have one of these traits."""
    return (op for op in registry.list() if op.traits & traits)


def test_a_view_has_one_output_of_the_type_of_its_input() -> None:
    assert {op.name for op in ops(VIEW)} >= {"Identity", "Reshape", "EnsureShape", "RefIdentity"}
    for op in ops(VIEW):
        assert len(op.outputs) == 1, op.name
        given, taken = op.outputs[0], op.inputs[0]
        assert given.type_attr == taken.type_attr != "", op.name
        assert not given.is_list, op.name


def test_an_identity_takes_nothing_but_its_input() -> None:
    for op in ops(IDENTITY):
        assert len(op.inputs) == 1, op.name
        assert op.traits & CANNOT_FAIL, op.name


def test_a_speculatable_op_has_no_state() -> None:
    for op in registry.list():
        if op.traits & SPECULATABLE:
            assert not op.is_stateful, op.name
            assert not any(arg.is_ref for arg in (*op.inputs, *op.outputs)), op.name
            assert not any(arg.type is dtypes.resource for arg in op.inputs), op.name
        # nothing is left to follow
        assert op.traits == completed(op.traits, op.is_stateful), op.name


def test_the_scalar_table_says_which_ops_are_elementwise_and_when_they_fail() -> None:
    rows = {row.op: row for row in elementwise.TABLE}
    assert {op.name for op in ops(ELEMENTWISE) if op.name in rows} == set(rows)
    for row in elementwise.TABLE:
        op = registry.require(row.op)
        for dtype in row.dtypes - {dtypes.bool}:
            # the bit speaks for signed and unsigned integers, though Pow fails on signed ones alone
            may_fail = row.error is not None and dtype.is_integer
            assert op.is_speculatable(dtype) == (not may_fail), (op.name, dtype)
        assert bool(op.traits & FAILS_ON_INTEGERS) == (row.error is not None), op.name


@pytest.mark.parametrize(
    ("traits", "holds"),
    [
        (REDUCTION, lambda op: len(op.inputs) == 2 and "keep_dims" in op.attr_by_name),
        (MATRIX_PRODUCT, lambda op: len(op.inputs) == 2 and len(op.outputs) == 1),
        (SHAPE_QUERY, lambda op: len(op.inputs) == 1 and not op.is_stateful),
        (RESHAPE, lambda op: "T" in op.attr_by_name),
        (PLACEHOLDER, lambda op: not op.inputs and "dtype" in op.attr_by_name),
        (VARIABLE, lambda op: op.is_stateful and not op.inputs and len(op.outputs) == 1),
        (SWITCH, lambda op: len(op.inputs) == len(op.outputs) == 2),
        (WHILE, lambda op: {"cond", "body"} <= set(op.attr_by_name)),
        (IF, lambda op: {"then_branch", "else_branch"} <= set(op.attr_by_name)),
        (CASE, lambda op: "branches" in op.attr_by_name),
        (CALL, lambda op: "f" in op.attr_by_name),
        (RUNS_FUNCTIONS, lambda op: any("func" in attr.type for attr in op.attrs)),
        (ASSIGN | ASSIGN_ADD, lambda op: len(op.inputs) == 2),
    ],
    ids=lambda value: "-".join(names(value)) if isinstance(value, int) else "",
)
def test_the_contract_fits_the_trait(traits: int, holds: Callable[[OpDef], bool]) -> None:
    found = list(ops(traits))
    assert found
    assert [op.name for op in found if not holds(op)] == []


def test_state_is_reached_by_a_handle() -> None:
    """Reads and writes of variables take a reference, a resource or the handle of an older op."""
    for op in ops(WRITES_VARIABLE | READS_STATE):
        handle = op.inputs[0]
        assert handle.is_ref or handle.type is dtypes.resource or "handle" in handle.name, op.name
    assert not [op.name for op in ops(WRITES_VARIABLE) if op.traits & READS_STATE]


def test_traits_follow_from_each_other() -> None:
    assert completed(IDENTITY, False) == IDENTITY | VIEW
    assert completed(SWITCH, False) == SWITCH | CONTROL_FLOW | NEVER_EVALUATED
    assert completed(CANNOT_FAIL, False) == CANNOT_FAIL | SPECULATABLE
    assert completed(CANNOT_FAIL, True) == CANNOT_FAIL
    assert not completed(ASSIGN | CANNOT_FAIL, False) & SPECULATABLE
    assert names(completed(IDENTITY, False)) == ["VIEW", "IDENTITY"]


def test_each_trait_is_a_bit_of_its_own_that_some_op_has() -> None:
    bits = [
        value
        for name, value in vars(op_traits).items()
        if name.isupper() and not name.startswith("_")
    ]
    assert sorted(bits) == [1 << k for k in range(len(bits))]
    assert [names(bit) for bit in bits if not any(ops(bit))] == []


def test_the_registry_answers_for_types_without_definition() -> None:
    assert registry.has_trait("Identity", VIEW)
    assert not registry.has_trait("Identity", RESHAPE)
    assert not registry.has_trait("NoSuchOp", VIEW)
    assert registry.loaded_traits("_Fused") == 0


def test_traits_are_no_part_of_the_contract() -> None:
    plain = define_op("TestTraits", ("x: T",), ("y: T",), ("T: type",))
    marked = define_op("TestTraits", ("x: T",), ("y: T",), ("T: type",), traits=IDENTITY)
    assert plain == marked
    assert plain.to_proto() == marked.to_proto()


@pytest.mark.parametrize(
    ("expression", "speculatable"), [("x * 2 + 1", (True, True)), ("x // 2", (True, False))]
)
def test_ops_of_users_have_traits_by_their_expression(
    expression: str, speculatable: tuple[bool, bool]
) -> None:
    tfjit.register_op(
        "TestTraitsOfUsers",
        inputs=("x: T",),
        outputs=("y: T",),
        attrs=("T: {float, int32}",),
        expression=expression,
    )
    try:
        op = registry.require("TestTraitsOfUsers")
        assert op.traits & ELEMENTWISE
        found = tuple(op.is_speculatable(dtype) for dtype in (dtypes.float32, dtypes.int32))
        assert found == speculatable
    finally:
        tfjit.unregister_op("TestTraitsOfUsers")


def test_an_op_of_a_user_given_by_a_function_may_fail() -> None:
    tfjit.register_op(
        "TestTraitsOfUsers",
        inputs=("x: T",),
        outputs=("y: T",),
        attrs=("T: {float, int32}",),
        reference=lambda x: x,
    )
    try:
        assert registry.require("TestTraitsOfUsers").traits == 0
    finally:
        tfjit.unregister_op("TestTraitsOfUsers")


def test_each_trait_has_a_bit() -> None:
    bits = [getattr(op_traits, name) for name in op_traits.names((1 << 64) - 1)]
    assert len(set(bits)) == len(bits) and all(bit.bit_count() == 1 for bit in bits)
