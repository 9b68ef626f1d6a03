"""Copy a graph's loop and branch bodies into a tree of scopes.

The scopes are rewritten together. Tensors that flow in and out of bodies form one alias class.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from tfjit.framework.op_defs.attrs import FuncRef
from tfjit.framework.op_defs.op_traits import CASE, IF, WHILE
from tfjit.passes.analysis.argument_info import ArgumentInfo
from tfjit.passes.ir.dataflow_graph import DataflowGraph, Node
from tfjit.passes.ir.function_library import Function, indexed
from tfjit.passes.ir.region_path import branch_part
from tfjit.passes.manager.pass_context import PassContext
from tfjit.passes.manager.rewriter import tensor_shape


@dataclass(eq=False, slots=True)
class Scope:
    """One region: a graph and its place in the parent's graph.

    function: the function whose body was copied; None for the plan's own graph. node, key, number:
    the parent's node, its attribute and the index therein that name the function. ctx: context of
    the shape inference over the graph.
    """

    graph: DataflowGraph
    ctx: PassContext
    function: Function | None = None
    node: str = ""
    key: str = ""
    number: int = 0
    children: dict[str, list[Scope]] = field(default_factory=dict)
    changed: bool = False

    def all(self) -> Iterator[Scope]:
        """Yield this scope and all nested scopes, outermost first."""
        yield self
        for scopes in self.children.values():
            for scope in scopes:
                yield from scope.all()


# Op types that need not run for an effect any more: arrays and stacks have become values.
_PURE: Final = frozenset({"_GetRow", "_SetRow", "TensorListPushBack", "TensorListPopBack"})
ScopedTensor = tuple[int, str, int]  # id of a scope, node, output


def is_structured(node: Node) -> bool:
    """Return whether a node runs bodies that become scopes."""
    return node.has_trait(WHILE | IF | CASE)


def open_scopes(graph: DataflowGraph, ctx: PassContext) -> Scope:
    """Return the scopes of a graph with known shapes.

    The bodies are copies; their shapes are inferred here.
    """
    scope = Scope(graph, ctx)
    _open_children(scope)
    return scope


def _open_children(scope: Scope) -> None:
    graph = scope.graph
    for node in list(graph.op_nodes()):
        if not is_structured(node):
            continue
        opened = []
        for key, number, ref in _refs(node):
            function = graph.functions.body(ref)
            body = function.graph.copy()
            inputs = graph.inputs(node.name)[0 if node.has_trait(WHILE) else 1 :]
            part = branch_part(number, is_if=False) if key == "branches" else key
            ctx = scope.ctx.child(node.name, part)
            ctx.watch(body, is_scope=True)
            given: dict[str, ArgumentInfo] = {}
            for k, arg in indexed(body, "_Arg").items():
                src, output = inputs[k]
                shape = (
                    node.output_shapes[k]
                    if node.has_trait(WHILE)
                    else tensor_shape(graph, src, output)
                )
                items = scope.ctx.lists.get(
                    (node.name, k) if node.has_trait(WHILE) else (src, output)
                )
                given[arg.name] = ArgumentInfo(
                    shape, scope.ctx.handles.get((src, output)), items=items
                )
            body.graph["given"] = given
            ctx.run(body, "infer_shapes")
            opened.append(Scope(body, ctx, function, node.name, key, number))
            _open_children(opened[-1])
        scope.children[node.name] = opened


def fold_scopes(top: Scope) -> None:
    """Fold in the bodies everything that follows from the known shapes."""
    for scope in top.all():
        if scope is not top:
            scope.ctx.run(scope.graph, "fold_body")
            scope.changed = True


def _refs(node: Node) -> list[tuple[str, int, FuncRef]]:
    attrs = node.attrs
    if node.has_trait(WHILE):
        return [("cond", 0, attrs["cond"]), ("body", 0, attrs["body"])]
    if node.has_trait(IF):
        return [("then_branch", 0, attrs["then_branch"]), ("else_branch", 0, attrs["else_branch"])]
    return [("branches", k, ref) for k, ref in enumerate(attrs["branches"])]


def close_scopes(scope: Scope) -> None:
    """Add the changed bodies to the library and refer to them."""
    for name, children in scope.children.items():
        node = scope.graph.node(name)
        for child in children:
            close_scopes(child)
            if not child.changed:
                continue
            scope.changed = True
            assert child.function is not None
            library = scope.graph.functions
            must_run = [
                run
                for run in child.function.must_run
                if run in child.graph and child.graph.node(run).op not in _PURE
            ]
            child.graph.graph.pop("given", None)
            types = list(child.function.inputs)
            for k, arg in indexed(child.graph, "_Arg").items():
                types[k] = arg.output_dtypes[0]
            old = child.function
            made = Function.from_graph(
                library.new_name(old.name), child.graph, types, must_run, old.attrs, old.unique
            )
            ref = library.add(made)
            value: Any = ref
            if child.key == "branches":
                value = tuple(
                    ref if k == child.number else old
                    for k, old in enumerate(node.attrs["branches"])
                )
            node.attrs[child.key] = value


class AliasClasses:
    """Classes of tensors for the same object, by union-find over edges.

    Source: R. Tarjan, "Efficiency of a good but not linear set union algorithm".
    """

    def __init__(self, top: Scope) -> None:
        self.scopes = {id(scope): scope for scope in top.all()}
        self._parent: dict[ScopedTensor, ScopedTensor] = {}
        for scope in self.scopes.values():
            for node in scope.graph.op_nodes():
                if is_structured(node):
                    self._through_bodies(scope, node)

    def find(self, place: ScopedTensor) -> ScopedTensor:
        """Return the representative of a tensor's alias class."""
        path = []
        while (up := self._parent.get(place, place)) != place:
            path.append(place)
            place = up
        for low in path:
            self._parent[low] = place
        return place

    def join(self, a: ScopedTensor, b: ScopedTensor) -> None:
        """Merge the alias classes of two tensors."""
        self._parent[self.find(a)] = self.find(b)

    def _through_bodies(self, scope: Scope, node: Node) -> None:
        loop = node.has_trait(WHILE)
        inputs = scope.graph.inputs(node.name)[0 if loop else 1 :]
        for child in scope.children[node.name]:
            for k, arg in indexed(child.graph, "_Arg").items():
                self.join((id(scope), *inputs[k]), (id(child), arg.name, 0))
            if child.key == "cond":
                continue
            for k, result in indexed(child.graph, "_Retval").items():
                inside = (id(child), *child.graph.inputs(result.name)[0])
                self.join(inside, (id(scope), node.name, k))
                if loop:
                    self.join(inside, (id(scope), *inputs[k]))


__all__ = [
    "ScopedTensor",
    "Scope",
    "AliasClasses",
    "close_scopes",
    "fold_scopes",
    "is_structured",
    "open_scopes",
]
