"""Present every op type as a function of inputs and attrs.

They are given by name: `raw_ops.MatMul(a=x, b=y, transpose_b=True)`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tfjit.framework.op_defs.op_def import OpDef
from tfjit.framework.op_defs.op_registry import registry
from tfjit.ops.core.apply import call


def _function(op_def: OpDef) -> Callable[..., Any]:
    op_type = op_def.name
    names = [arg.name for arg in op_def.inputs]

    def raw_op(name: str | None = None, **arguments: object) -> Any:
        return call(op_type, name, **arguments)

    raw_op.__name__ = raw_op.__qualname__ = op_type
    optional = [f"{a.name}=..." if a.has_default else a.name for a in op_def.attrs]
    raw_op.__doc__ = f"{op_type}({', '.join(names + optional)}): {op_def.summary()}"
    return raw_op


def __getattr__(name: str) -> Any:
    op_def = None if name.startswith("__") else registry.lookup(name)
    if op_def is None:
        raise AttributeError(
            f"module 'tfjit.raw_ops' has no attribute {name!r}: no op type of that name is "
            "registered"
        )
    function = globals()[name] = _function(op_def)
    return function


def __dir__() -> list[str]:
    return sorted(op_def.name for op_def in registry.list())
