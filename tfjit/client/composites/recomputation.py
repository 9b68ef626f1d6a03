"""`recompute_grad`: functions that are computed again for their gradient."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tfjit import ops
from tfjit.client.variables.variable_scope import get_variable_scope, variable_scope
from tfjit.framework.graphs.default_graph import control_dependencies
from tfjit.ops.autodiff.backprop import gradients
from tfjit.ops.autodiff.custom_gradient import custom_gradient

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Structure


def recompute_grad(f: Callable[..., Structure]) -> Callable[..., Structure]:
    """Decorate a function whose values are computed again for the gradient.

    f: of tensors; its resource variables are read again, so a function that makes them needs a
    scope with reuse=tf.AUTO_REUSE. The values between are not kept from the forward pass for the
    backward pass: less memory for more time. Source: Chen et al., "Training Deep Nets with
    Sublinear Memory Cost", 2016.
    """

    @functools.wraps(f)
    def called(*args: Any, **kwargs: Any) -> Structure:
        scope = get_variable_scope()

        @custom_gradient
        def recomputed(*inputs: Any) -> Structure:
            def gradient(*dy: Any, variables: Any = ()) -> Structure:
                with control_dependencies(dy), variable_scope(scope, auxiliary_name_scope=False):
                    # the inputs may depend on the variables: that is not for this gradient
                    again = [ops.stop_gradient(value) for value in inputs]
                    results = f(*again, **kwargs)
                found = gradients(
                    results, [*again, *variables], list(dy), unconnected_gradients="zero"
                )
                of_inputs, of_variables = found[: len(again)], found[len(again) :]
                return (of_inputs, of_variables) if variables else of_inputs

            return f(*inputs, **kwargs), gradient

        return recomputed(*args)

    return called
