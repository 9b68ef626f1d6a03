"""`custom_gradient`: functions that have their own gradient."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tfjit.framework.graphs.default_graph import get_default_graph
from tfjit.framework.graphs.graph import Graph
from tfjit.framework.graphs.graph_keys import GraphKeys
from tfjit.framework.graphs.operation import Operation, Tensor
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

    If the outputs depend on variables, the gradient function is called with a list of them as
    `variables` and returns (gradients of the inputs, gradients of the variables). Raises TypeError
    where that function has no such argument, and where `f` makes a variable that is no resource.
    """
    if f is None:
        return custom_gradient

    def apply(*args: Any, **kwargs: Any) -> Structure:
        graph = get_default_graph()
        before = {id(variable) for variable in _variables(graph)}
        inputs = [convert_to_tensor(arg) for arg in args]
        outputs, gradient = f(*inputs, **kwargs)
        flat = [convert_to_tensor(output) for output in as_list(outputs)]
        for variable in _variables(graph):
            if id(variable) not in before and variable.op.type != "VarHandleOp":
                raise TypeError(
                    "All variables used by a function wrapped with @custom_gradient must be "
                    "`ResourceVariable`s. Ensure that no `variable_scope` is created with "
                    "`use_resource=False`."
                )
        used = _used_variables(graph, inputs, flat)
        if used and not _accepts_variables(gradient):
            raise TypeError(
                "@tf.custom_gradient grad_fn must accept keyword argument 'variables', since "
                f"function uses variables: {used}"
            )
        op_type = f"CustomGradient-{graph.unique_name('custom')}-{id(gradient)}"

        def rule(op: Operation, *grads: Any) -> list[Any]:
            of_variables: list[Structure] = []
            if used:
                of_inputs, of_variables = gradient(*grads[: len(flat)], variables=used)
            else:
                of_inputs = gradient(*grads[: len(flat)])
            returned = as_list(of_inputs)
            for name, wanted, found in (
                ("inputs", inputs, returned),
                ("variables", used, of_variables),
            ):
                if len(found) != len(wanted):
                    raise ValueError(
                        f"custom gradient function expected to return {len(wanted)} gradients of "
                        f"{name}, but returned {len(found)} instead"
                    )
            return [None] * len(flat) + returned + list(of_variables)

        gradient_registry.register(op_type, rule)
        with graph.gradient_override_map({"IdentityN": op_type}):
            joined = raw.IdentityN(input=[*flat, *inputs, *map(convert_to_tensor, used)])
        results = joined[: len(flat)]
        return list(results) if isinstance(outputs, (list, tuple)) else results[0]

    apply.__name__ = getattr(f, "__name__", "custom_gradient")
    apply.__doc__ = f.__doc__
    return apply


def _variables(graph: Graph) -> list[Structure]:
    """Return the global and local variables."""
    keys = (GraphKeys.GLOBAL_VARIABLES, GraphKeys.LOCAL_VARIABLES)
    return [variable for key in keys for variable in graph.get_collection(key)]


def _used_variables(graph: Graph, inputs: list[Tensor], outputs: list[Tensor]) -> list[Structure]:
    """Return the variables that outputs depend on beside the inputs."""
    stops = set(inputs)
    seen: set[Tensor] = set()
    waiting = list(outputs)
    found = set()
    while waiting:
        tensor = waiting.pop()
        if tensor not in seen and tensor not in stops:
            seen.add(tensor)
            waiting += tensor.op.inputs
            found.add(tensor.op)
    used = [variable for variable in _variables(graph) if variable.op in found]
    return sorted(used, key=lambda variable: variable.name)


def _accepts_variables(gradient: Callable[..., Structure]) -> bool:
    parameters = inspect.signature(gradient).parameters
    return "variables" in parameters or any(
        parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()
    )


def grad_pass_through(f: Callable[..., Structure]) -> Callable[..., Structure]:
    """Return a function with the gradient of the identity.

    The gradients of the outputs become those of the inputs; variables inside have none.
    """

    @custom_gradient
    def passed(*args: Any, **kwargs: Any) -> Structure:
        return f(*args, **kwargs), lambda *grads: list(grads)

    return functools.wraps(f)(passed)
