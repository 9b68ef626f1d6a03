"""`tfjit.linalg`: the functions of tfjit.ops.linalg, LU solvers, matrix exponentials."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from tfjit.client.composites.matrices import (
    expm,
    lu_matrix_inverse,
    lu_reconstruct,
    lu_solve,
)

__all__ = ["expm", "lu_matrix_inverse", "lu_reconstruct", "lu_solve"]


def __getattr__(name: str) -> Callable[..., object]:
    ops = importlib.import_module("tfjit.ops.linalg")
    if name.startswith("_") or name not in ops.__all__:
        raise AttributeError(f"module 'tfjit.linalg' has no attribute {name!r}")
    function: Callable[..., object] = getattr(ops, name)
    return function


def __dir__() -> list[str]:
    return sorted({*__all__, *importlib.import_module("tfjit.ops.linalg").__all__})
