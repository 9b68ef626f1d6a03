"""Turn the tensor arrays of gradients of v1 loops into tensor lists.

Lists are values and need no order of effects.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tfjit.framework.op_defs.op_traits import WHILE
from tfjit.framework.types.dtypes import DType
from tfjit.passes.analysis.induction_variables import (
    Loop,
    Tensor,
    argument,
    behind_identities,
    read_loop,
    value_of,
)
from tfjit.passes.analysis.region_tree import Scope, is_structured
from tfjit.passes.ir.dataflow_graph import SOURCE, DataflowGraph, Node
from tfjit.passes.ir.declined import Declined
from tfjit.passes.ir.function_library import indexed
from tfjit.passes.manager.pass_context import PassContext
from tfjit.passes.manager.rewriter import insert_constant

_UNDERSTOOD: Final = frozenset(
    {"TensorArrayScatterV3", "TensorArrayReadV3", "TensorArrayWriteV3", "TensorArrayGatherV3"}
)


def array_gradients(top: Scope, ctx: PassContext) -> None:
    """Rewrite gradients of tensor arrays that one loop reads or writes.

    Such an array is filled whole and read in a loop, or written in a loop and gathered whole.

    Before: g = TensorArrayGradV3(a); f = TensorArrayScatterV3(g, range, x);
            While(a, f: TensorArrayReadV3(TensorArrayGradV3(a), i, f))
    After:  l = TensorListFromTensor(x); While(l: TensorListGetItem(l, i))
    Before: w = While(a, 0.: f + TensorArrayWriteV3(TensorArrayGradV3(a), i, x));
            TensorArrayGatherV3(TensorArrayGradV3(a), range, w)
    After:  w = While(TensorListReserve: TensorListSetItem(l, i, x)); TensorListStack(w)
    Keeps: values. Elements that were never written are zeros in both.

    The second form applies where i has no value twice, since gradients add up. Such an array is one
    object under many handles. All of the handles are in the plan's own graph and in bodies of its
    loops. The scopes are changed.
    """
    loops: dict[str, Loop] = {}
    for node in list(top.graph.op_nodes()):
        if node.has_trait(WHILE):
            loops[node.name] = read_loop(top, node.name)
    for node in [node for node in top.graph.op_nodes() if node.op == "TensorArrayV3"]:
        try:
            by_source: dict[bytes, list[tuple[Loop | None, Node]]] = {}
            for loop, made in _gradients_of(top, node, loops):
                by_source.setdefault(made.attrs["source"], []).append((loop, made))
            for found in by_source.values():
                if not ctx.may_rewrite():
                    return
                _Gradient(top, node, found).rewrite()
                ctx.rewrote(node.name, "its gradient is a list")
        except Declined as why:
            ctx.log(node.name, f"its gradient stays an array: {why}")


def _gradients_of(
    top: Scope, array: Node, loops: dict[str, Loop]
) -> list[tuple[Loop | None, Node]]:
    """Return where handles of an array's gradients are made.

    Each entry is (the loop of the body, or None; the node).
    """
    found: list[tuple[Loop | None, Node]] = []
    for name, k in top.graph.consumers(array.name, 0):
        node = top.graph.node(name)
        if node.op == "TensorArrayGradV3" and k == 0:
            found.append((None, node))
        elif name in loops and k in loops[name].unchanged:
            body = loops[name].body.graph
            for user, dst_input in _users(body, indexed(body, "_Arg")[k].name):
                if body.node(user).op == "TensorArrayGradV3" and dst_input == 0:
                    found.append((loops[name], body.node(user)))
                elif is_structured(body.node(user)):
                    raise Declined(f"'{user}' inside '{name}' uses it")
        elif is_structured(node):
            raise Declined(f"'{name}' uses it")
    return found


def _users(graph: DataflowGraph, name: str) -> list[tuple[str, int]]:
    """Return the users of a tensor, through Identity nodes."""
    found = []
    for user, k in graph.consumers(name, 0):
        if graph.node(user).op == "Identity":
            found += _users(graph, user)
        else:
            found.append((user, k))
    return found


class _Gradient:
    """One gradient of one array."""

    def __init__(self, top: Scope, array: Node, handles: list[tuple[Loop | None, Node]]) -> None:
        self.top, self.graph, self.array, self.handles = top, top.graph, array, handles
        self.uses: dict[str, list[tuple[Loop | None, Node]]] = {}
        self.dtype: DType = array.attrs["dtype"]

    def rewrite(self) -> None:
        """Turn the gradient into a list.

        Raises Declined before anything is changed.
        """
        for loop, made in self.handles:
            graph = self.graph if loop is None else loop.body.graph
            if graph.consumers(made.name, 1):
                raise Declined(f"the flow of '{made.name}' is used")
            for name, k in _users(graph, made.name):
                node = graph.node(name)
                if node.op not in _UNDERSTOOD or k:
                    raise Declined(f"{node.op} '{name}' uses it")
                self.uses.setdefault(node.op, []).append((loop, node))
        scatters, writes = (
            self.uses.get("TensorArrayScatterV3", []),
            self.uses.get("TensorArrayWriteV3", []),
        )
        reads, gathers = (
            self.uses.get("TensorArrayReadV3", []),
            self.uses.get("TensorArrayGatherV3", []),
        )
        if len(scatters) == 1 and not writes and not gathers and scatters[0][0] is None:
            self._read_in_loops(scatters[0][1], reads)
        elif (
            len(writes) == 1
            and len(gathers) == 1
            and not scatters
            and not reads
            and writes[0][0] is not None
            and gathers[0][0] is None
        ):
            self._written_in_loop(writes[0][0], writes[0][1], gathers[0][1])
        else:
            raise Declined(
                f"it is filled {len(scatters)} times whole and {len(writes)} times by elements"
            )

    # ---- filled whole, read in loops

    def _read_in_loops(self, scatter: Node, reads: list[tuple[Loop | None, Node]]) -> None:
        graph = self.graph
        inputs = graph.inputs(scatter.name)
        self._expect_all(inputs[1])
        takers: dict[str, tuple[Loop, int]] = {}
        for loop, read in reads:
            if loop is None:
                raise Declined(f"'{read.name}' is in no loop")
            m = argument(loop.body, loop.body.graph.inputs(read.name)[2])
            if m is None or m not in loop.unchanged or loop.inputs[m] != (scatter.name, 0):
                raise Declined(f"'{read.name}' uses another flow")
            takers[loop.name] = loop, m
        for name, k in graph.consumers(scatter.name, 0):
            if takers.get(name, (None, -1))[1] != k:
                raise Declined(f"'{name}' uses its flow")
        for loop, m in takers.values():
            self._expect_no_other_use(loop, m, {read.name for _, read in reads})
        whole = insert_constant(graph, scatter, np.array(-1, np.int32))
        graph.change_op(
            scatter.name, "TensorListFromTensor", [inputs[2], whole], {"element_dtype": self.dtype}
        ).output_shapes = ((),)
        for loop, m in takers.values():
            _carry(self.top, loop, m, (scatter.name, 0))
        for read_loop_, read in reads:
            assert read_loop_ is not None
            body = read_loop_.body.graph
            _, index, flow = body.inputs(read.name)
            attrs = {"element_dtype": self.dtype}
            body.change_op(
                read.name,
                "TensorListGetItem",
                [flow, index, insert_constant(body, read, np.array(-1, np.int32))],
                attrs,
            )
        self._drop_handles()

    # ---- written in a loop, taken out whole

    def _written_in_loop(self, loop: Loop, write: Node, gather: Node) -> None:
        graph, body = self.graph, loop.body.graph
        size = value_of(self.top, graph.inputs(self.array.name)[0])
        if size is None or size.ndim or size <= 0:
            raise Declined("its size is not known")
        self._expect_all(graph.inputs(gather.name)[1])
        _, index, value, _ = body.inputs(write.name)
        if not counts(loop, index):
            raise Declined(f"'{write.name}' may add to existing values")
        sums = body.consumers(write.name, 0)
        total = body.node(sums[0][0]) if len(sums) == 1 else None
        if (
            total is None
            or total.op not in ("AddV2", "Add", "AddN")
            or len(body.inputs(total.name)) != 2
        ):
            raise Declined(f"the flow of '{write.name}' is used")
        other = body.inputs(total.name)[1 - sums[0][1]]
        m = argument(loop.body, other)
        results = indexed(body, "_Retval")
        if m is None or behind_identities(loop.body, body.inputs(results[m].name)[0]) != (
            total.name,
            0,
        ):
            raise Declined(f"the flow of '{write.name}' is used")
        start = value_of(self.top, loop.inputs[m])
        if start is None or start.ndim or start != 0:
            raise Declined(f"'{loop.name}' starts with another flow")
        handles = {made.name for outside, made in self.handles if outside is None}
        if graph.inputs(gather.name)[2] != (loop.name, m) or any(
            name not in handles and name != gather.name for name, _ in graph.consumers(loop.name, m)
        ):
            raise Declined(f"the final value of it after '{loop.name}' is used")
        taken = _users(body, indexed(body, "_Arg")[m].name)
        if taken != [(total.name, 1 - sums[0][1])] or [
            user for user, _ in _users(body, total.name)
        ] != [results[m].name]:
            raise Declined(f"the flow of '{write.name}' is used")
        # nothing is changed before this
        unknown = insert_constant(graph, self.array, np.array(-1, np.int32))
        length = insert_constant(graph, self.array, np.array(int(size), np.int32))
        name = graph.new_name(f"{self.array.name}/gradient")
        made = graph.add_node_op(
            name,
            "TensorListReserve",
            [unknown, length],
            {"element_dtype": self.dtype},
            like=self.array,
        )
        made.output_shapes = ((),)
        _carry(self.top, loop, m, (made.name, 0))
        body.change_op(
            write.name,
            "TensorListSetItem",
            [(indexed(body, "_Arg")[m].name, 0), index, value],
            {"element_dtype": self.dtype},
        )
        write.output_shapes = ((),)
        body.change_op(
            results[m].name,
            "_Retval",
            [(write.name, 0)],
            {**results[m].attrs, "T": write.output_dtypes[0]},
        )
        _drop(body, total.name)
        shape = gather.attrs.get("element_shape")
        dims = None if shape is None else shape.dims_tuple
        asked = (
            np.array(-1, np.int32)
            if dims is None
            else np.array([-1 if d is None else d for d in dims], np.int32)
        )
        attrs = {"element_dtype": self.dtype, "num_elements": int(size)}
        graph.change_op(
            gather.name,
            "TensorListStack",
            [(loop.name, m), insert_constant(graph, gather, asked)],
            attrs,
        )
        self._drop_handles()

    # ---- common

    def _expect_all(self, indices: Tensor) -> None:
        size = value_of(self.top, self.graph.inputs(self.array.name)[0])
        value = value_of(self.top, indices)
        if (
            size is None
            or value is None
            or size.ndim
            or not np.array_equal(value, np.arange(int(size)))
        ):
            raise Declined("it is not filled or emptied whole, in the order of its elements")

    def _expect_no_other_use(self, loop: Loop, m: int, known: set[str]) -> None:
        """Raise Declined if a flow has a use beyond the known ones.

        Other uses are the handles of the gradient, and the result of the body.
        """
        if self.graph.consumers(loop.name, m):
            raise Declined(f"the flow output of '{loop.name}' is used")
        handles = {made.name for _, made in self.handles}
        for scope in (loop.cond, loop.body):
            arg = indexed(scope.graph, "_Arg").get(m)
            for user, _ in _users(scope.graph, arg.name) if arg is not None else ():
                if (
                    user not in known
                    and user not in handles
                    and scope.graph.node(user).op != "_Retval"
                ):
                    raise Declined(f"'{user}' uses its flow")

    def _drop_handles(self) -> None:
        for loop, made in self.handles:
            scope = self.top if loop is None else loop.body
            scope.changed = True
            _drop(scope.graph, made.name)


def _drop(graph: DataflowGraph, name: str) -> None:
    """Remove the node and its unused Identity users.

    Its control successors get control edges from its inputs and control inputs.
    """
    for user, _ in graph.consumers(name):
        if graph.node(user).op == "Identity":
            _drop(graph, user)
    before = [*graph.control_inputs(name), *(src for src, _ in graph.inputs(name))]
    for waiting in graph.control_consumers(name):
        for src in before:
            if src != SOURCE:
                graph.add_control_edge(src, waiting)
    graph.remove_op(name)


def counts(loop: Loop, tensor: Tensor) -> bool:
    """Return whether a number in a body differs in each iteration.

    That follows from an induction variable.
    """
    body = loop.body
    tensor = behind_identities(body, tensor)
    k = argument(body, tensor)
    if k is not None:
        return k in loop.induction_variables and loop.trips is not None
    node = body.graph.node(tensor[0])
    if node.op not in ("Add", "AddV2", "Sub"):
        return False
    sides = body.graph.inputs(node.name)
    known = [value_of(body, side) is not None for side in sides]
    return sum(known) == 1 and counts(loop, sides[known.index(False)])


def _carry(top: Scope, loop: Loop, m: int, start: Tensor) -> None:
    """Make variable m of a loop a list starting with `start`."""
    graph = top.graph
    node = graph.node(loop.name)
    variant = graph.node(start[0]).output_dtypes[start[1]]
    shapes = node.output_shapes
    attrs = {
        **node.attrs,
        "T": tuple(variant if i == m else old for i, old in enumerate(node.attrs["T"])),
        "output_shapes": (),
    }
    inputs = list(graph.inputs(loop.name))
    inputs[m] = start
    for scope in (loop.cond, loop.body):
        scope.changed = True
        pending = [arg.name for arg in [indexed(scope.graph, "_Arg").get(m)] if arg is not None]
        while pending:
            member = scope.graph.node(pending.pop(0))
            if member.op != "_Retval":
                pending += [
                    user
                    for user, _ in scope.graph.consumers(member.name)
                    if scope.graph.node(user).op in ("Identity", "_Retval")
                ]
            scope.graph.change_op(
                member.name,
                member.op,
                scope.graph.inputs(member.name),
                {**member.attrs, "T": variant},
            )
            member.output_shapes = ((),) * len(member.output_dtypes)
    graph.change_op(loop.name, node.op, inputs, attrs).output_shapes = tuple(
        () if i == m else old for i, old in enumerate(shapes)
    )
    top.changed = True


__all__ = ["array_gradients", "counts"]
