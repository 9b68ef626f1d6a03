"""Infer dtypes and attrs of nodes from their op types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tfjit.framework.errors import InvalidArgumentError
from tfjit.framework.op_defs import attrs as attr_values
from tfjit.framework.op_defs.op_def import NO_DEFAULT, ArgDef, OpDef
from tfjit.framework.types import dtypes
from tfjit.framework.types.dtypes import DType


def arg_dtypes(arg: ArgDef, attrs: Mapping[str, Any]) -> tuple[DType, ...]:
    """Return an arg's dtypes, reference types included.

    Raises KeyError for a missing attr.
    """
    if arg.type_list_attr:
        types = attrs[arg.type_list_attr]
        return tuple(t._as_ref for t in types) if arg.is_ref else tuple(types)
    dtype = arg.type if arg.type is not None else attrs[arg.type_attr]
    if arg.is_ref:
        dtype = dtype._as_ref
    return (dtype,) * attrs[arg.number_attr] if arg.number_attr else (dtype,)


def input_dtypes(op_def: OpDef, attrs: Mapping[str, Any]) -> tuple[DType, ...]:
    """Return the dtypes that a node with these attrs takes."""
    return _flat_dtypes(op_def.inputs, attrs)


def output_dtypes(op_def: OpDef, attrs: Mapping[str, Any]) -> tuple[DType, ...]:
    """Return the dtypes that a node with these attrs gives."""
    return _flat_dtypes(op_def.outputs, attrs)


def _flat_dtypes(args: tuple[ArgDef, ...], attrs: Mapping[str, Any]) -> tuple[DType, ...]:
    if len(args) == 1:
        return arg_dtypes(args[0], attrs)
    out: list[DType] = []
    for arg in args:
        out.extend(arg_dtypes(arg, attrs))
    return tuple(out)


def arg_ranges(args: tuple[ArgDef, ...], attrs: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    """Return each arg's range in the flat list of tensors.

    The result is name -> (first, past last).
    """
    ranges: dict[str, tuple[int, int]] = {}
    position = 0
    for arg in args:
        end = position + len(arg_dtypes(arg, attrs))
        ranges[arg.name] = (position, end)
        position = end
    return ranges


def complete_attrs(
    op_def: OpDef, given: Mapping[str, Any], dtypes_in: Sequence[DType]
) -> dict[str, Any]:
    """Return all attrs of a node: given, inferred, then defaults.

    Given attrs are in Python form, others follow from the inputs' dtypes. Undeclared attrs are
    kept, as `_class` is. Raises InvalidArgumentError for inputs that contradict each other or the
    attrs, and for an attr that no input or default determines.
    """
    out = dict(given)
    position = 0
    count = len(dtypes_in)
    args = op_def.inputs
    for index, arg in enumerate(args):
        if arg.number_attr:
            number = out.get(arg.number_attr)
            if number is None:
                number = out[arg.number_attr] = _count_left(args, index, out, count - position)
            here = dtypes_in[position : position + number]
            position += number
            if arg.type_attr:
                for dtype in here:
                    _settle(out, op_def, arg, dtype.base_dtype)
        elif arg.type_list_attr:
            types = out.get(arg.type_list_attr)
            if types is None:
                number = _count_left(args, index, out, count - position)
                types = out[arg.type_list_attr] = tuple(
                    d.base_dtype for d in dtypes_in[position : position + number]
                )
            position += len(types)
        else:
            if position < count and arg.type_attr:
                _settle(out, op_def, arg, dtypes_in[position].base_dtype)
            position += 1
    for attr in op_def.attrs:
        if attr.name not in out:
            if attr.default is NO_DEFAULT:
                missing = [a.name for a in op_def.attrs if a.name not in out and not a.has_default]
                names = ", ".join(f"'{name}'" for name in missing)
                raise InvalidArgumentError(
                    None,
                    None,
                    f"NodeDef missing attr{'s' if len(missing) > 1 else ''} {names} from "
                    f"{op_def.summary()}",
                )
            out[attr.name] = attr.default
    return out


def _settle(out: dict[str, Any], op_def: OpDef, arg: ArgDef, dtype: DType) -> None:
    known = out.get(arg.type_attr)
    if known is None:
        out[arg.type_attr] = dtype
    elif known is not dtype:
        raise InvalidArgumentError(
            None,
            None,
            f"Inconsistent values for attr '{arg.type_attr}' {dtypes.enum_name(dtype)} vs. "
            f"{attr_values.summarize(known)}"
            f" while building NodeDef using {op_def.summary()}",
        )


def _count_left(args: tuple[ArgDef, ...], index: int, attrs: Mapping[str, Any], left: int) -> int:
    """Return the number of remaining inputs of list arg `index`.

    The later args must be of known length.
    """
    for arg in args[index + 1 :]:
        if arg.number_attr and arg.number_attr != args[index].number_attr:
            left -= attrs.get(arg.number_attr, 0)
        elif arg.type_list_attr:
            left -= len(attrs.get(arg.type_list_attr, ()))
        elif not arg.number_attr:
            left -= 1
    same = sum(
        1 for arg in args[index:] if arg.number_attr and arg.number_attr == args[index].number_attr
    )
    return max(0, left // max(1, same))
