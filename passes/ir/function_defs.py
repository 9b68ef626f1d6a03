"""Convert between function bodies and FunctionDefs.

A FunctionDef is instantiated for its attrs, and a body is written as a FunctionDef.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from tfjit.framework.errors import InvalidArgumentError, OpError
from tfjit.framework.graphs import graph as framework_graph
from tfjit.framework.graphs.graph_def import import_graph_def
from tfjit.framework.op_defs import attrs as attr_forms
from tfjit.framework.op_defs import node_types
from tfjit.framework.op_defs.attrs import FuncRef
from tfjit.framework.op_defs.op_def import ArgDef, OpDef
from tfjit.framework.op_defs.op_registry import registry
from tfjit.framework.op_defs.op_traits import CONTROL_FLOW
from tfjit.passes.ir.dataflow_graph import DataflowGraph
from tfjit.passes.ir.function_library import (
    Function,
    indexed,
    settle,
)
from tfjit.passes.ir.graph_def import add_operations, fill_node_def
from tfjit.protos import attr_value_pb2, function_pb2, graph_pb2

if TYPE_CHECKING:
    from tfjit.passes.ir.function_library import FunctionLibrary

_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9_]")


def instantiate(message: Any, ref: FuncRef, library: FunctionLibrary) -> Function:
    """Return the body of a FunctionDef for the attrs of `ref`.

    Nodes keep their names of the FunctionDef, and `_Arg` nodes have those of the arguments
    (`name_0`, `name_1` of a list). A call runs results, control results and stateful nodes with all
    of their dependencies.
    Source: TensorFlow 2.21, common_runtime/function_utils.cc, PruneFunctionGraph.
    Raises InvalidArgumentError for a missing attr or an input that the function does not have.
    """
    return _Instantiation(message, ref, library).run()


class _Instantiation:
    """One instantiation of one FunctionDef."""

    def __init__(self, message: Any, ref: FuncRef, library: FunctionLibrary) -> None:
        self.message, self.ref, self.library = message, ref, library
        self.signature = OpDef.from_proto(message.signature)
        self.bindings: dict[str, Any] = {
            name: attr_forms.to_proto(value) for name, value in ref.attrs.items()
        }
        self.attrs: dict[str, Any] = dict(ref.attrs)
        for attr in self.signature.attrs:
            if attr.name in self.attrs:
                continue
            if not attr.has_default:
                raise InvalidArgumentError(
                    None,
                    None,
                    f"Attr {attr.name} is not found from {self.signature.summary()}, which "
                    f"function '{ref.name}' needs",
                )
            self.attrs[attr.name] = attr.default
            self.bindings[attr.name] = attr_forms.to_proto(attr.default)
        self.graph_def = graph_pb2.GraphDef()
        # tensor name in the FunctionDef -> inputs of a GraphDef
        self.tensors: dict[str, list[str]] = {}
        self.names = {node.name for node in message.node_def} | {
            arg.name for arg in message.signature.input_arg
        }
        self.arg_names: list[str] = []
        self.result_names: list[str] = []

    def run(self) -> Function:
        message, name = self.message, self.ref.name
        for position, arg in enumerate(self.signature.inputs):
            self.add_args(position, arg)
        for node in message.node_def:
            self.add_outputs(node)
        for node in message.node_def:
            self.add_node(node)
        for arg in self.signature.outputs:
            self.add_results(arg)
        twin = framework_graph.Graph()
        twin._library.functions = dict(self.library.definitions)
        try:
            import_graph_def(self.graph_def, name="", graph=twin, scopes_take_names=False)
        except OpError as error:
            raise error.restated(f"{error.message}\n\t in function '{name}'") from error
        graph = DataflowGraph()
        graph.functions = self.library
        add_operations(graph, twin.get_operations())
        for node in message.node_def:
            graph.node(node.name).device = node.device
        args, results = indexed(graph, "_Arg"), indexed(graph, "_Retval")
        ret_nodes = set(message.control_ret.values())
        unknown = sorted(ret_nodes - set(graph.nodes))
        if unknown:
            raise InvalidArgumentError(
                None,
                None,
                f"Function '{name}': control result '{unknown[0]}' is not one of its nodes",
            )
        run = [
            node.name
            for node in sorted(graph.op_nodes(), key=lambda node: node.id)
            if node.name in ret_nodes
            or node.has_trait(CONTROL_FLOW)
            or (node.is_stateful and node.op not in ("_Arg", "_Retval"))
        ]
        settle(
            graph,
            [*(node.name for node in results.values()), *run],
            keep=[node.name for node in args.values()],
        )
        return Function(
            name,
            graph,
            tuple(args[i].output_dtypes[0] for i in range(len(args))),
            tuple(results[i].input_dtypes[0] for i in range(len(results))),
            tuple(run),
            {key: attr_forms.from_proto(value) for key, value in message.attr.items()},
            tuple(self.arg_names),
            tuple(self.result_names),
        )

    def dtypes(self, arg: ArgDef, attrs: Mapping[str, Any], what: str) -> tuple[Any, ...]:
        try:
            return node_types.arg_dtypes(arg, attrs)
        except KeyError as missing:
            raise InvalidArgumentError(
                None,
                None,
                f"Function '{self.ref.name}': {what} needs attr {missing}, which is not given",
            ) from None

    def add_args(self, position: int, arg: ArgDef) -> None:
        dtypes = self.dtypes(arg, self.attrs, f"argument '{arg.name}'")
        names = [f"{arg.name}_{i}" for i in range(len(dtypes))] if arg.is_list else [arg.name]
        for name, dtype in zip(names, dtypes, strict=True):
            node = self.graph_def.node.add(name=name, op="_Arg")
            node.attr["T"].type = dtype.as_datatype_enum
            node.attr["index"].i = len(self.arg_names)
            if position in self.message.arg_attr:
                for key, value in self.message.arg_attr[position].attr.items():
                    node.attr[key].CopyFrom(value)
                    self.bind(node.attr[key])
                self.keep_inside(node)
            if position in self.message.resource_arg_unique_id:
                node.attr["_resource_arg_unique_id"].i = self.message.resource_arg_unique_id[
                    position
                ]
            self.arg_names.append(name)
        self.define(arg.name, names)

    def define(self, key: str, names: list[str]) -> None:
        """Let `key` name all of a list, and `key:i` one element."""
        self.tensors[key] = names
        for i, name in enumerate(names):
            self.tensors[f"{key}:{i}"] = [name]

    def add_outputs(self, node: Any) -> None:
        """Name the outputs of a node, by its attrs."""
        op_def = self.library.op_def(node.op) if node.op not in registry else None
        op_def = op_def or registry.require(node.op, node.name)
        attrs = {attr.name: attr.default for attr in op_def.attrs if attr.has_default}
        needed = {
            name
            for arg in op_def.outputs
            for name in (arg.type_attr, arg.number_attr, arg.type_list_attr)
            if name
        }
        for name in needed & set(node.attr):
            attrs[name] = attr_forms.from_proto(self.bound(node.attr[name]))
        output = 0
        for arg in op_def.outputs:
            count = len(self.dtypes(arg, attrs, f"output '{arg.name}' of node '{node.name}'"))
            self.define(
                f"{node.name}:{arg.name}", [f"{node.name}:{output + i}" for i in range(count)]
            )
            output += count

    def add_node(self, node: Any) -> None:
        made = self.graph_def.node.add()
        made.MergeFrom(node)
        for value in made.attr.values():
            self.bind(value)
        self.keep_inside(made)
        del made.input[:]
        for text in node.input:
            made.input.extend(
                [text] if text.startswith("^") else self.find(text, f"input of node '{node.name}'")
            )

    def keep_inside(self, node: Any) -> None:
        """Drop colocation with nodes outside of the function.

        These have no place in its body.
        """
        if "_class" in node.attr:
            groups = node.attr["_class"].list.s
            inside = [
                group
                for group in groups
                if not group.startswith(b"loc:@") or group[5:].decode() in self.names
            ]
            del groups[:]
            groups.extend(inside)
            if not inside:
                del node.attr["_class"]

    def add_results(self, arg: ArgDef) -> None:
        if arg.name not in self.message.ret:
            raise InvalidArgumentError(
                None, None, f"Return '{arg.name}' missing in function '{self.ref.name}'."
            )
        dtypes = self.dtypes(arg, self.attrs, f"result '{arg.name}'")
        sources = self.find(self.message.ret[arg.name], f"result '{arg.name}'")
        if len(sources) != len(dtypes):
            raise InvalidArgumentError(
                None,
                None,
                f"Function '{self.ref.name}': result '{arg.name}' is {len(dtypes)} tensors, but "
                f"{len(sources)} are returned",
            )
        taken = {node.name for node in self.graph_def.node}
        for i, (source, dtype) in enumerate(zip(sources, dtypes, strict=True)):
            name = f"{arg.name}_RetVal" + (f"_{i}" if arg.is_list else "")
            while name in taken:
                name += "_"
            node = self.graph_def.node.add(name=name, op="_Retval", input=[source])
            node.attr["T"].type = dtype.as_datatype_enum
            node.attr["index"].i = len(self.result_names)
            self.result_names.append(f"{arg.name}_{i}" if arg.is_list else arg.name)

    def find(self, text: str, what: str) -> list[str]:
        found = self.tensors.get(text)
        if found is None:
            raise InvalidArgumentError(
                None, None, f"Function '{self.ref.name}': {what} is '{text}', which is not found"
            )
        return found

    def bound(self, value: Any) -> Any:
        """Return an AttrValue with the function's attrs filled in."""
        made = attr_value_pb2.AttrValue()
        made.CopyFrom(value)
        self.bind(made)
        return made

    def bind(self, value: Any) -> None:
        """Fill the values of the function's attrs into an AttrValue."""
        kind = value.WhichOneof("value")
        if kind == "placeholder":
            found = self.bindings.get(value.placeholder)
            if found is None:
                raise InvalidArgumentError(
                    None,
                    None,
                    f"Attr {value.placeholder} is not found in function '{self.ref.name}'",
                )
            value.CopyFrom(found)
        elif kind == "func":
            for inner in value.func.attr.values():
                self.bind(inner)
        elif kind == "list":
            for func in value.list.func:
                for inner in func.attr.values():
                    self.bind(inner)


def function_def(function: Function) -> Any:
    """Return a body as a FunctionDef without attrs.

    The dtypes are written out. A fused group is written as the names of its members.
    """
    message = function_pb2.FunctionDef()
    graph, signature = function.graph, message.signature
    signature.name = function.name
    signature.is_stateful = function.is_stateful
    args, results = function.args, function.results
    used: set[str] = {node.name for node in graph.op_nodes() if node.op != "_Arg"}
    arg_names: dict[str, str] = {}
    for i, dtype in enumerate(function.inputs):
        wanted = (
            function.arg_names[i]
            if i < len(function.arg_names)
            else args[i].name
            if i in args
            else f"arg_{i}"
        )
        name = _unused(_argument_name(wanted, "arg"), used)
        signature.input_arg.add(
            name=name, type=dtype.base_dtype.as_datatype_enum, is_ref=dtype.is_ref
        )
        if i in args:
            arg_names[args[i].name] = name
            extra = {
                key: value
                for key, value in args[i].attrs.items()
                if key not in ("T", "index", "_resource_arg_unique_id")
            }
            for key, value in extra.items():
                attr_forms.fill_proto(message.arg_attr[i].attr[key], value)
            if "_resource_arg_unique_id" in args[i].attrs:
                message.resource_arg_unique_id[i] = args[i].attrs["_resource_arg_unique_id"]
    ranges: dict[str, list[tuple[str, int, int]]] = {}

    def tensor(src: str, output: int) -> str:
        if src in arg_names:
            return arg_names[src]
        node = graph.node(src)
        if src not in ranges:
            found = (
                node_types.arg_ranges(node.op_def.outputs, node.attrs)
                if node.op_def is not None
                else {}
            )
            ranges[src] = [(name, first, last) for name, (first, last) in found.items()]
        for name, first, last in ranges[src]:
            if first <= output < last:
                return f"{src}:{name}:{output - first}"
        return f"{src}:output:{output}"

    for node in sorted(graph.op_nodes(), key=lambda node: node.id):
        if node.op in ("_Arg", "_Retval"):
            continue
        made = message.node_def.add()
        fill_node_def(made, node)
        del made.input[:]
        made.input.extend(tensor(src, output) for src, output in graph.inputs(node.name))
        made.input.extend(f"^{arg_names.get(src, src)}" for src in graph.control_inputs(node.name))
    result_names: set[str] = set()
    for i, dtype in enumerate(function.outputs):
        wanted = function.result_names[i] if i < len(function.result_names) else f"result_{i}"
        name = _unused(_argument_name(wanted, "result"), result_names)
        signature.output_arg.add(
            name=name, type=dtype.base_dtype.as_datatype_enum, is_ref=dtype.is_ref
        )
        message.ret[name] = tensor(*graph.inputs(results[i].name)[0])
    for name in function.must_run:
        if name in graph:
            signature.control_output.append(name)
            message.control_ret[name] = name
    for key, value in function.attrs.items():
        attr_forms.fill_proto(message.attr[key], value)
    return message


def _argument_name(name: str, start: str) -> str:
    """Return a name that a signature allows.

    Such a name is lower case, digits and underscores behind a letter.
    """
    name = _NOT_IN_NAMES.sub("_", name.lower())
    return name if name[:1].isalpha() else f"{start}_{name}".rstrip("_")


def _unused(name: str, used: set[str]) -> str:
    made, count = name, 0
    while made in used:
        count += 1
        made = f"{name}_{count}"
    used.add(made)
    return made
