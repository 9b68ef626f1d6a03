"""Turn tensor lists and arrays of static shape into dense arrays.

Their elements become rows that are read and written by index.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from tfjit.framework.op_defs.op_traits import WHILE
from tfjit.framework.types.dtypes import DType, as_dtype
from tfjit.framework.types.shape import Shape, is_compatible
from tfjit.passes.analysis.induction_variables import counted_from, read_loop
from tfjit.passes.analysis.region_tree import (
    AliasClasses,
    Scope,
    ScopedTensor,
    close_scopes,
    fold_scopes,
    is_structured,
    open_scopes,
)
from tfjit.passes.ir.constant_value import constant_value
from tfjit.passes.ir.dataflow_graph import DataflowGraph, Node
from tfjit.passes.ir.declined import Declined
from tfjit.passes.manager.pass_context import PassContext
from tfjit.passes.manager.pass_registry import SHAPES
from tfjit.passes.manager.rewriter import insert_constant, is_static, tensor_shape

_ROUNDS: Final = 4  # each may make element shapes known that the next one needs

_IDENTITY_LIKE: Final = frozenset({"Identity", "_Arg", "_Retval"})
# op -> (inputs, outputs) in the alias class: indices of lists, of flows, of handles
_LISTS: Final[dict[str, tuple[tuple[int, ...], tuple[int, ...]]]] = {
    "TensorListFromTensor": ((), (0,)),
    "TensorListReserve": ((), (0,)),
    "TensorListSetItem": ((0,), (0,)),
    "TensorListGetItem": ((0,), ()),
    "TensorListStack": ((0,), ()),
    "TensorListLength": ((0,), ()),
}
_FLOWS: Final[dict[str, tuple[tuple[int, ...], tuple[int, ...]]]] = {
    "TensorArrayV3": ((), (1,)),
    "TensorArrayScatterV3": ((3,), (0,)),
    "TensorArrayWriteV3": ((3,), (0,)),
    "TensorArrayReadV3": ((2,), ()),
    "TensorArrayGatherV3": ((2,), ()),
    "TensorArraySizeV3": ((1,), ()),
    "TensorArrayCloseV3": ((), ()),
}
_INDEXED: Final = {
    "TensorListGetItem": (
        "_GetRow",
        "Trying to access element {{detail}} in a list with {count} elements.",
    ),
    "TensorListSetItem": (
        "_SetRow",
        "Trying to modify element {{detail}} in a list with {count} elements.",
    ),
    "TensorArrayReadV3": (
        "_GetRow",
        "Tried to read from index {{detail}} but array size is: {count}",
    ),
    "TensorArrayWriteV3": (
        "_SetRow",
        "Tried to write to index {{detail}} but array is not resizeable and size is: {count}",
    ),
}


def dense_lists(graph: DataflowGraph, ctx: PassContext) -> None:
    """Replace lists and tensor arrays by the arrays that their stacks are.

    Such an array has the shape [length, *element shape].

    Before: l = TensorListReserve([2], 9); While(l: TensorListSetItem(l, i, x)); TensorListStack
    After:  l = Fill([9, 2], 0);           While(l: _SetRow(l, i, x));           Identity
    Keeps: values and errors.
    Needs: `infer_shapes`, `inline_functions`. This pass propagates the shapes that it makes known.

    Lists: TensorListReserve and TensorListFromTensor, with items read and set, stacks, lengths,
    through loops and branches. Arrays: a TensorArrayV3 that is filled and emptied whole, row by row
    of a loop's induction variable, or by single rows, each row written once; the flow becomes the
    array.

    An array stays where some element may never be written and the array declares no element shape,
    since reading such an element is an error then. An unset element of a list is zeros. A stack of
    only unset elements is zeros here, and for undeclared element shapes an error in TensorFlow.
    """
    if not _has_lists(graph):
        return
    changed = False
    for _ in range(_ROUNDS):
        if not _Round(graph, ctx).run():
            break
        changed = True
        ctx.invalidate(SHAPES)
        ctx.run(graph, "infer_shapes")
    if changed:
        ctx.run(graph, "simplify", "fold_constants", "infer_shapes")
        top = open_scopes(graph, ctx)
        fold_scopes(top)  # values used only for their shape are not needed then
        close_scopes(top)
        ctx.run(graph, "trim_loops", "infer_shapes")


def _has_lists(graph: DataflowGraph) -> bool:
    """Return whether a graph or its bodies make lists or arrays."""
    library = graph.functions
    graphs = [graph]
    if any(is_structured(node) for node in graph.op_nodes()):
        graphs += [library.body(ref).graph for ref in library.reachable(graph)]
    return any(
        node.op in _LISTS or node.op == "TensorArrayV3" for one in graphs for node in one.op_nodes()
    )


def _overlap(taken: list[np.ndarray]) -> bool:
    """Return whether some row is in two of the sets."""
    return bool(taken) and bool((np.sum(taken, axis=0) > 1).any())


@dataclass(slots=True)
class _AliasClass:
    """The tensors of one list or flow, or of one array's handle.

    uses: (scope, node) of every op that makes or uses a tensor of the class.
    """

    tensors: list[ScopedTensor] = field(default_factory=list)
    uses: list[tuple[Scope, Node]] = field(default_factory=list)
    foreign: str = ""  # an op that makes or uses a tensor in another way


@dataclass(frozen=True, slots=True)
class _Dense:
    """The array for an alias class; handles become unused numbers."""

    dtype: DType
    shape: tuple[int, ...]
    is_handle: bool = False


class _Round:
    """One rewrite of all alias classes of a plan."""

    def __init__(self, graph: DataflowGraph, ctx: PassContext) -> None:
        self.ctx = ctx
        self.top = open_scopes(graph, ctx)
        self.alias_classes = AliasClasses(self.top)
        self.found: dict[ScopedTensor, _Dense] = {}

    def run(self) -> bool:
        """Rewrite the alias classes that qualify; return whether there was one."""
        for scope in self.top.all():
            for node in scope.graph.op_nodes():
                self._join(scope, node)
        members = self._members()
        for root, alias_class in members.items():
            kinds = {node.op for _, node in alias_class.uses}
            if "TensorListReserve" in kinds or "TensorListFromTensor" in kinds:
                self._decide(
                    root, alias_class, lambda alias_class=alias_class: self._list(alias_class)
                )
            elif "TensorArrayV3" in kinds:
                self._decide(
                    root,
                    alias_class,
                    lambda alias_class=alias_class: self._array(alias_class, members),
                )
        self._drop_handles(members)
        if not self.found:
            return False
        for scope in list(self.top.all()):
            self._rewrite(scope)
        close_scopes(self.top)
        self.top.graph.tie_ends()
        return True

    def _join(self, scope: Scope, node: Node) -> None:
        inputs = scope.graph.inputs(node.name)
        if node.op == "Identity":
            self.alias_classes.join((id(scope), *inputs[0]), (id(scope), node.name, 0))
        list_inputs, list_outputs = {**_LISTS, **_FLOWS}.get(node.op, ((), ()))
        for k in list_inputs:
            for output in list_outputs:
                self.alias_classes.join((id(scope), *inputs[k]), (id(scope), node.name, output))

    def _members(self) -> dict[ScopedTensor, _AliasClass]:
        """Return the alias classes that contain a list or array."""
        roots: dict[ScopedTensor, _AliasClass] = {}
        for scope in self.top.all():
            for node in scope.graph.op_nodes():
                _, list_outputs = {**_LISTS, **_FLOWS}.get(node.op, ((), ()))
                for output in list_outputs:
                    roots.setdefault(
                        self.alias_classes.find((id(scope), node.name, output)), _AliasClass()
                    )
                if node.op == "TensorArrayV3":
                    roots.setdefault(
                        self.alias_classes.find((id(scope), node.name, 0)), _AliasClass()
                    )
        for scope in self.top.all():
            for node in scope.graph.op_nodes():
                self._collect(scope, node, roots)
        return roots

    def _collect(self, scope: Scope, node: Node, roots: dict[ScopedTensor, _AliasClass]) -> None:
        known = {**_LISTS, **_FLOWS}.get(node.op)
        passes = is_structured(node) or (
            node.op in _IDENTITY_LIKE and (scope is not self.top or node.op == "Identity")
        )
        for output in range(len(node.output_dtypes)):
            alias_class = roots.get(self.alias_classes.find((id(scope), node.name, output)))
            if alias_class is None:
                continue
            alias_class.tensors.append((id(scope), node.name, output))
            if not passes:
                self._use(
                    alias_class,
                    scope,
                    node,
                    known is not None and (output in known[1] or node.op == "TensorArrayV3"),
                )
        for k, (src, output) in enumerate(scope.graph.inputs(node.name)):
            alias_class = roots.get(self.alias_classes.find((id(scope), src, output)))
            if alias_class is not None and not passes:
                handle = node.op in _FLOWS and k == 0
                self._use(alias_class, scope, node, known is not None and (k in known[0] or handle))

    def _use(self, alias_class: _AliasClass, scope: Scope, node: Node, understood: bool) -> None:
        if not understood:
            alias_class.foreign = f"{node.op} '{node.name}' uses it"
        elif not any(n is node for _, n in alias_class.uses):
            alias_class.uses.append((scope, node))

    def _decide(self, root: ScopedTensor, alias_class: _AliasClass, decide: Any) -> None:
        name = alias_class.uses[0][1].name
        try:
            if alias_class.foreign:
                raise Declined(alias_class.foreign)
            dense = decide()
        except Declined as why:
            self.ctx.log(name, f"stays a list or array: {why}")
            return
        if dense is None or not (dense.is_handle or self.ctx.may_rewrite()):
            return
        self.found[root] = dense
        done = f"is an array {dense.dtype.name}{list(dense.shape)}"
        if dense.is_handle:
            self.ctx.log(name, done)  # a part of the rewrite of its flow
        else:
            self.ctx.rewrote(name, done)

    def _drop_handles(self, members: dict[ScopedTensor, _AliasClass]) -> None:
        """Let handles stay where the flow of the array stays."""
        for root in [root for root, dense in self.found.items() if dense.is_handle]:
            for scope, node in members[root].uses:
                if node.op != "TensorArrayV3":
                    continue
                if self.alias_classes.find((id(scope), node.name, 1)) not in self.found:
                    self.found.pop(root, None)

    # ---- eligibility and shape

    def _value(self, scope: Scope, tensor: tuple[str, int]) -> np.ndarray | None:
        found = constant_value(scope.graph, *tensor)
        return found if found is not None else scope.ctx.values.get(tensor)

    def _list(self, alias_class: _AliasClass) -> _Dense:
        counts: set[int] = set()
        elements: list[Shape] = []
        dtypes: set[DType] = set()
        self._expect_bodies(alias_class)
        for scope, node in alias_class.uses:
            inputs = scope.graph.inputs(node.name)
            if node.op in _INDEXED:
                self._expect_scalar(scope, inputs[1])
            if "element_dtype" in node.attrs:
                dtypes.add(node.attrs["element_dtype"])
            if node.op == "TensorListFromTensor":
                shape = tensor_shape(scope.graph, *inputs[0])
                if not is_static(shape) or not shape:
                    raise Declined(f"the shape of '{inputs[0][0]}' is not known")
                counts.add(shape[0] or 0)
                elements += [shape[1:], self._element_shape(scope, inputs[1])]
            elif node.op == "TensorListReserve":
                count = self._value(scope, inputs[1])
                if count is None or count.ndim or count < 0:
                    raise Declined("its length is not known")
                counts.add(int(count))
                elements.append(self._element_shape(scope, inputs[0]))
            elif node.op == "TensorListSetItem":
                if node.attrs.get("resize_if_index_out_of_bounds"):
                    raise Declined("it may grow")
                elements.append(tensor_shape(scope.graph, *inputs[2]))
            elif node.op in ("TensorListGetItem", "TensorListStack"):
                elements.append(
                    self._element_shape(scope, inputs[2 if node.op == "TensorListGetItem" else 1])
                )
        for scope, node in alias_class.uses:
            if node.op == "TensorListStack" and node.attrs.get("num_elements", -1) not in (
                -1,
                *counts,
            ):
                raise Declined(f"'{node.name}' requires another length")
            declares = node.op != "TensorListStack" or is_static(
                self._element_shape(scope, scope.graph.inputs(node.name)[1])
            )
            if 0 in counts and not declares:
                raise Declined("it has no elements, and their shape is not declared")
        return self._dense(counts, elements, dtypes)

    def _element_shape(self, scope: Scope, tensor: tuple[str, int]) -> Shape:
        value = self._value(scope, tensor)
        if value is None or (value.ndim == 0 and int(value) == -1):
            return None
        if value.ndim != 1 or (value < -1).any():
            raise Declined(f"'{tensor[0]}' is not a shape")
        return tuple(None if size < 0 else int(size) for size in value)

    def _dense(self, counts: set[int], elements: list[Shape], dtypes: set[DType]) -> _Dense:
        known = [shape for shape in elements if shape is not None and None not in shape]
        if not known:
            raise Declined("the shape of its elements is not known")
        if (
            len(counts) != 1
            or len(dtypes) != 1
            or not all(is_compatible(shape, known[0]) for shape in elements)
        ):
            raise Declined("its elements differ")
        dtype = next(iter(dtypes))
        if not dtype.is_numpy_compatible or dtype.name == "string":
            raise Declined(f"its elements are of type {dtype.name}")
        return _Dense(dtype, (counts.pop(), *(size or 0 for size in known[0])))

    def _expect_bodies(self, alias_class: _AliasClass) -> None:
        """Raise Declined for a list outside of loops and branches.

        Nothing would be gained there, and the kernels of lists report every error.
        """
        if all(scope == id(self.top) for scope, _, _ in alias_class.tensors):
            raise Declined("no loop or branch uses it")

    def _expect_scalar(self, scope: Scope, tensor: tuple[str, int]) -> None:
        if tensor_shape(scope.graph, *tensor) != ():
            raise Declined(f"the index '{tensor[0]}' is not known to be a scalar")

    def _array(
        self, alias_class: _AliasClass, members: dict[ScopedTensor, _AliasClass]
    ) -> _Dense | None:
        made = [(scope, node) for scope, node in alias_class.uses if node.op == "TensorArrayV3"]
        if len(made) != 1:
            raise Declined("several arrays meet")
        scope, array = made[0]
        handle = self.alias_classes.find((id(scope), array.name, 0))
        flow = self.alias_classes.find((id(scope), array.name, 1))
        if members[handle].foreign or members[flow].foreign:
            raise Declined(members[handle].foreign or members[flow].foreign)
        if (
            handle == flow
            or len({id(node) for _, node in members[handle].uses if node.op == "TensorArrayV3"})
            != 1
        ):
            raise Declined("several arrays meet")
        dense = self._array_shape(scope, array, members[flow])
        for user, node in members[handle].uses:
            list_inputs = _FLOWS[node.op][0]
            inputs = user.graph.inputs(node.name)
            if any(self.alias_classes.find((id(user), *inputs[k])) != flow for k in list_inputs):
                raise Declined(f"'{node.name}' uses another flow")
        return (
            _Dense(as_dtype("float32"), (), True)
            if self.alias_classes.find((id(scope), array.name, 0)) in self._roots(alias_class)
            else dense
        )

    def _roots(self, alias_class: _AliasClass) -> set[ScopedTensor]:
        return {self.alias_classes.find(tensor) for tensor in alias_class.tensors}

    def _array_shape(self, scope: Scope, array: Node, alias_class: _AliasClass) -> _Dense:
        if array.attrs.get("dynamic_size"):
            raise Declined("it may grow")
        size = self._value(scope, scope.graph.inputs(array.name)[0])
        if size is None or size.ndim or size < 0:
            raise Declined("its size is not known")
        count = int(size)
        declared = array.attrs.get("element_shape")
        elements: list[Shape] = [declared.dims_tuple] if declared is not None else []
        self._expect_bodies(alias_class)
        everything = np.ones(count, bool)
        written: list[tuple[np.ndarray, bool]] = []
        read: list[np.ndarray] = []
        for user, node in alias_class.uses:
            inputs = user.graph.inputs(node.name)
            if node.op in _INDEXED:
                self._expect_scalar(user, inputs[1])
            if node.op == "TensorArrayReadV3" and array.attrs.get("clear_after_read"):
                read.append(self._rows(scope, user, node, inputs[1], count)[0])
            if node.op == "TensorArrayScatterV3":
                shape = tensor_shape(user.graph, *inputs[2])
                self._expect_whole(scope, user, node, inputs[1], count)
                elements.append(None if shape is None else shape[1:])
                written.append((everything, True))
            elif node.op == "TensorArrayGatherV3":
                self._expect_whole(scope, user, node, inputs[1], count)
                read.append(everything)
            elif node.op == "TensorArrayWriteV3":
                elements.append(tensor_shape(user.graph, *inputs[2]))
                written.append(self._rows(scope, user, node, inputs[1], count))
        if _overlap([rows for rows, _ in written]):
            raise Declined("its elements may be written twice")
        if array.attrs.get("clear_after_read") and _overlap(read):
            raise Declined("its elements may be read twice")
        surely = sum((rows for rows, always in written if always), np.zeros(count, bool))
        if not surely.all() and not is_static(elements[0] if declared is not None else None):
            raise Declined("an element without a declared shape may be read before it is written")
        return self._dense({count}, elements, {array.attrs["dtype"]})

    def _expect_whole(
        self, owner: Scope, scope: Scope, node: Node, indices: tuple[str, int], count: int
    ) -> None:
        value = self._value(scope, indices)
        if value is None or not np.array_equal(value, np.arange(count)):
            raise Declined(f"'{node.name}' does not read all elements in order")
        if scope is not owner and (scope.key != "cond" and node.op == "TensorArrayScatterV3"):
            raise Declined(f"'{node.name}' may write its elements twice")

    def _rows(
        self, owner: Scope, scope: Scope, node: Node, index: tuple[str, int], count: int
    ) -> tuple[np.ndarray, bool]:
        """Return the rows that an op uses, and whether all surely.

        No row comes twice. owner: the scope that makes the array. An op there uses one row; an op
        in the body of a loop there uses the rows of an induction variable.
        """
        rows = np.zeros(count, bool)
        if scope is owner:
            value = self._value(scope, index)
            if value is None:
                return np.ones(count, bool), False
            rows[[k for k in (int(value),) if 0 <= k < count]] = True
            return rows, True
        if scope.key != "body" or scope not in owner.children.get(scope.node, ()):
            raise Declined(f"'{node.name}' is not in a loop around which the array is made")
        loop = read_loop(owner, scope.node)
        offset, k = counted_from(scope, index)
        if k in loop.steps and k not in loop.induction_variables:
            return np.ones(count, bool), False
        variable = loop.induction_variables.get(k)
        if variable is None:
            raise Declined(f"'{node.name}' is not indexed by its loop's counter")
        first, last = (
            variable.start + offset,
            variable.start + offset + variable.step * (loop.at_most or 0),
        )
        if loop.at_most is None:
            last = count if variable.step > 0 else -1
        taken = range(first, last, variable.step)
        if variable.step < 0:
            taken = taken[::-1]
        low = taken[max(-(taken.start // taken.step), 0) :] if taken.start < 0 else taken
        rows[low.start : max(low.stop, 0) : low.step] = True
        return rows, loop.trips is not None

    # ---- rewriting

    def _of(self, scope: Scope, tensor: tuple[str, int]) -> _Dense | None:
        return self.found.get(self.alias_classes.find((id(scope), *tensor)))

    def _rewrite(self, scope: Scope) -> None:
        """Change the types of carriers of alias classes first, then the ops.

        Every tensor has its type before its users are made.
        """
        graph = scope.graph
        nodes = [
            graph.node(name)
            for name in graph.topological_order()
            if name not in ("_SOURCE", "_SINK")
        ]
        planned = [self._plan(scope, node) for node in nodes]
        for plan in planned:
            if plan is not None:
                scope.changed = True
                plan()
                self.ctx.invalidate(SHAPES)
        if scope.changed:
            graph.forget_order()

    def _plan(self, scope: Scope, node: Node) -> Any:
        graph, op = scope.graph, node.op
        inputs = graph.inputs(node.name)
        taken = [self._of(scope, tensor) for tensor in inputs]
        given = [self._of(scope, (node.name, output)) for output in range(len(node.output_dtypes))]
        if not any(taken) and not any(given):
            return None
        if op == "_Arg" and given[0] is not None:
            dense = given[0]
            return lambda: self._shaped(
                graph.change_op(node.name, op, [], {**node.attrs, "T": dense.dtype}), dense
            )
        if op in ("_Retval", "Identity") and taken[0] is not None:
            dense = taken[0]
            return lambda: self._shaped(
                graph.change_op(
                    node.name, op, graph.inputs(node.name), {**node.attrs, "T": dense.dtype}
                ),
                dense,
            )
        if is_structured(node):
            return lambda: self._carry(graph, node, taken, given)
        return lambda: self._op(scope.graph, node, taken, given)

    def _shaped(self, node: Node, dense: _Dense) -> None:
        node.output_shapes = (dense.shape,) * len(node.output_dtypes)

    def _carry(
        self,
        graph: DataflowGraph,
        node: Node,
        taken: list[_Dense | None],
        given: list[_Dense | None],
    ) -> None:
        attrs, shapes = dict(node.attrs), list(node.output_shapes)
        if "output_shapes" in attrs:
            attrs["output_shapes"] = ()
        if node.has_trait(WHILE):
            attrs["T"] = tuple(
                old if dense is None else dense.dtype
                for old, dense in zip(attrs["T"], taken, strict=True)
            )
        else:
            attrs["Tin"] = tuple(
                old if dense is None else dense.dtype
                for old, dense in zip(attrs["Tin"], taken[1:], strict=True)
            )
            attrs["Tout"] = tuple(
                old if dense is None else dense.dtype
                for old, dense in zip(attrs["Tout"], given, strict=True)
            )
        made = graph.change_op(node.name, node.op, graph.inputs(node.name), attrs)
        made.output_shapes = tuple(
            old if dense is None else dense.shape for old, dense in zip(shapes, given, strict=True)
        )

    def _op(
        self,
        graph: DataflowGraph,
        node: Node,
        taken: list[_Dense | None],
        given: list[_Dense | None],
    ) -> None:
        op, name = node.op, node.name
        inputs = graph.inputs(name)  # the inputs at this point of the rewrite
        if op == "TensorArrayV3":
            assert given[1] is not None
            flow = self._zeros(graph, graph.new_name(f"{name}/rows"), given[1], node)
            graph.redirect_output(name, 1, flow, 0)
            number = np.zeros((), np.float32)
            number.setflags(write=False)
            graph.change_op(
                name, "Const", [], {"dtype": as_dtype(number.dtype), "value": number}
            ).output_shapes = ((),)
            return
        if op == "TensorArrayCloseV3":
            graph.change_op(name, "NoOp", [], {})
            return
        dense = next(d for d in (*taken, *given) if d is not None and not d.is_handle)
        lists = {
            "TensorListGetItem": (0, 1),
            "TensorListSetItem": (0, 1, 2),
            "TensorArrayReadV3": (2, 1),
            "TensorArrayWriteV3": (3, 1, 2),
        }
        if op in _INDEXED:
            new, message = _INDEXED[op]
            attrs = {"T": dense.dtype, "message": message.format(count=dense.shape[0]).encode()}
            made = graph.change_op(name, new, [inputs[k] for k in lists[op]], attrs)
            made.output_shapes = (dense.shape if new == "_SetRow" else dense.shape[1:],)
        elif op == "TensorListReserve":
            dims = insert_constant(graph, node, np.array(dense.shape, np.int32))
            zero = insert_constant(graph, node, np.zeros((), dense.dtype.as_numpy_dtype))
            self._shaped(graph.change_op(name, "Fill", [dims, zero], {"T": dense.dtype}), dense)
        elif op in ("TensorListLength", "TensorArraySizeV3"):
            value = np.array(dense.shape[0], np.int32)
            value.setflags(write=False)
            graph.change_op(
                name, "Const", [], {"dtype": as_dtype(value.dtype), "value": value}
            ).output_shapes = ((),)
        else:  # an op on the whole array
            source = {
                "TensorListFromTensor": 0,
                "TensorListStack": 0,
                "TensorArrayScatterV3": 2,
                "TensorArrayGatherV3": 2,
            }[op]
            self._shaped(
                graph.change_op(name, "Identity", [inputs[source]], {"T": dense.dtype}), dense
            )

    def _zeros(self, graph: DataflowGraph, name: str, dense: _Dense, like: Node) -> str:
        dims = insert_constant(graph, like, np.array(dense.shape, np.int32))
        zero = insert_constant(graph, like, np.zeros((), dense.dtype.as_numpy_dtype))
        made = graph.add_node_op(name, "Fill", [dims, zero], {"T": dense.dtype}, like=like)
        made.output_shapes = (dense.shape,)
        return made.name


__all__ = ["dense_lists"]
