"""Outline parts of a graph as bodies of functions.

Both halves of `functionalize` use this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tfjit.framework.op_defs.op_traits import BLOCKING, TRANSFER
from tfjit.framework.types.dtypes import as_dtype
from tfjit.framework.types.shape import TensorShape
from tfjit.passes.ir.dataflow_graph import DataflowGraph, Node
from tfjit.passes.ir.declined import Declined
from tfjit.passes.ir.function_library import Function

if TYPE_CHECKING:
    import numpy as np

    from tfjit.framework.types.dtypes import DType
    from tfjit.framework.types.shape import Shape
    from tfjit.passes.manager.pass_context import PassOptions


def check_members(graph: DataflowGraph, names: Iterable[str], options: PassOptions) -> None:
    """Raise Declined for nodes that cannot go into one body.

    Such nodes are in the partitions of several devices, or block.
    """
    devices = set()
    for name in names:
        node = graph.node(name)
        devices.add(options.partition_device(node.assigned_device))
        # in a body, the awaited node might never run
        if node.has_trait(BLOCKING | TRANSFER):
            raise Declined(f"{node.op} '{name}' may wait for nodes outside")
    if len(devices) > 1:
        raise Declined(f"its nodes are on several devices: {', '.join(sorted(devices))}")


def free_name(graph: DataflowGraph, name: str) -> str:
    """Return the name itself where free, else a name made from it."""
    return name if name not in graph else graph.new_name(name)


class BodyBuilder:
    """Builds the body of one function from copies of a graph's nodes.

    members: the nodes. types, shapes: of the arguments. like: device and origin of the nodes made.
    Call `replace` for the tensors that become arguments, then `connect`, then give the results.
    """

    def __init__(
        self,
        source: DataflowGraph,
        name: str,
        members: Iterable[str],
        types: Sequence[DType],
        shapes: Sequence[Shape],
        like: Node,
    ) -> None:
        self._source = source
        self._name = source.functions.new_name(name)
        self._like = like
        self._members = sorted(members, key=lambda member: source.node(member).id)
        self._replaced: dict[tuple[str, int], str] = {}
        self._renamed: dict[str, str] = {}
        self.graph = source.copy_subset(self._members)
        self._types = tuple(types)
        self._arguments = [
            self._add(f"arg_{index}", "_Arg", (), {"T": dtype, "index": index}, [shape])
            for index, (dtype, shape) in enumerate(zip(types, shapes, strict=True))
        ]

    def replace(self, tensor: tuple[str, int], index: int) -> None:
        """Replace this tensor of the graph by argument `index` in the body."""
        self._replaced[tensor] = self._arguments[index]

    def argument(self, index: int) -> tuple[str, int]:
        """Return an argument as a tensor of the body."""
        return self._arguments[index], 0

    def connect(self) -> None:
        """Connect the members to their arguments.

        Raises Declined for an input that is neither a member nor replaced.
        """
        for name in self._members:
            for index, tensor in enumerate(self._source.inputs(name)):
                if tensor[0] not in self.graph or tensor in self._replaced:
                    inside, output = self.moved(tensor)
                    self.graph.add_data_edge(inside, output, name, index)

    def rename(self, names: Iterable[str]) -> None:
        """Rename members that another body has too, after `connect`."""
        graph, shared = self.graph, set(names)
        for old in [name for name in graph.topological_order() if name in shared]:
            node = graph.node(old)
            new = self._add(
                old,
                node.op,
                graph.inputs(old),
                node.attrs,
                node.output_shapes,
                graph.control_inputs(old),
            )
            for output in range(len(node.output_dtypes)):
                graph.redirect_output(old, output, new, output)
            graph.redirect_control(old, new)
            graph.node(new).origin = node.origin
            graph.remove_op(old)
            self._renamed[old] = new

    def moved(self, tensor: tuple[str, int]) -> tuple[str, int]:
        """Return the tensor of the body for a tensor of the graph.

        Raises Declined when there is none.
        """
        argument = self._replaced.get(tensor)
        if argument is not None:
            return argument, 0
        tensor = self._renamed.get(tensor[0], tensor[0]), tensor[1]
        if tensor[0] not in self.graph:
            raise Declined(f"'{tensor[0]}:{tensor[1]}' does not reach the body")
        return tensor

    def constant(self, value: np.ndarray) -> tuple[str, int]:
        """Add a Const to the body.

        value: a read-only array.
        """
        attrs = {"dtype": as_dtype(value.dtype), "value": value}
        return self._add("constant", "Const", (), attrs, [value.shape]), 0

    def absent(self, dtype: DType, shape: Shape) -> tuple[str, int]:
        """Add a FakeParam, for a tensor that is never read."""
        return self._add(
            "absent", "FakeParam", (), {"dtype": dtype, "shape": TensorShape(shape)}, [shape]
        ), 0

    def result(self, index: int, tensor: tuple[str, int], waits: Iterable[str] = ()) -> None:
        """Make a tensor of the body its result `index`, after `waits`."""
        dtype = self.graph.node(tensor[0]).output_dtypes[tensor[1]].base_dtype
        self._add(f"retval_{index}", "_Retval", [tensor], {"T": dtype, "index": index}, [], waits)

    def finish(self, must_run: Iterable[str] = ()) -> Function:
        """Return the function.

        must_run: nodes that run whether or not a result depends on them, besides those with
        effects.
        """
        effects = [
            node.name
            for node in self.graph.op_nodes()
            if node.is_stateful and node.op not in ("_Arg", "_Retval")
        ]
        name = self._source.functions.new_name(self._name)
        return Function.from_graph(
            name, self.graph, self._types, [*effects, *must_run], unique=True
        )

    def _add(
        self,
        name: str,
        op: str,
        inputs: Sequence[tuple[str, int]],
        attrs: Mapping[str, Any],
        shapes: Sequence[Shape],
        waits: Iterable[str] = (),
    ) -> str:
        # no other body of the plan has this name
        name = free_name(self.graph, f"{self._name}/{name}")
        return self.graph.add_node_op(
            name,
            op,
            inputs,
            attrs,
            control_inputs=waits,
            like=self._like,
            output_shapes=tuple(shapes),
        ).name
