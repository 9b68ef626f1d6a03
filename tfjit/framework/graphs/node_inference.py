"""Infer attrs and output shapes of new operations; check their inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tfjit.framework.errors import (
    InvalidArgumentError,
    InvalidDtypeError,
    InvalidGraphError,
    UnimplementedError,
)
from tfjit.framework.graphs import static_value
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.op_defs import attrs as attr_values
from tfjit.framework.op_defs.node_types import complete_attrs
from tfjit.framework.op_defs.op_def import OpDef
from tfjit.framework.op_defs.op_registry import infer_shapes, registry
from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.framework.types import dtypes
from tfjit.framework.types.dtypes import DType
from tfjit.framework.types.shape import Shape


def complete_values(
    op_def: OpDef, attrs: Mapping[str, Any] | None, inputs: Sequence[Tensor], name: str
) -> dict[str, Any]:
    """Return the values of all attrs of an operation.

    attrs: Python values or AttrValue messages. Raises InvalidGraphError for values that do not fit
    the op's contract, or are missing.
    """
    values: dict[str, Any] = {}
    if attrs:
        for key, value in attrs.items():
            definition = op_def.attr_by_name.get(key)
            descriptor = getattr(value, "DESCRIPTOR", None)
            if descriptor is not None and descriptor.full_name.endswith(".AttrValue"):
                value = attr_values.from_proto(value)
            elif definition is not None:
                value = attr_values.convert(value, definition.type, key, op_def.name)
            else:
                value = attr_values.guess(value)
            values[key] = value
    try:
        values = complete_attrs(op_def, values, [t._dtype for t in inputs])
        for definition in op_def.attrs:
            attr_values.check(values[definition.name], definition)
    except InvalidArgumentError as error:
        raise InvalidGraphError(
            None, None, f"{error.message}\n\t; NodeDef: {{{{node {name}}}}}; {op_def.summary()}"
        ) from None
    return values


def infer_output_shapes(
    op_def: OpDef,
    name: str,
    values: Mapping[str, Any],
    inputs: tuple[Tensor, ...],
    num_outputs: int,
) -> list[Shape]:
    """Return the static shapes of an operation's outputs.

    Raises InvalidArgumentError for shapes that do not fit.
    """
    given = [t._shape for t in inputs]
    equal = registry.equal_shape(op_def.name, given)
    if equal is not None:
        return [equal]
    context = ShapeContext(
        op_def.name,
        name,
        values,
        given,
        [t._dtype for t in inputs],
        num_outputs,
        lambda i: static_value.constant_value(inputs[i]),
        lambda i: static_value.constant_value_as_shape(inputs[i]),
        lambda: [t.name if t._value_index else t.op.name for t in inputs],
    )
    return infer_shapes(context, op_def)


def check_inputs(
    op_def: OpDef,
    name: str,
    expected: Sequence[DType],
    inputs: Sequence[Tensor | None],
    node_def: Any = None,
) -> None:
    """Raise InvalidGraphError unless the `inputs` have the expected number and dtypes.

    None is an input that comes later.
    """
    if len(expected) != len(inputs):
        types = ", ".join(dtypes.short_name(d) for d in expected)
        raise InvalidGraphError(
            node_def,
            None,
            f"NodeDef expected inputs '{types}' do not match {len(inputs)} inputs specified; "
            f"{op_def.summary()}; NodeDef: {{{{node {name}}}}}",
        )
    for i, (tensor, dtype) in enumerate(zip(inputs, expected, strict=True)):
        if tensor is not None:
            check_input(name, i, tensor, dtype, node_def)


def check_input(name: str, i: int, tensor: Tensor, dtype: DType, node_def: Any = None) -> None:
    """Raise InvalidGraphError unless `tensor` may be input `i` of node `name`.

    A reference may be given for a value, never the other way round.
    """
    given = tensor._dtype
    if given is not dtype and (dtype.is_ref or given.base_dtype is not dtype):
        raise InvalidGraphError(
            node_def,
            None,
            f"Input {i} of node {name} was passed {dtypes.short_name(given)} from {tensor.name} "
            f"incompatible with expected {dtypes.short_name(dtype)}.",
        )


def deprecation_error(op_def: OpDef, producer: int) -> UnimplementedError:
    """Return the error for an op removed before this graph version."""
    assert op_def.deprecated is not None
    version, why = op_def.deprecated
    return UnimplementedError(
        None,
        None,
        f"Op {op_def.name} is not available in GraphDef version {producer}. It has been removed in "
        f"version {version}. {why}.",
    )


def check_input_types(name: str, inputs: Sequence[Tensor], expected_types: Sequence[DType]) -> None:
    """Raise InvalidDtypeError unless the inputs have the types that the caller expects."""
    for i, (tensor, expected) in enumerate(zip(inputs, expected_types, strict=True)):
        if not expected.is_compatible_with(tensor._dtype):
            raise InvalidDtypeError(
                None,
                None,
                f"In op '{name}', input {i} has type {tensor.dtype.name}, expected {expected.name}",
            )


def check_output_types(
    op_def: OpDef, name: str, found: Sequence[DType], expected: Sequence[DType]
) -> None:
    """Raise InvalidDtypeError unless the outputs have the types that the caller expects."""
    if [d.base_dtype for d in expected] != [d.base_dtype for d in found]:
        raise InvalidDtypeError(
            None,
            None,
            f"Op '{name}' ({op_def.name}) gives {[d.name for d in found]}, "
            f"but {[dtypes.as_dtype(d).name for d in expected]} were asked for",
        )
