"""Define OpDef, the contract of an op type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tfjit.framework.op_defs import attrs as attr_values
from tfjit.framework.op_defs import op_spec, op_traits
from tfjit.framework.types import dtypes
from tfjit.framework.types.dtypes import DType


class _NoDefault:
    def __repr__(self) -> str:
        return "NO_DEFAULT"


NO_DEFAULT: Final = _NoDefault()


@dataclass(frozen=True, slots=True)
class ArgDef:
    """An input or output of an op.

    Its type is fixed, a type attr, a number (number_attr) of one type, or a list of types.
    """

    name: str
    type: DType | None = None
    type_attr: str = ""
    number_attr: str = ""
    type_list_attr: str = ""
    is_ref: bool = False
    # serialized FullTypeDef of a variant's content; carried, not interpreted
    full_type: bytes = b""

    @property
    def is_list(self) -> bool:
        """Return whether the arg is a list of tensors."""
        return bool(self.number_attr or self.type_list_attr)


@dataclass(frozen=True, slots=True)
class AttrDef:
    """An attr of an op.

    Values are in their Python form; `minimum` bounds an int or a list's length.
    """

    name: str
    type: str
    default: Any = NO_DEFAULT
    minimum: int | None = None
    allowed: tuple[Any, ...] = ()

    @property
    def has_default(self) -> bool:
        """Return whether a node may leave the attr out."""
        return self.default is not NO_DEFAULT


@dataclass(frozen=True, slots=True)
class OpDef:
    """The contract of an op type; immutable and shared by all nodes.

    traits: bits of op_traits.py, with the bits that follow from the declared ones. TensorFlow's
    message has no field for them.
    """

    name: str
    inputs: tuple[ArgDef, ...] = ()
    outputs: tuple[ArgDef, ...] = ()
    attrs: tuple[AttrDef, ...] = ()
    is_stateful: bool = False
    is_commutative: bool = False
    is_aggregate: bool = False
    allows_uninitialized_input: bool = False
    deprecated: tuple[int, str] | None = None
    control_outputs: tuple[str, ...] = ()
    is_distributed_communication: bool = False
    traits: int = field(default=0, compare=False, repr=False)
    attr_by_name: Mapping[str, AttrDef] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "attr_by_name", {attr.name: attr for attr in self.attrs})
        object.__setattr__(self, "traits", op_traits.completed(self.traits, self.is_stateful))

    def __hash__(self) -> int:
        return hash(self.name)

    def attr(self, name: str) -> AttrDef | None:
        """Return the attr's definition, or None."""
        return self.attr_by_name.get(name)

    def is_speculatable(self, dtype: DType | None) -> bool:
        """Tell whether a node over that dtype may run without need."""
        if self.traits & op_traits.SPECULATABLE:
            return True
        fails = self.traits & op_traits.FAILS_ON_INTEGERS
        return bool(fails) and dtype is not None and not dtype.is_integer

    def to_proto(self) -> Any:
        """Return TensorFlow's OpDef message of this op, without descriptions."""
        from tfjit.protos import op_def_pb2

        proto = op_def_pb2.OpDef(
            name=self.name,
            is_stateful=self.is_stateful,
            is_commutative=self.is_commutative,
            is_aggregate=self.is_aggregate,
            allows_uninitialized_input=self.allows_uninitialized_input,
            control_output=self.control_outputs,
            is_distributed_communication=self.is_distributed_communication,
        )
        for args, messages in ((self.inputs, proto.input_arg), (self.outputs, proto.output_arg)):
            for arg in args:
                message = messages.add(
                    name=arg.name,
                    type=arg.type.as_datatype_enum if arg.type is not None else 0,
                    type_attr=arg.type_attr,
                    number_attr=arg.number_attr,
                    type_list_attr=arg.type_list_attr,
                    is_ref=arg.is_ref,
                )
                if arg.full_type:
                    message.experimental_full_type.MergeFromString(arg.full_type)
        for attr in self.attrs:
            definition = proto.attr.add(name=attr.name, type=attr.type)
            if attr.has_default:
                definition.default_value.SetInParent()
                attr_values.fill_proto(definition.default_value, attr.default)
            if attr.minimum is not None:
                definition.has_minimum = True
                definition.minimum = attr.minimum
            if attr.allowed:
                attr_values.fill_proto(definition.allowed_values, attr.allowed)
        if self.deprecated is not None:
            proto.deprecation.version, proto.deprecation.explanation = self.deprecated
        return proto

    @classmethod
    def from_proto(cls, proto: Any) -> OpDef:
        """Return the OpDef of a message of any package."""
        return cls(
            name=proto.name,
            inputs=tuple(_arg_from_proto(arg) for arg in proto.input_arg),
            outputs=tuple(_arg_from_proto(arg) for arg in proto.output_arg),
            attrs=tuple(
                AttrDef(
                    attr.name,
                    attr.type,
                    attr_values.from_proto(attr.default_value)
                    if attr.HasField("default_value")
                    else NO_DEFAULT,
                    attr.minimum if attr.has_minimum else None,
                    attr_values.from_proto(attr.allowed_values)
                    if attr.HasField("allowed_values")
                    else (),
                )
                for attr in proto.attr
            ),
            is_stateful=proto.is_stateful,
            is_commutative=proto.is_commutative,
            is_aggregate=proto.is_aggregate,
            allows_uninitialized_input=proto.allows_uninitialized_input,
            deprecated=(proto.deprecation.version, proto.deprecation.explanation)
            if proto.HasField("deprecation")
            else None,
            control_outputs=tuple(proto.control_output),
            is_distributed_communication=proto.is_distributed_communication,
        )

    def summary(self) -> str:
        """Return the op as TensorFlow writes it in messages.

        An example is "Op<name=Sin; signature=x:T -> y:T; attr=T:type,allowed=[...]>".
        """

        def args(defs: Iterable[ArgDef]) -> str:
            out = []
            for arg in defs:
                text = (
                    arg.type_list_attr
                    or arg.type_attr
                    or (dtypes.short_name(arg.type) if arg.type is not None else "")
                )
                if arg.number_attr:
                    text = f"{arg.number_attr}*{text}"
                out.append(f"{arg.name}:" + (f"Ref({text})" if arg.is_ref else text))
            return ", ".join(out)

        text = f"Op<name={self.name}; signature={args(self.inputs)} -> {args(self.outputs)}"
        for attr in self.attrs:
            text += f"; attr={attr.name}:{attr.type}"
            if attr.has_default:
                text += f",default={attr_values.summarize(attr.default)}"
            if attr.minimum is not None:
                text += f",min={attr.minimum}"
            if attr.allowed:
                text += f",allowed={attr_values.summarize(attr.allowed)}"
        for flag in ("is_commutative", "is_aggregate", "is_stateful", "allows_uninitialized_input"):
            if getattr(self, flag):
                text += f"; {flag}=true"
        return text + ">"


def _arg_from_proto(arg: Any) -> ArgDef:
    return ArgDef(
        arg.name,
        dtypes.as_dtype(arg.type) if arg.type else None,
        arg.type_attr,
        arg.number_attr,
        arg.type_list_attr,
        arg.is_ref,
        arg.experimental_full_type.SerializeToString(deterministic=True)
        if arg.HasField("experimental_full_type")
        else b"",
    )


def define_op(
    name: str,
    inputs: Iterable[str] = (),
    outputs: Iterable[str] = (),
    attrs: Iterable[str] = (),
    *,
    stateful: bool = False,
    commutative: bool = False,
    aggregate: bool = False,
    allows_uninitialized_input: bool = False,
    deprecated: tuple[int, str] | None = None,
    traits: int = 0,
) -> OpDef:
    """Return an op type from specs that are TensorFlow's own (see op_spec.py).

    Raises SpecError, TypeError for a string in place of specs.
    """
    for what in (inputs, outputs, attrs):
        if isinstance(what, str):
            raise TypeError(
                f"register_op({name!r}): specs come as a tuple, got the string {what!r}"
            )
    try:
        attr_defs = tuple(AttrDef(**op_spec.parse_attr(spec)) for spec in attrs)
        kinds = {attr.name: attr.type for attr in attr_defs}
        if len(kinds) != len(attr_defs):
            raise op_spec.SpecError("an attr is defined twice")
        return OpDef(
            name,
            tuple(ArgDef(**op_spec.parse_arg(spec, kinds)) for spec in inputs),
            tuple(ArgDef(**op_spec.parse_arg(spec, kinds)) for spec in outputs),
            attr_defs,
            stateful,
            commutative,
            aggregate,
            allows_uninitialized_input,
            deprecated,
            traits=traits,
        )
    except op_spec.SpecError as error:
        raise op_spec.SpecError(f"register_op({name!r}): {error}") from None
