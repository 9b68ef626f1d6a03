"""Compare the ends of a graph before and after a user's pass.

Ends are the arguments and results, the tensors from and to other devices, and the targets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from tfjit.framework.errors import InternalError
from tfjit.framework.op_defs.op_traits import RECV, SEND

if TYPE_CHECKING:
    from tfjit.framework.types.dtypes import DType
    from tfjit.passes.ir.dataflow_graph import DataflowGraph, Node
    from tfjit.passes.manager.pass_context import PassContext


class End(NamedTuple):
    """An end of a graph.

    kind: its op type, "" for a target. key: the index or tensor name in its attrs. text: for
    errors. may_go: whether an end without users may be removed.
    """

    kind: str
    key: object
    dtypes: tuple[DType, ...]
    text: str
    may_go: bool


def ends_of(graph: DataflowGraph, ctx: PassContext) -> dict[str, End]:
    """Return the ends of a graph by node."""
    found = {
        name: End("", None, (), "a target", False)
        for name in (ctx.spec.targets if not ctx.where else ())
        if name in graph
    }
    for node in graph.op_nodes():
        if _leaves(node) or _enters(node):
            key = node.attrs.get("index", node.attrs.get("tensor_name"))
            dtypes = (*node.input_dtypes, *node.output_dtypes)
            found[node.name] = End(node.op, key, dtypes, _text(node, ctx), _enters(node))
    return found


def _leaves(node: Node) -> bool:
    return node.op == "_Retval" or node.has_trait(SEND)


def _enters(node: Node) -> bool:
    return node.op == "_Arg" or node.has_trait(RECV)


def _text(node: Node, ctx: PassContext) -> str:
    """Describe an end by its feed or fetch."""
    index = node.attrs.get("index")
    if index is None:
        verb = "sent to" if _leaves(node) else "received from"
        return f"the tensor {node.attrs.get('tensor_name', b'').decode()!r} {verb} another device"
    role, names = ("fetch", ctx.spec.fetches) if _leaves(node) else ("feed", ctx.spec.feeds)
    if ctx.where or index >= len(names):
        return f"{'result' if _leaves(node) else 'argument'} {index} of the body"
    return f"the {role} {names[index]!r}"


def check_ends(
    pass_name: str, before: Mapping[str, End], graph: DataflowGraph, ctx: PassContext
) -> None:
    """Check that a pass has kept the ends.

    Raises InternalError with pass and node.
    """
    after = ends_of(graph, ctx)
    for name, end in before.items():
        found = after.get(name)
        if found is None:
            if not end.may_go:
                now = f"gone or no {end.kind}" if end.kind else "gone"
                _fail(pass_name, f"node '{name}', {end.text}, is {now}")
        elif found.dtypes != end.dtypes:
            _fail(
                pass_name,
                f"node '{name}', {end.text}, was {_dtypes(end)} and is {_dtypes(found)}",
            )
        elif (found.kind, found.key) != (end.kind, end.key):
            _fail(
                pass_name,
                f"node '{name}', {end.text}, was {end.kind} {end.key} and is {found.kind} "
                f"{found.key}",
            )
    for name, end in after.items():
        if name not in before:
            _fail(pass_name, f"node '{name}' ({end.kind}) is new: a pass adds no such nodes")


def _dtypes(end: End) -> str:
    return ", ".join(dtype.name for dtype in end.dtypes)


def _fail(pass_name: str, text: str) -> NoReturn:
    raise InternalError(None, None, f"after pass '{pass_name}': {text}")


__all__ = ["End", "check_ends", "ends_of"]
