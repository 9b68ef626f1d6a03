"""Turn tensor lists and arrays of static shape into dense arrays.

Their elements become rows that are read and written by index.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tfjit.passes.analysis.region_tree import close_scopes, fold_scopes, is_structured, open_scopes
from tfjit.passes.ir.declined import Declined
from tfjit.passes.loops.dense_rewrite import DenseRewrite
from tfjit.passes.loops.dense_shapes import Dense, DenseShapes
from tfjit.passes.loops.list_aliases import LISTS, AliasClass, ListAliases
from tfjit.passes.manager.pass_registry import SHAPES

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfjit.passes.analysis.region_tree import ScopedTensor
    from tfjit.passes.ir.dataflow_graph import DataflowGraph
    from tfjit.passes.manager.pass_context import PassContext

_ROUNDS: Final = 4  # each may make element shapes known that the next one needs


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
        node.op in LISTS or node.op == "TensorArrayV3" for one in graphs for node in one.op_nodes()
    )


class _Round:
    """One rewrite of all alias classes of a plan."""

    def __init__(self, graph: DataflowGraph, ctx: PassContext) -> None:
        self._ctx = ctx
        self._top = open_scopes(graph, ctx)
        self._aliases = ListAliases(self._top)
        self._found: dict[ScopedTensor, Dense] = {}

    def run(self) -> bool:
        """Rewrite the alias classes that qualify; return whether there was one."""
        shapes = DenseShapes(self._aliases)
        for root, alias_class in self._aliases.members.items():
            kinds = {node.op for _, node in alias_class.uses}
            if "TensorListReserve" in kinds or "TensorListFromTensor" in kinds:
                self._decide(root, alias_class, shapes.of_list)
            elif "TensorArrayV3" in kinds:
                self._decide(root, alias_class, shapes.of_array)
        self._drop_handles()
        if not self._found:
            return False
        rewrite = DenseRewrite(self._aliases, self._found, self._ctx)
        for scope in list(self._top.all()):
            rewrite.rewrite(scope)
        close_scopes(self._top)
        self._top.graph.tie_ends()
        return True

    def _decide(
        self, root: ScopedTensor, alias_class: AliasClass, decide: Callable[[AliasClass], Dense]
    ) -> None:
        name = alias_class.uses[0][1].name
        try:
            if alias_class.foreign:
                raise Declined(alias_class.foreign)
            dense = decide(alias_class)
        except Declined as why:
            self._ctx.log(name, f"stays a list or array: {why}")
            return
        if not (dense.is_handle or self._ctx.may_rewrite()):
            return
        self._found[root] = dense
        done = f"is an array {dense.dtype.name}{list(dense.shape)}"
        if dense.is_handle:
            self._ctx.log(name, done)  # a part of the rewrite of its flow
        else:
            self._ctx.rewrote(name, done)

    def _drop_handles(self) -> None:
        """Let handles stay where the flow of the array stays."""
        for root in [root for root, dense in self._found.items() if dense.is_handle]:
            for scope, node in self._aliases.members[root].uses:
                if node.op != "TensorArrayV3":
                    continue
                if self._aliases.find(scope, node.name, 1) not in self._found:
                    self._found.pop(root, None)


__all__ = ["dense_lists"]
