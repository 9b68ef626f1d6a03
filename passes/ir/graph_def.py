"""Convert between working graphs and NodeDefs, by OpDefs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from tfjit.framework.cooperative_yield import yield_interpreter
from tfjit.framework.errors import InvalidArgumentError, InvalidGraphError
from tfjit.framework.graphs import graph as framework_graph
from tfjit.framework.graphs import graph_def as import_rules
from tfjit.framework.graphs.graph_import import split_input
from tfjit.framework.op_defs import attrs as attr_forms
from tfjit.framework.op_defs import node_types
from tfjit.framework.op_defs.op_def import OpDef
from tfjit.framework.op_defs.op_registry import registry
from tfjit.framework.op_defs.op_traits import MERGE, NEXT_ITERATION
from tfjit.framework.types.dtypes import DType
from tfjit.passes.ir.dataflow_graph import (
    CONTROL,
    SINK,
    SOURCE,
    DataflowGraph,
    Node,
)

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from tfjit.framework.graphs.operation import Operation

FUSED: Final = "_Fused"
CUSTOM: Final = "_CustomKernel"  # its op_def, a CustomOpDef, names the op type
LOOP: Final = "_Loop"
OFFLOAD: Final = "_Offload"
COMPOSED: Final = (FUSED, LOOP, OFFLOAD)
"""Op types of nodes that passes compose; they have no OpDef."""


def find_op_def(op: str, node_name: str = "") -> OpDef:
    """Return the registry's OpDef.

    Raises NotFoundError for an unknown op type.
    """
    return registry.require(op, node_name)


def complete_attrs(
    op: str, given: dict[str, Any], input_dtypes: Sequence[DType]
) -> tuple[dict[str, Any], OpDef | None]:
    """Return the attrs and the OpDef of a new node.

    Missing attrs follow from inputs and defaults. Composed nodes have no OpDef.
    """
    if op in COMPOSED:
        return given, None
    op_def = find_op_def(op)
    return node_types.complete_attrs(op_def, given, input_dtypes), op_def


def with_defaults(op_def: OpDef, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return attrs with the op's defaults for the missing ones."""
    return {**{attr.name: attr.default for attr in op_def.attrs if attr.has_default}, **given}


def signature(
    op: str, op_def: OpDef | None, attrs: Mapping[str, Any], name: str
) -> tuple[tuple[DType, ...], tuple[DType, ...]]:
    """Return (input dtypes, output dtypes) of a node.

    Raises InvalidArgumentError when an attr that they depend on is missing.
    """
    if op_def is None:
        if op == LOOP:
            program = attrs["program"]
            return tuple(spec.dtype for spec in program.input_specs), tuple(
                spec.dtype for spec in program.output_specs
            )
        if op == OFFLOAD:
            types: tuple[tuple[DType, ...], tuple[DType, ...]] = attrs["offloaded"].types
            return types
        if op != FUSED:
            return (), ()
        group = attrs["group"]
        return tuple(spec.dtype for spec in group.inputs), tuple(
            group.tensor(ref).dtype for ref in group.outputs
        )
    try:
        return node_types.input_dtypes(op_def, attrs), node_types.output_dtypes(op_def, attrs)
    except KeyError as missing:
        raise InvalidArgumentError(
            None,
            None,
            f"NodeDef missing attr {missing} from {op_def.summary()}; NodeDef: {{{{node {name}}}}}",
        ) from None


def derived_attrs(op_def: OpDef, input_dtypes: Sequence[DType | None]) -> dict[str, Any]:
    """Return the attrs that need not be written.

    These are defaults, and attrs that the inputs' dtypes determine.
    """
    derived: dict[str, Any] = {attr.name: attr.default for attr in op_def.attrs if attr.has_default}
    counted = [arg for arg in op_def.inputs if arg.is_list]
    single = len(op_def.inputs) - len(counted)
    # Several lists of one length share the rest of the inputs. Lists of separate lengths must be
    # written.
    lengths = {arg.number_attr or arg.type_list_attr for arg in counted}
    here = (
        (len(input_dtypes) - single) // len(counted)
        if len(lengths) == 1 and len(input_dtypes) >= single
        else None
    )
    position = 0
    for arg in op_def.inputs:
        if arg.is_list and here is None:
            break
        count = here if arg.is_list and here is not None else 1
        dtypes = input_dtypes[position : position + count]
        position += count
        if len(dtypes) < count:
            break
        if arg.number_attr:
            derived[arg.number_attr] = count
        if arg.type_list_attr:
            derived[arg.type_list_attr] = tuple(
                dtype.base_dtype for dtype in dtypes if dtype is not None
            )
        elif arg.type_attr and dtypes and dtypes[0] is not None:
            derived[arg.type_attr] = dtypes[0].base_dtype
    return derived


# ---- out


def node_def(node: Node) -> Message:
    """Return the NodeDef of a node in its present state.

    Inputs are "x" for output 0, "x:1", and "^x" last. An assigned device wins over the requested.
    """
    from tfjit.protos import node_def_pb2

    proto = node_def_pb2.NodeDef()
    fill_node_def(proto, node)
    return proto


def fill_node_def(proto: Any, node: Node) -> None:
    """Write a node into an empty NodeDef."""
    graph = node._graph
    proto.name = node.name
    proto.op = node.op_def.name if node.op == CUSTOM and node.op_def is not None else node.op
    proto.device = node.assigned_device or node.device
    proto.input.extend(
        src if output == 0 else f"{src}:{output}" for src, output in graph.inputs(node.name)
    )
    proto.input.extend(f"^{src}" for src in graph.control_inputs(node.name))
    for key, value in node.attrs.items():
        if node.op == FUSED and key == "group":
            # a group is no value of the wire format: the names of its members are written
            proto.attr["kernel"].s = value.kind.encode()
            attr_forms.fill_proto(
                proto.attr["members"], tuple(name.encode() for name in value.names)
            )
        elif (node.op, key) in ((LOOP, "program"), (OFFLOAD, "offloaded")):
            attr_forms.fill_proto(
                proto.attr["members"], tuple(name.encode() for name in value.names)
            )
            if node.op == OFFLOAD:
                proto.attr["device"].s = value.device.encode()
        else:
            attr_forms.fill_proto(proto.attr[key], value)
    if node.origin and node.origin != (node.name,):
        proto.experimental_debug_info.original_node_names.extend(node.origin)


def graph_def(graph: DataflowGraph) -> Message:
    """Return the whole graph as a GraphDef, in id order."""
    from tfjit.protos import graph_pb2

    proto = graph_pb2.GraphDef()
    for node in sorted(graph.op_nodes(), key=lambda node: node.id):
        fill_node_def(proto.node.add(), node)
    if graph.versions is not None:
        proto.versions.producer, proto.versions.min_consumer, refused = graph.versions
        proto.versions.bad_consumers.extend(refused)
    fill_library(proto.library, graph)
    return proto


def fill_library(proto: Any, graph: DataflowGraph) -> None:
    """Write the functions of a graph into an empty FunctionDefLibrary.

    The user's functions come first, then those that passes made.
    """
    functions = graph.functions
    if not functions:
        return
    from tfjit.passes.ir.function_defs import function_def

    proto.function.extend(functions.definitions.values())
    proto.function.extend(function_def(made) for made in functions.made())
    for name, gradient in functions.gradients.items():
        proto.gradient.add(function_name=name, gradient_func=gradient)


# ---- in


def add_node_defs(graph: DataflowGraph, graph_def: Any, internal_names: bool = False) -> list[str]:
    """Add the nodes of a GraphDef to the graph.

    The new nodes may use nodes of the graph. graph_def: a message of any package, or bytes.
    internal_names: names of nodes may begin with "_".
    framework/graphs/graph_def.py checks the nodes in a framework Graph used for this check alone:
    an invalid GraphDef adds nothing.
    Returns the new nodes' names, in the order of their ids.
    Raises InvalidGraphError with node and cause.
    """
    message = import_rules.parse_graph_def(graph_def)
    twin = graph._twin
    if twin is None:
        twin = graph._twin = framework_graph.Graph()
        if graph.num_op_nodes:
            import_rules.import_graph_def(
                graph.to_graph_def(), name="", graph=twin, scopes_take_names=False
            )
    new = {node.name for node in message.node}
    input_map: dict[str, Any] = {}
    for node in message.node:
        if node.name in graph:
            raise InvalidGraphError(
                node,
                None,
                f"GraphDef argument to Extend includes node '{node.name}', which was created by a "
                "previous call to Create or Extend in "
                "this session.",
            )
        for text in node.input:
            name, output = split_input(text)
            if name in new or name not in graph:
                continue
            op = twin.get_operation_by_name(name)
            if output < 0:
                input_map[text] = op
            elif output < len(op.outputs):
                input_map[text] = op.outputs[output]
            else:
                raise InvalidGraphError(
                    node,
                    None,
                    f"Node '{node.name}': Connecting to invalid output {output} of source node "
                    f"{name} which has {len(op.outputs)} outputs.",
                )
    before = twin.version
    graph.functions.check(message.library.function, message.library.gradient)
    import_rules.import_graph_def(
        message,
        input_map=input_map,
        name="",
        graph=twin,
        scopes_take_names=False,
        internal_names=internal_names,
    )
    made = twin.operations_after(before)
    # A session keeps the devices as written; the import for users gives colocated nodes one device.
    written = {node.name: node.device for node in message.node if "_class" in node.attr}
    for op in made:
        if op.name in written:
            op._set_device(written[op.name])
    graph.versions = twin.version_numbers
    graph.functions.merge(message.library.function, message.library.gradient)
    return add_operations(graph, made)


def add_operations(graph: DataflowGraph, operations: Sequence[Operation]) -> list[str]:
    """Add operations of a framework Graph; return their names.

    Their inputs are among them or in the graph already.
    """
    grows = graph.num_op_nodes > 0
    names: list[str] = []
    for op in operations:
        name, attrs, outputs = op._name, op._attrs, op.outputs
        yield_interpreter()
        graph._insert(
            Node(
                graph,
                name,
                graph._new_node_id(),
                op._type,
                attrs.copy(),
                op.op_def,
                node_types.input_dtypes(op.op_def, attrs),
                tuple([tensor._dtype for tensor in outputs]),
                op._device,
                "",
                (name,),
                tuple([tensor._shape for tensor in outputs]),
            )
        )
        names.append(name)
    back_edges: list[tuple[str, int, str, int]] = []
    connect = graph._connect
    for op in operations:
        name = op._name
        merges = op.op_def.traits & MERGE
        for index, tensor in enumerate(op._inputs):
            src = tensor.op
            if merges and src.op_def.traits & NEXT_ITERATION:
                back_edges.append((src._name, tensor._value_index, name, index))
            else:
                connect(src._name, tensor._value_index, name, index)
        if op._control_inputs:
            # by name, as in a GraphDef
            for waited in sorted({control._name for control in op._control_inputs}):
                graph.add_control_edge(waited, name)
    for edge in back_edges:
        connect(*edge)
    tie_new_nodes(graph, names, grows)
    return names


def add_and_change(
    graph: DataflowGraph, operations: Sequence[Operation], changed: Sequence[Operation]
) -> list[str]:
    """Add operations, and update operations that have changed.

    The changed ones have new attrs, inputs or outputs: gradients add them.
    """
    known: dict[str, int] = {}
    for op in changed:
        node = graph.node(op.name)
        known[op.name] = len(node.input_dtypes)
        node.attrs = dict(op.attrs)
        node.input_dtypes = tuple(node_types.input_dtypes(op.op_def, node.attrs))
        node.output_dtypes = tuple(tensor.dtype for tensor in op.outputs)
        node.output_shapes = tuple(tensor.shape_tuple for tensor in op.outputs)
    names = add_operations(graph, operations)
    for op in changed:
        for index in range(known[op.name], len(op.inputs)):
            tensor = op.inputs[index]
            if SINK in graph._succ[tensor.op.name]:
                graph.remove_control_edge(tensor.op.name, SINK)
            graph._connect(tensor.op.name, tensor.value_index, op.name, index)
    return names


def tie_new_nodes(graph: DataflowGraph, names: Sequence[str], grows: bool) -> None:
    """Tie new nodes without inputs to `_SOURCE`, without consumers to `_SINK`.

    A node that now has consumers loses its tie. grows: the graph had other nodes before.
    """
    all_predecessors, all_successors = graph._pred, graph._succ
    for name in names:
        predecessors = all_predecessors[name]
        if grows:
            for src in predecessors:
                if SINK in all_successors[src] and src != SOURCE:
                    graph.remove_control_edge(src, SINK)
        if not predecessors:
            graph._connect(SOURCE, CONTROL, name, CONTROL)
        if not all_successors[name]:
            graph._connect(name, CONTROL, SINK, CONTROL)
