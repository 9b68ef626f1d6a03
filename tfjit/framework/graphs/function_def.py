"""FunctionGraph -> FunctionDef and FunctionDef -> FunctionGraph."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from tfjit.framework.errors import InvalidArgumentError, NotFoundError
from tfjit.framework.graphs.function_graph import FunctionGraph
from tfjit.framework.graphs.graph import Graph
from tfjit.framework.graphs.graph_def import import_graph_def
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs import attrs as attr_values
from tfjit.framework.op_defs.attrs import FuncRef
from tfjit.framework.op_defs.node_types import arg_dtypes, arg_ranges
from tfjit.framework.op_defs.op_def import OpDef
from tfjit.framework.types.dtypes import as_dtype
from tfjit.framework.types.shape import Shape, TensorShape, merge

_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9_]")
_NOT_ON_NODES: Final = ("_output_shapes",)


def to_function_def(graph: FunctionGraph, name: str) -> Any:
    """Return a body as a FunctionDef.

    Operations of its `must_run` are the control results.
    """
    from tfjit.protos import function_pb2

    message = function_pb2.FunctionDef()
    message.signature.name = name
    operations = graph.get_operations()
    message.signature.is_stateful = any(op.op_def.is_stateful for op in operations)
    taken = {op.name for op in operations}
    arguments: dict[Operation, str] = {}
    for i, tensor in enumerate(graph.inputs):
        argument = _unused(_signature_name(tensor.op.name, "arg"), taken)
        arguments[tensor.op] = argument
        message.signature.input_arg.add(name=argument, type=tensor.dtype.as_datatype_enum)
        if tensor.dtype.name != "resource":
            attr_values.fill_proto(message.arg_attr[i].attr["_output_shapes"], (tensor.shape,))
    ranges: dict[Operation, list[tuple[str, int, int]]] = {}

    def source(tensor: Tensor) -> str:
        op = tensor.op
        if op in arguments:
            return arguments[op]
        if op not in ranges:
            ranges[op] = [
                (arg, first, last)
                for arg, (first, last) in arg_ranges(op.op_def.outputs, op.attrs).items()
            ]
        output = tensor.value_index
        for arg, first, last in ranges[op]:
            if first <= output < last:
                return f"{op.name}:{arg}:{output - first}"
        raise AssertionError(f"{tensor} is no output of its operation")

    for op in operations:
        if op in arguments:
            continue
        node = message.node_def.add()
        op.fill_node_def(node)
        del node.input[:]
        node.input.extend(source(tensor) for tensor in op.inputs)
        node.input.extend(
            sorted(f"^{arguments.get(other, other.name)}" for other in set(op.control_inputs))
        )
        for attr in _NOT_ON_NODES:
            node.attr.pop(attr, None)
    results: set[str] = set()
    for tensor in graph.outputs:
        result = _unused(_signature_name(tensor.op.name, "result"), results)
        message.signature.output_arg.add(name=result, type=tensor.dtype.base_dtype.as_datatype_enum)
        message.ret[result] = source(tensor)
    for op in graph.must_run:
        message.signature.control_output.append(op.name)
        message.control_ret[op.name] = op.name
    for key, value in graph.attrs.items():
        attr_values.fill_proto(message.attr[key], value)
    return message


def _signature_name(name: str, start: str) -> str:
    """Return a name that signatures allow.

    Such a name is lower case, with digits and underscores behind a letter.
    """
    name = _NOT_IN_NAMES.sub("_", name.lower())
    return name if name[:1].isalpha() else f"{start}_{name.lstrip('_')}"


def _unused(name: str, taken: set[str]) -> str:
    made, count = name, 0
    while made in taken:
        count += 1
        made = f"{name}_{count}"
    taken.add(made)
    return made


def from_function_def(
    ref: FuncRef, outer_graph: Graph, shapes: Sequence[Shape] | None = None
) -> FunctionGraph:
    """Return a new body for `ref`, from `outer_graph`'s library.

    shapes: of the arguments, of which the FunctionDef may know less. The control results are the
    body's `must_run`. Raises NotFoundError for a function that is not in the library,
    InvalidArgumentError for one whose definition does not fit its attrs.
    """
    message = outer_graph.functions.get(ref.name)
    if message is None:
        raise NotFoundError(None, None, f"Function {ref.name} is not defined.")
    return _Body(message, ref, outer_graph, shapes).made()


class _Body:
    """Conversion of one FunctionDef to a graph.

    Inputs of its nodes are given the names that a GraphDef has for them.
    """

    def __init__(
        self, message: Any, ref: FuncRef, outer_graph: Graph, shapes: Sequence[Shape] | None
    ) -> None:
        from tfjit.protos import graph_pb2

        self.message, self.ref, self.outer, self.shapes = message, ref, outer_graph, shapes
        signature = OpDef.from_proto(message.signature)
        self.signature = signature
        self.attrs: dict[str, Any] = {
            attr.name: attr.default for attr in signature.attrs if attr.has_default
        }
        self.attrs.update(ref.attrs)
        # input name in the FunctionDef -> inputs in the GraphDef
        self.names: dict[str, list[str]] = {}
        self.graph_def = graph_pb2.GraphDef()
        self.graph_def.versions.producer = outer_graph._producer

    def made(self) -> FunctionGraph:
        graph = FunctionGraph(self.ref.name, self.outer)
        graph.seed = None
        arguments = self._arguments()
        for node in self.message.node_def:
            self._learn_outputs(node)
        for node in self.message.node_def:
            added = self.graph_def.node.add()
            added.MergeFrom(node)
            for value in added.attr.values():
                self._bind(value)
            if "_class" in added.attr:
                self._keep_inside(added)
            del added.input[:]
            for text in node.input:
                added.input.extend([text] if text.startswith("^") else self._find(text))
        with graph._free_of_blocks():
            import_graph_def(self.graph_def, name="", graph=graph, scopes_take_names=False)
        graph.inputs = [graph._by_name[name].outputs[0] for name in arguments]
        for arg in self.signature.outputs:
            for text in self._find(self.message.ret[arg.name]):
                graph.outputs.append(graph.get_tensor_by_name(text if ":" in text else text + ":0"))
        graph.structured_outputs = list(graph.outputs)
        graph.attrs = {
            key: attr_values.from_proto(value) for key, value in self.message.attr.items()
        }
        graph.must_run = [graph._by_name[name] for name in self.message.control_ret.values()]
        return graph

    def _arguments(self) -> list[str]:
        """Return the placeholders for the arguments: their names."""
        names: list[str] = []
        for position, arg in enumerate(self.signature.inputs):
            dtypes = arg_dtypes(arg, self.attrs)
            mine = [f"{arg.name}_{i}" for i in range(len(dtypes))] if arg.is_list else [arg.name]
            declared: Sequence[Shape] = ()
            if (
                position in self.message.arg_attr
                and "_output_shapes" in self.message.arg_attr[position].attr
            ):
                found = attr_values.from_proto(
                    self.message.arg_attr[position].attr["_output_shapes"]
                )
                declared = [shape.dims_tuple for shape in found]
            for i, (name, dtype) in enumerate(zip(mine, dtypes, strict=True)):
                shape = declared[i] if i < len(declared) else None
                if self.shapes is not None and len(names) < len(self.shapes):
                    shape = merge(shape, self.shapes[len(names)])
                node = self.graph_def.node.add(name=name, op="Placeholder")
                attr_values.fill_proto(node.attr["dtype"], as_dtype(dtype))
                attr_values.fill_proto(node.attr["shape"], TensorShape(shape))
                names.append(name)
            self._define(arg.name, mine)
        return names

    def _define(self, key: str, names: list[str]) -> None:
        self.names[key] = names
        for i, name in enumerate(names):
            self.names[f"{key}:{i}"] = [name]

    def _learn_outputs(self, node: Any) -> None:
        op_def = self.outer.op_def_of(node.op, node.name)
        attrs: dict[str, Any] = {
            attr.name: attr.default for attr in op_def.attrs if attr.has_default
        }
        for name, value in node.attr.items():
            if name in op_def.attr_by_name:
                bound = type(value).FromString(value.SerializeToString())
                self._bind(bound)
                attrs[name] = attr_values.from_proto(bound)
        for arg, (first, last) in arg_ranges(op_def.outputs, attrs).items():
            self._define(
                f"{node.name}:{arg}", [f"{node.name}:{output}" for output in range(first, last)]
            )

    def _find(self, text: str) -> list[str]:
        found = self.names.get(text)
        if found is None:
            raise InvalidArgumentError(
                None, None, f"Function '{self.ref.name}': there is no '{text}' in it"
            )
        return found

    def _keep_inside(self, node: Any) -> None:
        groups = node.attr["_class"].list.s
        names = {other.name for other in self.message.node_def}
        inside = [
            group
            for group in groups
            if not group.startswith(b"loc:@") or group[5:].decode() in names
        ]
        del groups[:]
        groups.extend(inside)
        if not inside:
            del node.attr["_class"]

    def _bind(self, value: Any) -> None:
        """Put the values of the function's attrs into an AttrValue."""
        kind = value.WhichOneof("value")
        if kind == "placeholder":
            if value.placeholder not in self.attrs:
                raise InvalidArgumentError(
                    None,
                    None,
                    f"Attr {value.placeholder} is not found in function '{self.ref.name}'",
                )
            value.CopyFrom(attr_values.to_proto(self.attrs[value.placeholder]))
        elif kind == "func":
            for inner in value.func.attr.values():
                self._bind(inner)
        elif kind == "list":
            for func in value.list.func:
                for inner in func.attr.values():
                    self._bind(inner)
