"""Plan the nodes of a replacement before the graph changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tfjit.framework.errors import InvalidArgumentError, OpError
from tfjit.framework.op_defs import attrs as attr_forms
from tfjit.framework.op_defs import node_types, op_registry
from tfjit.framework.op_defs.op_def import OpDef
from tfjit.framework.op_defs.op_registry import registry
from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.framework.types.dtypes import DType, as_dtype
from tfjit.framework.types.shape import Shape
from tfjit.passes.manager.rewriter import constant, tensor_dtype, tensor_shape
from tfjit.passes.patterns.bound import Bound
from tfjit.passes.patterns.expressions import Attr, AttrValue, Constant, Op, Tensor, Value, node_of
from tfjit.passes.patterns.literals import Literal, cast, text_of
from tfjit.passes.patterns.matcher import CompiledPattern
from tfjit.passes.patterns.steps import State

Source = Any
"""A tensor, (planned node, output), an array or a literal."""


@dataclass(slots=True, eq=False)
class PlannedNode:
    """A node that a replacement adds.

    inputs: tensors of the graph, outputs of planned nodes, or values of new constants.
    """

    op_def: OpDef
    inputs: list[Source]
    attrs: dict[str, AttrValue]
    dtypes: tuple[DType, ...]
    shapes: tuple[Shape, ...]

    @property
    def reads_state(self) -> bool:
        """Return whether the time at which the node runs may matter."""
        return self.op_def.is_stateful


@dataclass(slots=True)
class Plan:
    """A replacement over the tensors of one match.

    result: in the place of the root's output 0. nodes: those to add, inputs first. kept: tensors of
    the graph that the replacement reads.
    """

    result: Source = None
    nodes: list[PlannedNode] = field(default_factory=list)
    kept: set[tuple[str, int]] = field(default_factory=set)


def make_plan(replacement: Value, pattern: CompiledPattern, state: State) -> Plan:
    """Return the plan of a replacement for a match.

    Raises InvalidArgumentError for inputs and attrs that do not fit an op.
    """
    return _Planner(pattern, state).plan(replacement)


class _Planner:
    def __init__(self, pattern: CompiledPattern, state: State) -> None:
        self.pattern, self.state = pattern, state
        self.made = Plan()
        self.planned: dict[int, PlannedNode] = {}

    def plan(self, replacement: Value) -> Plan:
        result = self.source(replacement)
        if isinstance(result, Constant):
            dtype = self.state.node.output_dtypes[0].base_dtype
            result = _literal(result.value, dtype)
        self.made.result = result
        return self.made

    def source(self, value: Value) -> Source:
        """Return the source of an expression's tensor."""
        found = node_of(value)
        node, output = found if found else (None, 0)
        slot = self.pattern.slot_of(value)
        if slot is not None or isinstance(value, Bound):
            if isinstance(value, Bound):
                tensor = (value.node, value.output)
            else:
                assert slot is not None
                tensor = self.state.tensors[slot]
                if node is not None:
                    tensor = (tensor[0], output)
            if tensor[0] == self.state.node.name:
                raise InvalidArgumentError(None, None, "the replacement uses the root itself")
            self.made.kept.add(tensor)
            return tensor
        if node is not None:
            planned = self.planned.get(id(node))
            if planned is None:
                planned = self.planned[id(node)] = self.node(node)
                self.made.nodes.append(planned)
            if output >= len(planned.dtypes):
                raise InvalidArgumentError(
                    None, None, f"{node.kind} has no output {output} in the replacement"
                )
            return planned, output
        if isinstance(value, Constant) and value.value is not None:
            return value.value if isinstance(value.value, np.ndarray) else value
        raise InvalidArgumentError(None, None, f"the pattern does not bind '{value}'")

    def node(self, value: Op) -> PlannedNode:
        name = value.kind.name
        op_type = self.state.types[name] if name else value.kind.types[0]
        op_def = registry.require(op_type)
        attrs = self.attrs(value, op_def)
        inputs = [self.source(child) for child in value.inputs]
        known = [self.dtype(source) for source in inputs]
        for index, source in enumerate(inputs):
            if isinstance(source, Constant):
                dtype = wanted_dtype(op_def, index, known, attrs, self.state.node.output_dtypes[0])
                inputs[index], known[index] = _literal(source.value, dtype), dtype
        dtypes_in = [dtype for dtype in known if dtype is not None]
        attrs = node_types.complete_attrs(op_def, attrs, dtypes_in)
        for attr in op_def.attrs:
            attr_forms.check(attrs[attr.name], attr)
        wanted = node_types.input_dtypes(op_def, attrs)
        if [dtype.base_dtype for dtype in wanted] != [dtype.base_dtype for dtype in dtypes_in]:
            raise InvalidArgumentError(
                None,
                None,
                f"{op_type} takes {_names(wanted)}, the replacement gives {_names(dtypes_in)}",
            )
        dtypes = node_types.output_dtypes(op_def, attrs)
        context = ShapeContext(
            op_type,
            self.state.node.name,
            attrs,
            [self.shape(source) for source in inputs],
            dtypes_in,
            constant=lambda index: self.value(inputs[index]),
            num_outputs=len(dtypes),
        )
        try:
            shapes = op_registry.infer_shapes(context, op_def)
        except OpError as error:
            raise InvalidArgumentError(None, None, f"{op_type}: {error.message}") from error
        return PlannedNode(op_def, inputs, attrs, dtypes, tuple(shapes))

    def attrs(self, value: Op, op_def: OpDef) -> dict[str, AttrValue]:
        """Return the attrs that the replacement gives a node, in Python form."""
        attrs: dict[str, AttrValue] = {}
        if value.attrs_of:
            like = self.state.op_node(self.pattern.names[value.attrs_of])
            attrs = {name: found for name, found in like.attrs.items() if op_def.attr(name)}
        for name, given in value.attrs.items():
            declared = op_def.attr(name)
            if declared is None:
                raise InvalidArgumentError(None, None, f"{op_def.name} has no attr '{name}'")
            if isinstance(given, Attr):
                attrs[name] = self.state.attrs[given.name]
            else:
                attrs[name] = attr_forms.convert(given, declared.type, name, op_def.name)
        return attrs

    # ---- facts of a source

    def dtype(self, source: Source) -> DType | None:
        if isinstance(source, np.ndarray):
            return as_dtype(source.dtype)
        if isinstance(source, Tensor):
            return None  # of a literal: follows from the op
        if isinstance(source[0], PlannedNode):
            return source[0].dtypes[source[1]]
        return tensor_dtype(self.state.graph, *source)

    def shape(self, source: Source) -> Shape:
        if isinstance(source, np.ndarray):
            return source.shape
        if isinstance(source[0], PlannedNode):
            return source[0].shapes[source[1]]
        return tensor_shape(self.state.graph, *source)

    def value(self, source: Source) -> np.ndarray | None:
        if isinstance(source, np.ndarray):
            return source
        if isinstance(source[0], PlannedNode):
            return None
        return constant(self.state.graph, self.state.ctx, *source)


def type_attrs(op_def: OpDef, count: int) -> list[tuple[str, DType | None]]:
    """Return (type attr, fixed dtype) of each of `count` inputs."""
    lists = [arg for arg in op_def.inputs if arg.is_list]
    each = (count - (len(op_def.inputs) - len(lists))) // len(lists) if lists else 0
    found: list[tuple[str, DType | None]] = []
    for arg in op_def.inputs:
        found += [(arg.type_attr, arg.type)] * (each if arg.is_list else 1)
    return found


def wanted_dtype(
    op_def: OpDef,
    index: int,
    known: Sequence[DType | None],
    attrs: Mapping[str, AttrValue],
    otherwise: DType,
) -> DType:
    """Return the dtype of a literal input.

    It follows from the attrs, or else from the other inputs.
    """
    args = type_attrs(op_def, len(known))
    name, fixed = args[index] if index < len(args) else ("", None)
    if fixed is not None:
        return fixed
    if name in attrs:
        found: DType = attrs[name]
        return found
    for (other, _), dtype in zip(args, known, strict=False):
        if other == name and dtype is not None:
            return dtype.base_dtype
    declared = op_def.attr(name)
    if declared is not None and declared.has_default:
        default: DType = declared.default
        return default
    return otherwise.base_dtype


def _literal(value: Literal, dtype: DType) -> np.ndarray:
    made = cast(value, np.dtype(dtype.as_numpy_dtype))
    if made is None:
        raise InvalidArgumentError(
            None, None, f"the replacement's constant {text_of(value)} is no {dtype.name}"
        )
    return made


def _names(dtypes: Sequence[DType]) -> str:
    return f"({', '.join(dtype.name for dtype in dtypes)})"
