"""One import of a GraphDef: check, order and add its nodes."""

from __future__ import annotations

import heapq
import re
from typing import Any, Final

import numpy as np

from tfjit.framework.errors import InvalidArgumentError, InvalidGraphError, OpError
from tfjit.framework.graphs.graph import PRODUCER, Graph
from tfjit.framework.graphs.node_inference import (
    check_input,
    check_inputs,
    deprecation_error,
    infer_output_shapes,
)
from tfjit.framework.graphs.operation import Operation, Tensor, user_frame
from tfjit.framework.op_defs import attrs as attr_values
from tfjit.framework.op_defs.node_types import input_dtypes, output_dtypes
from tfjit.framework.op_defs.op_def import NO_DEFAULT, AttrDef, OpDef
from tfjit.framework.types.device_spec import canonical_name, merge_names
from tfjit.framework.types.shape import TensorShape, format_shape, merge
from tfjit.framework.types.tensors import CONTENT_TYPES

_NODE_NAME: Final = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*")
_INTERNAL_NAME: Final = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.\\/>-]*")
# A value list longer than this is kept as an array only, and written as tensor_content again.
_MAX_RAW_BYTES: Final = 1 << 20

# Attrs of any node that the import itself reads.
_KNOWN_PRIVATE_ATTRS: Final = (
    AttrDef("_class", "list(string)"),
    AttrDef("_output_shapes", "list(shape)"),
)

TensorKey = tuple[str, int]  # node name and output; -1 for a control input


def split_input(text: str) -> TensorKey:
    """Return ("name", output) of a NodeDef's input; output -1 for "^name"."""
    if text.startswith("^"):
        return text[1:], -1
    name, colon, output = text.rpartition(":")
    if colon and output.isdecimal() and ":" not in name:
        return name, int(output)
    return text, 0


class Importer:
    """One import: checks the nodes, orders them, makes the operations."""

    def __init__(
        self,
        graph: Graph,
        message: Any,
        scope: str,
        replaced: dict[TensorKey, Any],
        scopes_take_names: bool = True,
        internal_names: bool = False,
    ) -> None:
        self.graph = graph
        self.message = message
        self.scope = scope
        self.replaced = replaced
        self.scopes_take_names = scopes_take_names
        self.node_name = _INTERNAL_NAME if internal_names else _NODE_NAME
        self.used_keys: set[TensorKey] = set()
        self.nodes = list(message.node)
        self.ops: dict[str, Operation] = {}  # by name in the GraphDef
        self.first_id = graph.version
        self.new_names: list[str] = []
        self.new_functions: list[str] = []
        self.versions = graph._producer, graph._min_consumer, graph._bad_consumers
        self.frame = user_frame()
        self.loop_ends: list[tuple[Operation, int, TensorKey]] = []
        self.names: dict[str, str] = {}  # name in the GraphDef -> name in the graph
        self.index: dict[str, int] = {}
        scopes = graph._scopes
        self.control = tuple(
            dict.fromkeys(op for controller in scopes.control for op in controller.inputs)
        )
        self.context = scopes.control_flow_context

    def run(self) -> None:
        """Import everything."""
        self._check_versions()
        self._import_library()
        inputs = self._check_nodes()
        for index in self._order(inputs):
            self._make(self.nodes[index], inputs[index])
        for op, index, key in self.loop_ends:
            self._close_loop(op, index, key)
        self._colocate()

    def undo(self) -> None:
        """Remove the added nodes and functions."""
        graph = self.graph
        graph._producer, graph._min_consumer, graph._bad_consumers = self.versions
        for name in self.new_functions:
            graph._library.remove(name)
        added = graph._by_id[self.first_id :]
        del graph._by_id[self.first_id :]
        gone = set(added)
        for op in added:
            graph._by_name.pop(op._name, None)
        for op in added:
            for tensor in op._inputs:
                if tensor is not None and tensor.op not in gone:
                    tensor._consumers = [c for c in tensor._consumers if c not in gone]
            for other in op._control_inputs:
                if other not in gone:
                    other._control_outputs = [c for c in other._control_outputs if c not in gone]
        for key in self.new_names:
            graph._names_in_use.pop(key, None)

    def has(self, key: TensorKey) -> bool:
        """Return whether the GraphDef has this output or node."""
        op = self.ops.get(key[0])
        return op is not None and key[1] < len(op.outputs)

    def element(self, text: str) -> Any:
        """Return the Tensor or Operation that `text` names in the GraphDef."""
        name, output = split_input(text)
        op = self.ops.get(name)
        if ":" not in text:
            if op is None:
                raise ValueError(f"Requested return node '{text}' not found in graph def")
            return op
        if (name, output) in self.replaced:
            return self.replaced[name, output]
        if op is None:
            raise ValueError(f"Requested return tensor '{text}' not found in graph def")
        if output >= len(op.outputs):
            raise ValueError(
                f"Invalid return output {output} of node '{name}', which has {len(op.outputs)} "
                "output(s)"
            )
        return op.outputs[output]

    def _check_versions(self) -> None:
        versions = self.message.versions
        from tfjit.framework.version import __version__

        if versions.min_consumer > PRODUCER:
            raise InvalidGraphError(
                None,
                None,
                f"GraphDef min consumer version {versions.min_consumer} above current version "
                f"{PRODUCER} "
                f"for tfjit {__version__}.  Please upgrade tfjit.",
            )
        if PRODUCER in versions.bad_consumers:
            raise InvalidGraphError(
                None,
                None,
                f"GraphDef disallows consumer version {PRODUCER}.  Please upgrade tfjit "
                f"{__version__}: this version is likely buggy.",
            )
        graph = self.graph
        graph._producer = min(graph._producer, versions.producer)
        graph._min_consumer = max(graph._min_consumer, versions.min_consumer)
        graph._bad_consumers = tuple(sorted({*graph._bad_consumers, *versions.bad_consumers}))

    def _import_library(self) -> None:
        library = self.message.library
        if self.message.HasField("library"):
            self.graph._library.was_imported = True
        if not library.function and not library.gradient:
            return
        from tfjit.protos import function_pb2

        ours = function_pb2.FunctionDefLibrary.FromString(library.SerializeToString())
        for function in ours.function:
            name = function.signature.name
            known = name in self.graph._library.functions
            self.graph.add_function(function)
            if not known:
                self.new_functions.append(name)
        self.graph._library.gradients.extend(ours.gradient)

    def _check_nodes(self) -> list[list[TensorKey]]:
        """Check names, op types and inputs of all nodes; return the inputs.

        Runs before any operation is made.
        """
        index: dict[str, int] = {}
        for i, node in enumerate(self.nodes):
            name = node.name
            if not self.node_name.fullmatch(name):
                raise InvalidGraphError(
                    node, None, f"Node '{name}': Node name contains invalid characters"
                )
            if name in index:
                raise InvalidGraphError(node, None, f"Node '{name}' is not unique")
            if not node.op:
                raise InvalidGraphError(node, None, f"Node '{name}' does not specify an operation")
            index[name] = i
        self.index = index
        self._choose_names()
        all_inputs: list[list[TensorKey]] = []
        for node in self.nodes:
            name = node.name
            self.graph.op_def_of(node.op, name)
            keys = []
            seen_control = False
            for text in node.input:
                key = split_input(text)
                if key[1] < 0:
                    seen_control = True
                elif seen_control:
                    raise InvalidGraphError(
                        node,
                        None,
                        f"Node '{name}': Control dependencies must come after regular dependencies",
                    )
                if key[0] not in index and key not in self.replaced:
                    raise InvalidGraphError(
                        node, None, f"Node '{name}': Unknown input node '{text}'"
                    )
                keys.append(key)
            all_inputs.append(keys)
        return all_inputs

    def _choose_names(self) -> None:
        """Choose the names in the graph.

        Names are prefixed, and numbered where an operation or scope has the name already.
        """
        scope = self.scope
        taken: set[str] = set()
        if self.graph._by_id:
            taken.update(self.graph._by_name)
            for name in self.graph._by_name if self.scopes_take_names else ():
                end = name.rfind("/")
                while end > 0 and name[:end] not in taken:
                    taken.add(name[:end])
                    end = name.rfind("/", 0, end)
        self.names = {}
        for node in self.nodes:
            full = scope + node.name
            if full in taken:
                count = 1
                while f"{full}_{count}" in taken or f"{node.name}_{count}" in self.index:
                    count += 1
                full = f"{full}_{count}"
                taken.add(full)
            self.names[node.name] = full

    def _order(self, inputs: list[list[TensorKey]]) -> list[int]:
        """Return node indices with every node behind its inputs.

        The lowest index comes first, as TensorFlow numbers imported nodes. Only a Merge may come
        before an input: the NextIteration of its loop.
        """
        count = len(self.nodes)
        pending = [0] * count
        consumers: list[list[int]] = [[] for _ in range(count)]
        index, replaced = self.index, self.replaced
        next_iteration = {
            i
            for i, node in enumerate(self.nodes)
            if node.op in ("NextIteration", "RefNextIteration")
        }
        for i, keys in enumerate(inputs):
            waits = 0
            loops = False
            control = 0
            for key in keys:
                if replaced and key in replaced:
                    continue
                source = index[key[0]]
                consumers[source].append(i)
                waits += 1
                if key[1] < 0:
                    control += 1
                elif source in next_iteration:
                    loops = True
            # A loop's Merge starts from the input that enters the loop.
            pending[i] = (
                control + 1 if loops and self.nodes[i].op in ("Merge", "RefMerge") else waits
            )
        ready = [i for i in range(count) if not pending[i]]
        order: list[int] = []
        while ready:
            i = heapq.heappop(ready)
            order.append(i)
            for j in consumers[i]:
                pending[j] -= 1
                if not pending[j]:
                    heapq.heappush(ready, j)
        if len(order) < count:
            stuck = {i for i in range(count) if pending[i] > 0}
            raise InvalidGraphError(
                self.nodes[min(stuck)],
                None,
                f"{len(stuck)} nodes in a cycle: {self._describe_cycle(stuck, inputs)}",
            )
        return order

    def _describe_cycle(self, stuck: set[int], inputs: list[list[TensorKey]]) -> str:
        """Return one cycle among nodes that wait for each other.

        It is found by walking back along inputs.
        """
        walk: list[int] = []
        position: dict[int, int] = {}
        i = min(stuck)
        while i not in position:
            position[i] = len(walk)
            walk.append(i)
            i = next(self.index[key[0]] for key in inputs[i] if self.index.get(key[0]) in stuck)
        found = walk[position[i] :][::-1]
        start = found.index(min(found))
        cycle = [self.nodes[j].name for j in (*found[start:], *found[:start])]
        shown = cycle if len(cycle) <= 8 else [*cycle[:4], "...", *cycle[-3:]]
        return " -> ".join(f"'{n}'" if n != "..." else n for n in [*shown, cycle[0]])

    def _make(self, node: Any, keys: list[TensorKey]) -> None:
        op_type, node_name = node.op, node.name
        graph = self.graph
        op_def = graph.op_def_of(op_type, node_name)
        if op_def.deprecated is not None and graph._producer >= op_def.deprecated[0]:
            error = deprecation_error(op_def, graph._producer)
            raise type(error)(node, None, f"{error.message} (node '{node_name}')")
        try:
            values, raw = _attrs_of(node, op_def)
            expected = input_dtypes(op_def, values)
            out_types = output_dtypes(op_def, values)
        except InvalidArgumentError as error:
            raise InvalidGraphError(
                node,
                None,
                f"{error.message}\n\t; NodeDef: {{{{node {node_name}}}}}; {op_def.summary()}",
            ) from None
        tensors: list[Any] = []
        control: dict[Operation, None] = {}
        waiting: list[tuple[int, TensorKey]] = []
        for key in keys:
            source, output = key
            substitute = self.replaced.get(key) if self.replaced else None
            if substitute is not None:
                self.used_keys.add(key)
                if output < 0:
                    control[substitute.op if isinstance(substitute, Tensor) else substitute] = None
                elif isinstance(substitute, Tensor):
                    tensors.append(substitute)
                else:
                    raise ValueError(
                        f"input_map['{source}:{output}'] must be a Tensor, got {substitute!r}"
                    )
                continue
            origin = self.ops.get(source)
            if output < 0:
                assert origin is not None
                control[origin] = None
            elif origin is None:
                waiting.append((len(tensors), key))
                tensors.append(None)
            elif output >= len(origin.outputs):
                raise InvalidGraphError(
                    node,
                    None,
                    f"Node '{node_name}': Connecting to invalid output {output} of source node "
                    f"{source} "
                    f"which has {len(origin.outputs)} outputs.",
                )
            else:
                tensors.append(origin.outputs[output])
        check_inputs(op_def, node_name, expected, tensors, node)
        full_name = self.names[node_name]
        for other in self.control:
            control[other] = None
        if waiting:
            # a loop's Merge: value, value_index
            out_shapes: list[Any] = [None if i == 0 else () for i in range(len(out_types))]
        else:
            try:
                out_shapes = infer_output_shapes(
                    op_def, full_name, values, tuple(tensors), len(out_types)
                )
            except OpError as error:
                error._node_def = error._node_def or node
                raise
        declared = values.pop("_output_shapes", None)
        if declared:
            if raw is not None:
                raw.pop("_output_shapes", None)
            out_shapes = self._with_declared(node, out_shapes, declared)
        op = Operation(graph, op_def, full_name, tuple(tensors), tuple(control), values, self.frame)
        op._raw_attrs = raw
        op._extra = _carried_fields(node)
        op.outputs = [
            Tensor(op, i, dtype, shape)
            for i, (dtype, shape) in enumerate(zip(out_types, out_shapes, strict=True))
        ]
        self._set_device(op, node)
        for index, key in waiting:
            self.loop_ends.append((op, index, key))
        self._register(op)
        self.ops[node_name] = op
        if self.context is not None:
            op._control_flow_context = self.context

    def _register(self, op: Operation) -> None:
        graph = self.graph
        for tensor in op._inputs:
            if tensor is not None:
                tensor._consumers.append(op)
        for other in op._control_inputs:
            other._control_outputs.append(op)
        graph._by_id.append(op)
        op._id = len(graph._by_id)
        graph._by_name[op._name] = op
        key = op._name.lower()
        if key not in graph._names_in_use:
            graph._names_in_use[key] = 1
            self.new_names.append(key)

    def _with_declared(
        self, node: Any, inferred: list[Any], declared: tuple[TensorShape, ...]
    ) -> list[Any]:
        """Return output shapes merged with the node's `_output_shapes`.

        Contradictions are errors in graphs of version 21 and later.
        """
        out = list(inferred)
        for i, shape in enumerate(declared[: len(out)]):
            try:
                out[i] = merge(out[i], shape.dims_tuple)
            except ValueError:
                if self.message.versions.producer >= 21:
                    raise InvalidGraphError(
                        node,
                        None,
                        f"Node '{node.name}' has an _output_shapes attribute inconsistent with the "
                        f"GraphDef for output #{i}: "
                        f"Dimension mismatch, got {format_shape(shape.dims_tuple)} and inferred "
                        f"{format_shape(inferred[i])}",
                    ) from None
        return out

    def _set_device(self, op: Operation, node: Any) -> None:
        if node.device:
            try:
                op._device = canonical_name(node.device)
            except ValueError as error:
                raise InvalidGraphError(node, None, f"Node '{node.name}': {error}") from None
        groups = op._attrs.get("_class")
        if groups:
            for group in groups:
                if group.startswith(b"loc:@"):
                    other = group[5:].decode(errors="replace")
                    if other not in self.index and (
                        self.scopes_take_names or other not in self.graph._by_name
                    ):
                        raise InvalidGraphError(
                            node,
                            None,
                            f"Node '{node.name}' expects to be colocated with unknown node "
                            f"'{other}'",
                        )
        if groups and any(g.startswith(b"loc:@") for g in groups):
            return  # `_colocate` decides, once every operation is there
        scopes = self.graph._scopes
        if scopes.device_cache is None:
            self.graph._apply_device(op, scopes)
        elif scopes.device_cache:
            op._device = merge_names(op._device, scopes.device_cache)

    def _colocate(self) -> None:
        """Prefix colocation groups, and place each group on one device.

        An operation gets the device of the first other of its group that has one.
        """
        names_in_graph = self.names
        grouped = []
        for op in self.ops.values():
            groups = op._attrs.get("_class")
            if not groups:
                continue
            # a session's extension may name nodes it has already, which keep their names
            groups = tuple(
                b"loc:@" + names_in_graph.get(g[5:].decode(), g[5:].decode()).encode()
                if g.startswith(b"loc:@")
                else g
                for g in groups
            )
            op._attrs["_class"] = groups
            names = [g[5:].decode() for g in groups if g.startswith(b"loc:@")]
            if names:
                grouped.append((op, names))
                op._device = ""
        for op, names in grouped:
            for name in names:
                other = self.graph._by_name.get(name)
                if other is not None and other._device:
                    op._device = other._device
                    break

    def _close_loop(self, op: Operation, index: int, key: TensorKey) -> None:
        source = self.ops[key[0]]
        if key[1] >= len(source.outputs):
            raise InvalidGraphError(
                None,
                op,
                f"Node '{op.name}': Connecting to invalid output {key[1]} of source node {key[0]} "
                f"which has {len(source.outputs)} outputs.",
            )
        tensor = source.outputs[key[1]]
        check_input(op.name, index, tensor, input_dtypes(op.op_def, op._attrs)[index])
        tensor._consumers.append(op)
        op._inputs = (*op._inputs[:index], tensor, *op._inputs[index + 1 :])


def _carried_fields(node: Any) -> bytes:
    parts = b""
    for field in ("experimental_debug_info", "experimental_type"):
        if node.HasField(field):
            parts += type(node)(**{field: getattr(node, field)}).SerializeToString()
    return parts


def _attrs_of(node: Any, op_def: OpDef) -> tuple[dict[str, Any], dict[str, bytes] | None]:
    """Return attrs of a NodeDef in Python form, defaults filled in.

    The second result has the messages that our own writing would not reproduce.
    """
    values: dict[str, Any] = {}
    raw: dict[str, bytes] | None = None
    fields = node.attr
    for name in fields:
        message = fields[name]
        try:
            value = attr_values.from_proto(message)
        except (InvalidArgumentError, ValueError) as error:
            text = error.message if isinstance(error, InvalidArgumentError) else str(error)
            raise InvalidArgumentError(None, None, f"{text}\n\t for attr '{name}'") from None
        if value is attr_values.ABSENT:
            continue
        values[name] = value
        if isinstance(value, np.ndarray) and (
            value.size == 1
            or not message.tensor.tensor_content
            or message.tensor.dtype not in CONTENT_TYPES
        ):
            serialized = message.SerializeToString()
            if len(serialized) <= _MAX_RAW_BYTES:
                raw = raw or {}
                raw[name] = serialized
    for attr in _KNOWN_PRIVATE_ATTRS:
        if attr.name in values:
            attr_values.check(values[attr.name], attr)
    for attr in op_def.attrs:
        value = values.get(attr.name, NO_DEFAULT)
        if value is NO_DEFAULT:
            if attr.default is NO_DEFAULT:
                missing = [
                    a.name for a in op_def.attrs if a.name not in values and not a.has_default
                ]
                names = ", ".join(f"'{n}'" for n in missing)
                raise InvalidArgumentError(
                    None,
                    None,
                    f"NodeDef missing attr{'s' if len(missing) > 1 else ''} {names} from "
                    f"{op_def.name}",
                )
            values[attr.name] = attr.default
        else:
            attr_values.check(value, attr)
    return values, raw
