"""OpDef and the registry of op types with their shape functions.

Attrs and dtypes of a node follow from its OpDef.
"""

from __future__ import annotations

import importlib
import platform
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tfjit.framework.errors import (
    InternalError,
    InvalidArgumentError,
    InvalidGraphError,
    NotFoundError,
    OpError,
)
from tfjit.framework.op_defs import attrs as attr_values
from tfjit.framework.op_defs import op_spec, op_traits
from tfjit.framework.op_defs.shape_context import ShapeContext as ShapeContext
from tfjit.framework.op_defs.shape_context import keeps_equal_shapes
from tfjit.framework.types import dtypes
from tfjit.framework.types.dtypes import DType
from tfjit.framework.types.shape import Shape


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


def infer_outputs(
    op_def: OpDef, attrs: Mapping[str, Any], dtypes_in: Sequence[DType]
) -> tuple[DType, ...]:
    """Return output dtypes of a node from attrs and input dtypes.

    Defaults and type attrs may be left out.
    """
    return output_dtypes(op_def, complete_attrs(op_def, attrs, dtypes_in))


ShapeFn = Callable[[ShapeContext], Sequence[Shape]]


@dataclass(frozen=True, slots=True)
class OpFamily:
    """A module of `tfjit.ops`.

    subject: its docstring's first line. instead: advice for an op of the family without kernel, or
    "".
    """

    name: str
    subject: str
    instead: str


class OpRegistry:
    """Op type -> OpDef and shape function."""

    def __init__(self) -> None:
        self._ops: dict[str, OpDef] = {}
        self._shape_fns: dict[str, ShapeFn] = {}
        self._families: dict[str, str] = {}
        self._equal_shapes: set[str] = set()
        # op families not imported yet; None before the list was read
        self._unread: tuple[str, ...] | None = None
        self._load_lock = threading.RLock()

    def register(self, op_def: OpDef, shape: ShapeFn | None = None, family: str = "") -> None:
        """Add an op.

        Raises ValueError when its type is registered with another definition.

        family: the module of `tfjit.ops` that declares it, "" for an op of the user's.
        """
        known = self._ops.get(op_def.name)
        if known is not None and known != op_def:
            raise ValueError(f"Op type {op_def.name} is registered with another definition")
        self._ops[op_def.name] = op_def
        if family:
            self._families[op_def.name] = family
        if shape is not None:
            self._shape_fns[op_def.name] = shape
            if keeps_equal_shapes(shape):
                self._equal_shapes.add(op_def.name)

    def unregister(self, op_type: str) -> None:
        """Forget an op type, if it is registered.

        Graphs that use it keep their nodes.
        """
        self._ops.pop(op_type, None)
        self._shape_fns.pop(op_type, None)
        self._families.pop(op_type, None)
        self._equal_shapes.discard(op_type)

    def lookup(self, op_type: str) -> OpDef | None:
        """Return the op's definition, or None."""
        found = self._ops.get(op_type)
        if found is None and self._unread != ():
            self._load(op_type)
            found = self._ops.get(op_type)
        return found

    def _load(self, op_type: str = "") -> None:
        """Import op families until one defines `op_type`, or all.

        A thousand definitions cost more than a small graph.
        """
        with self._load_lock:
            if self._unread is None:
                self._unread = importlib.import_module("tfjit.ops.core.families").FAMILIES
            while self._unread and op_type not in self._ops:
                family = self._unread[0]
                importlib.import_module(f"tfjit.ops.{family}")
                # by name: importing a family may look an op up, and so come here again
                self._unread = tuple(name for name in self._unread if name != family)

    def require(self, op_type: str, node_name: str = "") -> OpDef:
        """Return the op's definition. Raises NotFoundError for unknown types."""
        found = self.lookup(op_type)
        if found is None:
            where = f", needed by node '{node_name}'" if node_name else ""
            raise NotFoundError(
                None,
                None,
                f"Op type not registered '{op_type}' in binary running on {platform.node()}. "
                f"tfjit knows {len(self._ops)} op types and '{op_type}' is none of them{where}.",
            )
        return found

    def has_trait(self, op_type: str, traits: int) -> bool:
        """Tell whether an op type has one of these traits.

        A type without definition has none.
        """
        found = self._ops.get(op_type)
        # The name of a fused group or loop has an underscore and no definition. The ops whose names
        # have one are made by passes, which import their families.
        if found is None and not op_type.startswith("_"):
            found = self.lookup(op_type)
        return found is not None and found.traits & traits != 0

    def loaded_traits(self, op_type: str) -> int:
        """Return the traits of a node's op type.

        The family of a node's type is imported. Fused groups and calls by a function's name have no
        definition and no traits; no family is imported to find that out.
        """
        found = self._ops.get(op_type)
        return found.traits if found is not None else 0

    def shape_fn(self, op_type: str) -> ShapeFn | None:
        """Return the op's shape function, or None."""
        return self._shape_fns.get(op_type)

    def family_name(self, op_type: str) -> str:
        """Return the module of `tfjit.ops` that declares the op.

        "" for an op of the user's, and for a type that is not registered.
        """
        known = op_type in self._ops or self.lookup(op_type) is not None
        return self._families.get(op_type, "") if known else ""

    def family(self, op_type: str) -> OpFamily | None:
        """Return the family that declares the op, or None."""
        name = self.family_name(op_type)
        if not name:
            return None
        module = importlib.import_module(f"tfjit.ops.{name}")
        subject = (module.__doc__ or name).strip().splitlines()[0].rstrip(".")
        return OpFamily(name, subject[0].lower() + subject[1:], getattr(module, "INSTEAD", ""))

    def equal_shape(self, op_type: str, inputs: Sequence[Shape]) -> Shape:
        """Return the output shape of an elementwise op with equal inputs.

        None for other ops, and for inputs of unknown or different shapes. Most nodes of most graphs
        need no more of the shape function than that.
        """
        if not inputs or op_type not in self._equal_shapes:
            return None
        first = inputs[0]
        if first is None or None in first:
            return None
        for other in inputs:
            if other is not first and other != first:
                return None
        return first

    def list(self) -> tuple[OpDef, ...]:
        """Return every op, by name."""
        self._load()
        ops = self._ops.copy()  # in one step: other threads register and unregister
        return tuple(ops[name] for name in sorted(ops))

    def __contains__(self, op_type: str) -> bool:
        return self.lookup(op_type) is not None

    def __iter__(self) -> Iterator[str]:
        self._load()
        return iter(self._ops.copy())

    def __len__(self) -> int:
        self._load()
        return len(self._ops)


registry: Final = OpRegistry()


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


def register_op(
    name: str,
    inputs: Iterable[str] = (),
    outputs: Iterable[str] = (),
    attrs: Iterable[str] = (),
    shape: ShapeFn | None = None,
    **flags: Any,
) -> OpDef:
    """Define an op and add it to the registry."""
    op_def = define_op(name, inputs, outputs, attrs, **flags)
    registry.register(op_def, shape)
    return op_def


def infer_shapes(context: ShapeContext, op_def: OpDef) -> list[Shape]:
    """Return output shapes by the shape function; unknown without one.

    Raises InvalidGraphError (also a ValueError) with the node, its attrs and input shapes in the
    message.
    """
    shape_fn = registry.shape_fn(op_def.name)
    if shape_fn is None:
        return [None] * context.num_outputs
    try:
        shapes = list(shape_fn(context))
    except (OpError, ValueError) as error:
        if isinstance(error, OpError) and not isinstance(error, InvalidArgumentError):
            raise
        message = error.message if isinstance(error, OpError) else str(error)
        raise InvalidGraphError(None, None, f"{message}{context.where()}") from None
    if len(shapes) != context.num_outputs:
        raise InternalError(
            None,
            None,
            f"the shape function of {op_def.name} gave {len(shapes)} shapes for "
            f"{context.num_outputs} outputs of '{context.name}'",
        )
    return shapes
