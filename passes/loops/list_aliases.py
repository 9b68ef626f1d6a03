"""Find the tensors that hold the same list or array."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tfjit.passes.analysis.region_tree import AliasClasses, Scope, ScopedTensor, is_structured

if TYPE_CHECKING:
    from tfjit.passes.ir.dataflow_graph import Node

_IDENTITY_LIKE: Final = frozenset({"Identity", "_Arg", "_Retval"})
# op -> (inputs, outputs) in the alias class: indices of lists, of flows, of handles
LISTS: Final[dict[str, tuple[tuple[int, ...], tuple[int, ...]]]] = {
    "TensorListFromTensor": ((), (0,)),
    "TensorListReserve": ((), (0,)),
    "TensorListSetItem": ((0,), (0,)),
    "TensorListGetItem": ((0,), ()),
    "TensorListStack": ((0,), ()),
    "TensorListLength": ((0,), ()),
}
FLOWS: Final[dict[str, tuple[tuple[int, ...], tuple[int, ...]]]] = {
    "TensorArrayV3": ((), (1,)),
    "TensorArrayScatterV3": ((3,), (0,)),
    "TensorArrayWriteV3": ((3,), (0,)),
    "TensorArrayReadV3": ((2,), ()),
    "TensorArrayGatherV3": ((2,), ()),
    "TensorArraySizeV3": ((1,), ()),
    "TensorArrayCloseV3": ((), ()),
}
INDEXED: Final = {
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


@dataclass(slots=True)
class AliasClass:
    """The tensors of one list or flow, or of one array's handle.

    uses: (scope, node) of every op that makes or uses a tensor of the class.
    """

    tensors: list[ScopedTensor] = field(default_factory=list)
    uses: list[tuple[Scope, Node]] = field(default_factory=list)
    foreign: str = ""  # an op that makes or uses a tensor in another way


class ListAliases:
    """Holds the alias classes of lists, flows and handles.

    They cover a graph and its bodies. members: the classes that contain a list or array, by root.
    """

    def __init__(self, top: Scope) -> None:
        self.top = top
        self._classes = AliasClasses(top)
        for scope in top.all():
            for node in scope.graph.op_nodes():
                self._join(scope, node)
        self.members = self._members()

    def find(self, scope: Scope, src: str, output: int) -> ScopedTensor:
        """Return the root of a tensor's class."""
        return self._classes.find((id(scope), src, output))

    def roots(self, alias_class: AliasClass) -> set[ScopedTensor]:
        """Return the roots of a class's tensors."""
        return {self._classes.find(tensor) for tensor in alias_class.tensors}

    def _join(self, scope: Scope, node: Node) -> None:
        inputs = scope.graph.inputs(node.name)
        if node.op == "Identity":
            self._classes.join((id(scope), *inputs[0]), (id(scope), node.name, 0))
        list_inputs, list_outputs = {**LISTS, **FLOWS}.get(node.op, ((), ()))
        for k in list_inputs:
            for output in list_outputs:
                self._classes.join((id(scope), *inputs[k]), (id(scope), node.name, output))

    def _members(self) -> dict[ScopedTensor, AliasClass]:
        """Return the alias classes that contain a list or array."""
        roots: dict[ScopedTensor, AliasClass] = {}
        for scope in self.top.all():
            for node in scope.graph.op_nodes():
                _, list_outputs = {**LISTS, **FLOWS}.get(node.op, ((), ()))
                for output in list_outputs:
                    roots.setdefault(
                        self._classes.find((id(scope), node.name, output)), AliasClass()
                    )
                if node.op == "TensorArrayV3":
                    roots.setdefault(self._classes.find((id(scope), node.name, 0)), AliasClass())
        for scope in self.top.all():
            for node in scope.graph.op_nodes():
                self._collect(scope, node, roots)
        return roots

    def _collect(self, scope: Scope, node: Node, roots: dict[ScopedTensor, AliasClass]) -> None:
        known = {**LISTS, **FLOWS}.get(node.op)
        passes = is_structured(node) or (
            node.op in _IDENTITY_LIKE and (scope is not self.top or node.op == "Identity")
        )
        for output in range(len(node.output_dtypes)):
            alias_class = roots.get(self._classes.find((id(scope), node.name, output)))
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
            alias_class = roots.get(self._classes.find((id(scope), src, output)))
            if alias_class is not None and not passes:
                handle = node.op in FLOWS and k == 0
                self._use(alias_class, scope, node, known is not None and (k in known[0] or handle))

    def _use(self, alias_class: AliasClass, scope: Scope, node: Node, understood: bool) -> None:
        if not understood:
            alias_class.foreign = f"{node.op} '{node.name}' uses it"
        elif not any(n is node for _, n in alias_class.uses):
            alias_class.uses.append((scope, node))
