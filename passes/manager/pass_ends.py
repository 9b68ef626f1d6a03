"""Compare the ends of a graph before and after a user's pass.

Ends are the arguments and results, the tensors from and to other devices, and the targets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

from tfjit.framework.errors import InternalError

if TYPE_CHECKING:
    from tfjit.framework.types.dtypes import DType
    from tfjit.passes.ir.dataflow_graph import DataflowGraph, Node
    from tfjit.passes.manager.pass_context import PassContext

_SENT: Final = frozenset({"_Retval", "_Send", "_HostSend"})
_RECEIVED: Final = frozenset({"_Arg", "_Recv", "_HostRecv"})


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
        if node.op in _SENT or node.op in _RECEIVED:
            key = node.attrs.get("index", node.attrs.get("tensor_name"))
            dtypes = (*node.input_dtypes, *node.output_dtypes)
            found[node.name] = End(node.op, key, dtypes, _text(node, ctx), node.op in _RECEIVED)
    return found


def _text(node: Node, ctx: PassContext) -> str:
    """Describe an end by its feed or fetch."""
    index = node.attrs.get("index")
    if index is None:
        verb = "sent to" if node.op in _SENT else "received from"
        return f"the tensor {node.attrs.get('tensor_name', b'').decode()!r} {verb} another device"
    role, names = ("fetch", ctx.spec.fetches) if node.op in _SENT else ("feed", ctx.spec.feeds)
    if ctx.where or index >= len(names):
        return f"{'result' if node.op in _SENT else 'argument'} {index} of the body"
    return f"the {role} {names[index]!r}"


def check_ends(
    pass_name: str, before: dict[str, End], graph: DataflowGraph, ctx: PassContext
) -> None:
    """Check that a pass has kept the ends.

    Raises InternalError with pass and node.
    """
    after = ends_of(graph, ctx)
    for name, end in before.items():
        found = after.get(name)
        if found is None:
            if not end.may_go:
                _fail(
                    pass_name,
                    f"node '{name}', {end.text}, is gone{f' or is no {end.kind}' if end.kind else ''}",
                )
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
