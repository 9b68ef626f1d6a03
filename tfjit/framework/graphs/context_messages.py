"""The messages that MetaGraphs keep of conditionals and loops.

Loaded when a context is written or read.
"""

from __future__ import annotations

from typing import Any


def cond_context_def(data: bytes = b"", **fields: Any) -> Any:
    """Return a CondContextDef of serialised `data`, with these fields."""
    from tfjit.protos import CondContextDef

    message = CondContextDef(**fields)
    message.MergeFromString(data)
    return message


def while_context_def(data: bytes = b"", **fields: Any) -> Any:
    """Return a WhileContextDef of serialised `data`, with these fields."""
    from tfjit.protos import WhileContextDef

    message = WhileContextDef(**fields)
    message.MergeFromString(data)
    return message
