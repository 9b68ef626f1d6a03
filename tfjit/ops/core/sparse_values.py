"""Functions of a tensor that map a sparse tensor's values, too."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

from tfjit.ops.core.dispatch import Dispatching

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import TensorLike


def is_sparse(value: TensorLike) -> bool:
    """Tell whether a value is a sparse tensor.

    Its class stands in a layer above.
    """
    return hasattr(value, "with_values") and not isinstance(value, Dispatching)


def maps_sparse_values(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function of one tensor take a sparse tensor.

    The result has its places and other values.
    """

    @wraps(function)
    def apply(x: Any, *args: Any, **keywords: Any) -> Any:
        if is_sparse(x):
            return x.with_values(function(x.values, *args, **keywords))
        return function(x, *args, **keywords)

    return apply
