"""Read a GraphDef for the translators.

The nodes that some fetches need, in order, with attributes as Python values.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tfjit.framework.types.dtypes import as_dtype
from tfjit.framework.types.tensors import from_proto
from tfjit.protos import AttrValue, GraphDef

if TYPE_CHECKING:
    from tfjit.framework.graphs.graph import Graph

Endpoint = tuple[str, int]


@dataclass(frozen=True, slots=True)
class PeerNode:
    """Hold a node.

    inputs: data inputs as (node, output index); control: names of nodes that run before.
    """

    name: str
    op: str
    inputs: tuple[Endpoint, ...]
    control: tuple[str, ...]
    attrs: Mapping[str, Any]


def endpoint(name: str) -> Endpoint:
    """ "a:1" -> ("a", 1); "a" -> ("a", 0)."""
    node, _, port = name.partition(":")
    return node, int(port or 0)


def _value(attr: AttrValue) -> Any:
    kind = attr.WhichOneof("value")
    if kind == "type":
        # a variable's handle has no NumPy form
        return as_dtype(attr.type).as_numpy_dtype if attr.type < 20 else None
    if kind == "tensor":
        return from_proto(attr.tensor)
    if kind == "shape":
        return (
            None
            if attr.shape.unknown_rank
            else [d.size if d.size >= 0 else None for d in attr.shape.dim]
        )
    if kind == "s":
        return attr.s.decode()
    if kind == "list":
        return [
            v.decode() if isinstance(v, bytes) else v
            for field in (attr.list.i, attr.list.f, attr.list.s, attr.list.b)
            for v in field
        ]
    return getattr(attr, kind) if kind else None


class PeerGraph:
    """Hold the part of a GraphDef that `fetches` and `targets` need.

    `feeds` (tensor names) are fed.
    """

    def __init__(
        self,
        graph_def: bytes,
        fetches: Sequence[str],
        targets: Sequence[str],
        feeds: Collection[str],
    ) -> None:
        self.message = GraphDef.FromString(graph_def)
        self.fetches, self.targets, self.feeds = tuple(fetches), tuple(targets), tuple(feeds)
        self._protos = {node.name: node for node in self.message.node}
        self.order: list[PeerNode] = []
        self._functions: dict[str, PeerGraph] = {}
        self._sort({endpoint(name)[0] for name in feeds})

    def function(self, name: str) -> PeerGraph:
        """Return the body of a function of the library.

        The parameters are its feeds, the results its fetches.
        """
        if name not in self._functions:
            from tfjit.passes.ir.dataflow_graph import DataflowGraph

            body = DataflowGraph.from_graph_def(self.message).functions.body(name)
            found = body.graph.to_graph_def()
            found.library.CopyFrom(self.message.library)
            feeds = [
                f"{body.args[k].name}:0" if k in body.args else f"unused/{k}:0"
                for k in range(len(body.inputs))
            ]
            fetches = [f"{src}:{slot}" for src, slot in body.returned]
            self._functions[name] = PeerGraph(found.SerializeToString(), fetches, (), feeds)
        return self._functions[name]

    def _sort(self, fed: set[str]) -> None:
        done: set[str] = set()
        stack = [(endpoint(name)[0], False) for name in reversed([*self.fetches, *self.targets])]
        while stack:
            name, visited = stack.pop()
            if visited:
                self.order.append(self._node(name))
            elif name not in done:
                done.add(name)
                if name in fed:
                    continue
                stack.append((name, True))
                stack += [
                    (endpoint(i.removeprefix("^"))[0], False) for i in self._protos[name].input
                ]

    def _node(self, name: str) -> PeerNode:
        proto = self._protos[name]
        data = tuple(endpoint(i) for i in proto.input if not i.startswith("^"))
        control = tuple(i[1:] for i in proto.input if i.startswith("^"))
        return PeerNode(
            name,
            proto.op,
            data,
            control,
            {key: _value(attr) for key, attr in proto.attr.items() if not key.startswith("_")},
        )

    def subgraph(self, without: Collection[str]) -> bytes:
        """Return a GraphDef of these nodes, less the named ones.

        Placement (`_class`) goes too, since it may name a node that is left out.
        """
        part = GraphDef(library=self.message.library, versions=self.message.versions)
        part.node.extend(self._protos[node.name] for node in self.order if node.name not in without)
        for node in part.node:
            node.attr.pop("_class", None)
        data: bytes = part.SerializeToString()
        return data


class ShapedGraph(PeerGraph):
    """Return the same with shapes known.

    Each placeholder takes the shape of its value.
    """

    def __init__(
        self,
        graph_def: bytes,
        fetches: Sequence[str],
        targets: Sequence[str],
        feeds: Mapping[str, np.ndarray],
    ) -> None:
        super().__init__(graph_def, fetches, targets, feeds)
        self.fed = feeds

    @cached_property
    def _tensors(self) -> Graph:
        import tfjit

        message = GraphDef.FromString(self.message.SerializeToString())
        shapes = {endpoint(name)[0]: np.shape(value) for name, value in self.fed.items()}
        sizes = {node.name: node.attr["shape"] for node in message.node if node.op == "VarHandleOp"}
        for node in message.node:
            # a handle's shape is not followed
            if node.op == "ReadVariableOp" and node.input[0] in sizes:
                node.op = "Placeholder"
                node.attr["shape"].CopyFrom(sizes[node.input[0]])
                del node.input[:]
            if node.name in shapes and "shape" in node.attr:
                shape = node.attr["shape"].shape
                shape.Clear()
                for size in shapes[node.name]:
                    shape.dim.add(size=size)
            node.attr.pop("_output_shapes", None)
        graph = tfjit.Graph()
        with graph.as_default():
            tfjit.import_graph_def(message, name="")
        return graph

    def shape(self, at: Endpoint) -> tuple[int, ...] | None:
        """The shape of an output, or None where a size is unknown."""
        shape = self._tensors.get_tensor_by_name(f"{at[0]}:{at[1]}").shape
        if not shape.is_fully_defined():
            return None
        return tuple(size for size in shape.as_list() if size is not None)
