"""`custom_gradient`: functions that have their own gradient."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tfjit.framework.graphs.default_graph import get_default_graph
from tfjit.framework.graphs.operation import Operation
from tfjit.framework.op_defs import gradient_registry
from tfjit.ops import raw_ops as raw
from tfjit.ops.autodiff.gradient_values import as_list
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Structure


def custom_gradient(f: Callable[..., Structure] | None = None) -> Callable[..., Structure]:
    """Decorate a function that has its own gradient.

    `f(*tensors)` returns `(outputs, gradient)`, and `gradients` uses `gradient(*output_gradients)`
    instead of differentiating the operations of `f`. outputs: a tensor or list; the gradient
    function returns one gradient for each input. `custom_gradient()` is the decorator, too.
    """
    if f is None:
        return custom_gradient

    def apply(*args: Any, **kwargs: Any) -> Structure:
        inputs = [convert_to_tensor(arg) for arg in args]
        outputs, gradient = f(*inputs, **kwargs)
        flat = [convert_to_tensor(output) for output in as_list(outputs)]
        graph = get_default_graph()
        op_type = f"CustomGradient-{graph.unique_name('custom')}-{id(gradient)}"

        def rule(op: Operation, *grads: Any) -> list[Any]:
            returned = as_list(gradient(*grads[: len(flat)]))
            if len(returned) != len(inputs):
                raise ValueError(
                    f"custom gradient function expected to return {len(inputs)} gradients, but "
                    f"returned {len(returned)} instead"
                )
            return [None] * len(flat) + returned

        gradient_registry.register(op_type, rule)
        with graph.gradient_override_map({"IdentityN": op_type}):
            joined = raw.IdentityN(input=[*flat, *inputs])
        results = joined[: len(flat)]
        return list(results) if isinstance(outputs, (list, tuple)) else results[0]

    apply.__name__ = getattr(f, "__name__", "custom_gradient")
    apply.__doc__ = f.__doc__
    return apply


def grad_pass_through(f: Callable[..., Structure]) -> Callable[..., Structure]:
    """Return a function with the gradient of the identity.

    The gradients of the outputs become those of the inputs; variables inside have none.
    """

    @custom_gradient
    def passed(*args: Any, **kwargs: Any) -> Structure:
        return f(*args, **kwargs), lambda *grads: list(grads)

    return functools.wraps(f)(passed)
