"""Find the line and node at which a user's pass failed."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

from tfjit.passes.ir.node import Node

if TYPE_CHECKING:
    from tfjit.passes.manager.pass_context import Pass


def raised_at(error: BaseException, function: Pass) -> str:
    """Return " at node 'x' (Op) (file.py:12)" as far as known.

    The line is the last in the pass's own file; the node is the value of its variable `node`.
    """
    file = getattr(getattr(function, "__code__", None), "co_filename", None)
    found = ""
    trace = error.__traceback__
    while trace is not None:
        frame = trace.tb_frame
        if frame.f_code.co_filename == file:
            node = frame.f_locals.get("node")
            at = f" at node '{node.name}' ({node.op})" if isinstance(node, Node) else ""
            found = f"{at} ({PurePath(file).name}:{trace.tb_lineno})"
        trace = trace.tb_next
    return found


__all__ = ["raised_at"]
