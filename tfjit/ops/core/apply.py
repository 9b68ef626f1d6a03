"""One node from Python values.

Inputs are converted to the op's dtypes, attrs inferred, and outputs given in the users' form.
"""

from __future__ import annotations

from collections import namedtuple
from functools import cache
from typing import Any

from tfjit.framework.graphs.default_graph import get_default_graph, graph_of
from tfjit.framework.graphs.graph import Graph
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs import attrs as attr_values
from tfjit.framework.op_defs.node_types import arg_ranges
from tfjit.framework.op_defs.op_def import ArgDef, OpDef
from tfjit.framework.op_defs.op_registry import registry
from tfjit.framework.types.dtypes import DType, as_dtype
from tfjit.ops.core.convert import convert_to_tensor


def create(op_type: str, name: str | None = None, **arguments: Any) -> Operation:
    """Add a node.

    arguments: the op's inputs and attrs by name; attrs that follow from inputs or have defaults may
    be missing or None. Constants that are made of inputs are named for them, inside the node's
    name. Raises TypeError for missing or unknown arguments and values that don't convert; the
    errors of `Graph.create_op` otherwise.
    """
    op_def = registry.require(op_type, name or "")
    values: list[Any] = []
    for arg in op_def.inputs:
        if arg.name not in arguments:
            raise TypeError(f"No argument for input {arg.name} found in {op_def.summary()}")
        values.append(arguments.pop(arg.name))
    attrs = {
        key: _attr(op_def, key, value) for key, value in arguments.items() if value is not None
    }
    graph = _graph_of(values)
    if graph is not get_default_graph():
        with graph.as_default():
            return _create(graph, op_def, name, values, attrs)
    return _create(graph, op_def, name, values, attrs)


def _attr(op_def: OpDef, key: str, value: object) -> Any:
    definition = op_def.attr_by_name.get(key)
    if definition is None:
        if key.startswith("_"):
            return attr_values.guess(value)
        raise TypeError(
            f"{op_def.name} got an unexpected keyword argument {key!r}; it has {_names(op_def)}"
        )
    return attr_values.convert(value, definition.type, key, op_def.name)


def _names(op_def: OpDef) -> str:
    return ", ".join([arg.name for arg in op_def.inputs] + [attr.name for attr in op_def.attrs])


def _graph_of(values: list[object]) -> Graph:
    flat: list[object] = []
    for value in values:
        if isinstance(value, (list, tuple)):
            flat.extend(value)
        else:
            flat.append(value)
    return graph_of(flat)


def _create(
    graph: Graph, op_def: OpDef, name: str | None, values: list[Any], attrs: dict[str, Any]
) -> Operation:
    # in a conditional or loop, the nodes that bring the inputs in are made beside the node, and
    # named inside its name
    alone = graph._get_control_flow_context() is None
    if (
        alone
        and all(isinstance(v, Tensor) for v in values)
        and not any(arg.is_list for arg in op_def.inputs)
    ):
        _check_dtypes(op_def, values, attrs)
        return graph.create_op(op_def.name, values, attrs=attrs, name=name or op_def.name)
    with graph.name_scope(name or op_def.name) as scope:
        inputs: list[Tensor] = []
        for arg, value in zip(op_def.inputs, values):
            inputs.extend(_convert(op_def, arg, value, attrs))
        return graph.create_op(op_def.name, inputs, attrs=attrs, name=scope)


def _check_dtypes(op_def: OpDef, values: list[Tensor], attrs: dict[str, Any]) -> None:
    """Check dtypes of inputs against the op's and each other's.

    Raises TypeError naming the input where they differ.
    """
    inferred: dict[str, tuple[DType, str]] = {}
    for arg, tensor in zip(op_def.inputs, values):
        dtype = tensor.dtype.base_dtype
        if arg.type is not None:
            if dtype is not arg.type:
                raise TypeError(
                    f"Input '{arg.name}' of '{op_def.name}' Op has type {dtype.name} that does not "
                    f"match expected type of {arg.type.name}."
                )
            continue
        known = attrs.get(arg.type_attr)
        if known is not None and known is not dtype:
            raise TypeError(
                f"Input '{arg.name}' of '{op_def.name}' Op has type {dtype.name} that does not "
                f"match expected type of {known.name}."
            )
        first = inferred.setdefault(arg.type_attr, (dtype, arg.name))
        if first[0] is not dtype:
            raise TypeError(
                f"Input '{arg.name}' of '{op_def.name}' Op has type {dtype.name} that does not "
                f"match type {first[0].name} "
                f"of argument '{first[1]}'."
            )


def _convert(op_def: OpDef, arg: ArgDef, value: object, attrs: dict[str, Any]) -> list[Tensor]:
    if arg.is_list:
        return _convert_list(op_def, arg, value, attrs)
    dtype = arg.type if arg.type is not None else attrs.get(arg.type_attr)
    tensor = _one(op_def, arg, value, dtype, arg.name)
    if arg.type_attr and dtype is None:
        attrs[arg.type_attr] = tensor.dtype.base_dtype
    return [tensor]


def _one(op_def: OpDef, arg: ArgDef, value: object, dtype: DType | None, name: str) -> Tensor:
    hint = None
    if dtype is None and arg.type_attr:
        attr = op_def.attr_by_name[arg.type_attr]
        hint = attr.default if attr.has_default else None
    try:
        return convert_to_tensor(
            value, dtype=dtype, name=name, preferred_dtype=hint, as_ref=arg.is_ref
        )
    except (TypeError, ValueError) as error:
        if isinstance(value, Tensor) and dtype is not None:
            raise TypeError(
                f"Input '{arg.name}' of '{op_def.name}' Op has type {value.dtype.base_dtype.name} "
                "that does not match "
                f"expected type of {dtype.name}."
            ) from None
        if dtype is not None:
            raise TypeError(
                f"Expected {dtype.name} passed to parameter '{arg.name}' of op '{op_def.name}', "
                f"got {value!r} of type "
                f"'{type(value).__name__}' instead. Error: {error}"
            ) from error
        raise


def _convert_list(op_def: OpDef, arg: ArgDef, value: Any, attrs: dict[str, Any]) -> list[Tensor]:
    if not isinstance(value, (list, tuple)):
        raise TypeError(
            f"Expected list for '{arg.name}' argument to '{op_def.name}' Op, not {value!r}."
        )
    if arg.type_list_attr:
        types = attrs.get(arg.type_list_attr)
        if types is not None and len(types) != len(value):
            raise ValueError(
                f"{op_def.name} takes {len(types)} tensors as '{arg.name}', got {len(value)}"
            )
        out = [
            convert_to_tensor(
                item,
                dtype=None if types is None else types[i],
                name=f"{arg.name}_{i}",
                as_ref=arg.is_ref,
            )
            for i, item in enumerate(value)
        ]
        attrs.setdefault(arg.type_list_attr, tuple(t.dtype.base_dtype for t in out))
        return out
    number = attrs.setdefault(arg.number_attr, len(value))
    if number != len(value):
        raise ValueError(
            f"List argument '{arg.name}' to '{op_def.name}' Op with length {len(value)} must match "
            f"length {number} of argument."
        )
    dtype = arg.type if arg.type is not None else attrs.get(arg.type_attr)
    if dtype is None:  # the first tensor decides for the numbers around it
        for item in value:
            if isinstance(item, Tensor) or hasattr(item, "_as_graph_element"):
                dtype = as_dtype(item.dtype).base_dtype
                break
    out = []
    for i, item in enumerate(value):
        try:
            tensor = convert_to_tensor(item, dtype=dtype, name=f"{arg.name}_{i}", as_ref=arg.is_ref)
        except ValueError as error:
            found = [getattr(v, "dtype", type(v)) for v in value]
            raise TypeError(
                f"Tensors in list passed to '{arg.name}' of '{op_def.name}' Op have types {found} "
                "that don't all match."
            ) from error
        dtype = dtype or tensor.dtype.base_dtype
        out.append(tensor)
    if arg.type_attr and dtype is not None:
        attrs[arg.type_attr] = dtype
    return out


@cache
def _result_type(op_type: str) -> Any:
    op_def = registry.require(op_type)
    return namedtuple(op_type.lstrip("_"), [arg.name for arg in op_def.outputs], rename=True)


def outputs(op: Operation) -> Any:
    """Return a public function's result for an operation.

    It is the operation (no outputs), its tensor, a list, or a named tuple of them.
    """
    op_def = op.op_def
    if not op_def.outputs:
        return op
    ranges = arg_ranges(op_def.outputs, op._attrs)
    values = []
    for arg in op_def.outputs:
        first, last = ranges[arg.name]
        values.append(list(op.outputs[first:last]) if arg.is_list else op.outputs[first])
    if len(values) == 1:
        return values[0]
    return _result_type(op_def.name)(*values)


def call(op_type: str, name: str | None = None, **arguments: object) -> Any:
    """Add a node and return its outputs."""
    return outputs(create(op_type, name, **arguments))


def tensor(op_type: str, name: str | None = None, **arguments: object) -> Tensor:
    """Add a node of an op with one output and return that."""
    return create(op_type, name, **arguments).outputs[0]
