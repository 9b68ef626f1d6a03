"""GraphDef -> Graph and Graph -> GraphDef."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from tfjit.framework.errors import InvalidGraphError
from tfjit.framework.gc_pause import collection_paused
from tfjit.framework.graphs.graph import MAX_GRAPH_BYTES, Graph, get_default_graph
from tfjit.framework.graphs.graph_import import Importer, TensorKey, split_input
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.types import dtypes
from tfjit.framework.types.constants import make_tensor_array
from tfjit.framework.types.shape import fill_proto as fill_shape_proto

_TOO_LARGE: Final = "GraphDef cannot be larger than 2GB."


def parse_graph_def(source: Any) -> Any:
    """Return a GraphDef message from bytes or another message.

    The source is bytes, or a GraphDef or MetaGraphDef message of any package; the result is that
    message or one of ours. Raises InvalidGraphError for bytes that are no GraphDef, ValueError from
    2 GB on, TypeError for anything else.
    """
    if isinstance(source, (bytes, bytearray, memoryview)):
        from tfjit.protos import graph_pb2

        if len(source) >= MAX_GRAPH_BYTES:
            raise ValueError(_TOO_LARGE)
        message = graph_pb2.GraphDef()
        try:
            message.ParseFromString(bytes(source))
        # protobuf's DecodeError: its class differs between implementations
        except Exception as error:
            raise InvalidGraphError(
                None, None, f"Cannot parse {len(source)} bytes as a GraphDef: {error}"
            ) from None
        return message
    descriptor = getattr(source, "DESCRIPTOR", None)
    kind = descriptor.full_name.rpartition(".")[2] if descriptor is not None else ""
    if kind == "GraphDef":
        return source
    if kind == "MetaGraphDef":
        return source.graph_def
    raise TypeError(f"Argument `graph_def` must be a GraphDef proto. Got {type(source).__name__}.")


def import_graph_def(
    graph_def: Any,
    input_map: Mapping[str, Any] | None = None,
    return_elements: Sequence[str] | None = None,
    name: str | None = None,
    op_dict: Any = None,
    producer_op_list: Any = None,
    graph: Graph | None = None,
    scopes_take_names: bool = True,
    internal_names: bool = False,
) -> list[Any] | None:
    """Add the nodes of a GraphDef to `graph` or the default graph.

    graph_def: message or bytes. input_map: "node:0" or "^node" in the GraphDef -> Tensor, Operation
    or value to take its place. return_elements: names whose Tensors and Operations are returned.
    name: prefix, made unique; "import" by default, "" for none. op_dict and producer_op_list are
    accepted and not used. scopes_take_names: a node whose name is a prefix of names in the graph is
    renamed; a session turns this off, whose nodes keep their names. internal_names: nodes may have
    names that begin with "_", as those that passes make. No node is added when an error
    is raised. Raises InvalidGraphError (a ValueError) naming node and cause, NotFoundError for
    unknown op types, UnimplementedError for ops that graphs of this version may not hold, TypeError
    for arguments of wrong types.
    """
    message = parse_graph_def(graph_def)
    mapped = dict(input_map) if input_map else {}
    if not all(isinstance(key, str) for key in mapped):
        raise TypeError(
            f"All keys for argument `input_map` must be strings. Obtained keys: {list(mapped)}"
        )
    if return_elements is not None:
        return_elements = tuple(return_elements)
        if not all(isinstance(element, str) for element in return_elements):
            raise TypeError(
                "Argument `return_elements` must be a list of strings. Obtained "
                f"{list(return_elements)}."
            )
    target = get_default_graph() if graph is None else graph
    target._check_not_finalized()
    with (
        collection_paused(),
        target._lock,
        target.name_scope("import" if name is None else name) as scope,
    ):
        replaced = _resolve_input_map(mapped, target, scope)
        importer = Importer(target, message, scope, replaced, scopes_take_names, internal_names)
        try:
            importer.run()
            unused = [
                key for key in replaced if key not in importer.used_keys and not importer.has(key)
            ]
            if unused:
                names = ", ".join(
                    f"^{source}" if output < 0 else f"{source}:{output}"
                    for source, output in unused
                )
                raise ValueError(
                    f"Attempted to map inputs that were not found in graph_def: [{names}]"
                )
            found = (
                None
                if return_elements is None
                else [importer.element(text) for text in return_elements]
            )
        except BaseException:
            importer.undo()
            raise
        return found


def _resolve_input_map(mapped: Mapping[str, Any], graph: Graph, scope: str) -> dict[TensorKey, Any]:
    values: dict[TensorKey, Any] = {}
    for key, value in mapped.items():
        if hasattr(value, "_as_graph_element") and not isinstance(value, (Tensor, Operation)):
            value = value._as_graph_element()
        if not isinstance(value, (Tensor, Operation)):
            if not scope:
                raise ValueError(
                    "tf.import_graph_def() requires a non-empty `name` if `input_map` contains "
                    "non-Tensor values. "
                    "Try calling tf.convert_to_tensor() on `input_map` values before calling "
                    "tf.import_graph_def()."
                )
            array = make_tensor_array(value)
            with graph.name_scope("_inputs"):
                value = graph.create_op(
                    "Const",
                    name="Const",
                    attrs={"value": array, "dtype": dtypes.as_dtype(array.dtype)},
                ).outputs[0]
        elif value.graph is not graph:
            raise ValueError(f"input_map[{key!r}]: {value} is not an element of this graph.")
        values[split_input(key)] = value
    return values


def graph_to_graph_def(graph: Graph, from_version: int = 0, add_shapes: bool = False) -> Any:
    """Return the GraphDef of the operations with an id above `from_version`.

    Nodes stand in the order they were made, with library and versions. add_shapes: also write each
    node's `_output_shapes`. Raises ValueError when the message would reach 2 GB.
    """
    from tfjit.protos import graph_pb2

    with graph._lock:
        ops = graph._by_id[from_version:]
        total = 0
        for op in ops:
            for value in op._attrs.values():
                if isinstance(value, np.ndarray):
                    total += value.nbytes
                    if total >= MAX_GRAPH_BYTES:
                        raise ValueError(_TOO_LARGE)
        message = graph_pb2.GraphDef()
        message.versions.producer = graph._producer
        if graph._min_consumer:
            message.versions.min_consumer = graph._min_consumer
        message.versions.bad_consumers.extend(graph._bad_consumers)
        add = message.node.add
        for op in ops:
            node = add()
            op.fill_node_def(node)
            if add_shapes and op.outputs:
                shapes = node.attr["_output_shapes"].list.shape
                for output in op.outputs:
                    fill_shape_proto(shapes.add(), output._shape)
        graph._library.fill(message)
    if message.ByteSize() >= MAX_GRAPH_BYTES:
        raise ValueError(_TOO_LARGE)
    return message
