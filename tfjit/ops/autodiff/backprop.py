"""`gradients`: reverse-mode differentiation of a graph by adding operations to it."""

from __future__ import annotations

import enum
import importlib
import pkgutil
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tfjit.framework.graphs.default_graph import get_default_graph
from tfjit.framework.graphs.function_graph import FunctionGraph, building
from tfjit.framework.graphs.indexed_slices import IndexedSlices
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes
from tfjit.ops import autodiff
from tfjit.ops import raw_ops as raw
from tfjit.ops.autodiff.backward_pass import backpropagate
from tfjit.ops.autodiff.gradient_values import Gradient, as_list, start_gradient
from tfjit.ops.control_flow.bodies import handle_data
from tfjit.ops.core.convert import convert_to_tensor
from tfjit.ops.core.dispatch import is_ragged

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Structure


class UnconnectedGradients(enum.Enum):
    """The result of `gradients` for an x that no y depends on."""

    NONE = "none"
    ZERO = "zero"


class AggregationMethod:
    """The way of adding gradients. All methods use one AddN."""

    ADD_N = 0
    DEFAULT = ADD_N
    EXPERIMENTAL_TREE = 1
    EXPERIMENTAL_ACCUMULATE_N = 2


def gradients(
    ys: object,
    xs: object,
    grad_ys: object = None,
    name: str = "gradients",
    colocate_gradients_with_ops: bool = False,
    gate_gradients: bool = False,
    aggregation_method: int | None = None,
    stop_gradients: object = None,
    unconnected_gradients: UnconnectedGradients | str = UnconnectedGradients.NONE,
) -> list[Gradient | None]:
    """Return the sum over all ys of dy/dx, for each x.

    A gradient is a tensor, `IndexedSlices` behind a gather, or None where no y depends on x.

    ys, xs: a tensor or variable, or a list of them. grad_ys: the gradient of each y (same shape;
    None: ones). colocate_gradients_with_ops: put new operations on the device of the operation they
    differentiate. gate_gradients: all gradients of an operation are ready before any is used.
    stop_gradients: tensors that count as constant. unconnected_gradients: ZERO gives zeros in place
    of None. Raises LookupError for an operation on the way that has no gradient, TypeError for
    dtypes that are not differentiable, ValueError for tensors of several graphs or a wrong number
    of grad_ys.
    """
    _load_rules()
    unconnected = UnconnectedGradients(unconnected_gradients)
    targets, sources = differentiated(ys), differentiated(xs)
    stops = differentiated(stop_gradients) if stop_gradients is not None else []
    starts = (
        [_flat(start) for start in as_list(grad_ys)]
        if grad_ys is not None
        else [None] * len(targets)
    )
    if len(starts) != len(targets):
        raise ValueError(
            f"Must specify a gradient for each y in ys: {len(targets)} ys, {len(starts)} grad_ys"
        )
    with _graph_of([*targets, *sources, *stops]), get_default_graph().name_scope(name):
        for i, y in enumerate(targets):
            starts[i] = start_gradient(y, starts[i], i)
        found = backpropagate(
            targets, sources, starts, stops, colocate_gradients_with_ops, gate_gradients
        )
        if unconnected is UnconnectedGradients.ZERO:
            found = [
                raw.ZerosLike(x=_value(x)) if g is None else g
                for g, x in zip(found, sources, strict=True)
            ]
    del aggregation_method  # one AddN for any method
    return [
        x.with_flat_values(g) if is_ragged(x) and g is not None else g
        for x, g in zip(as_list(xs), found, strict=True)
    ]


def _flat(value: Structure) -> Structure:
    """Return the flat values of a ragged tensor, another value itself."""
    return value.flat_values if is_ragged(value) else value


def _graph_of(values: Sequence[Tensor]) -> Structure:
    """Return the graph that these values' gradients are built in.

    It is made the default. Raises ValueError where they are of graphs that do not meet.
    """
    graph = values[0].graph if values else get_default_graph()
    for value in values:
        if isinstance(value.graph, FunctionGraph) and value.graph.can_capture_from(graph):
            graph = value.graph
    other = next(
        (
            v
            for v in values
            if v.graph is not graph
            and not (isinstance(graph, FunctionGraph) and graph.can_capture_from(v.graph))
        ),
        None,
    )
    if other is not None:
        raise ValueError(f"{other.name} is not in the graph of the others")
    return building(graph)


def differentiated(values: Structure) -> list[Tensor]:
    """Return the tensors to differentiate by.

    That of a variable is its handle or reference.
    """
    found = []
    for value in as_list(values):
        handle = getattr(value, "handle", None)
        if isinstance(handle, Tensor):
            found.append(handle)
        elif isinstance(value, IndexedSlices):
            found.append(value.values)
        else:
            found.append(convert_to_tensor(_flat(value), as_ref=True))
    return found


def _value(x: Tensor) -> Tensor:
    """Return a tensor's value; of a handle, its variable's value."""
    if x.dtype is not dtypes.resource:
        return x
    data = handle_data(x)
    if data is None:
        raise ValueError(f"gradients: nothing is known of the variable that {x.name} refers to")
    return raw.ReadVariableOp(resource=x, dtype=data[0][1])


def _load_rules() -> None:
    """Import each module of the rooms; op families register their rules."""
    for found in pkgutil.iter_modules(autodiff.__path__):
        package = importlib.import_module(f"{autodiff.__name__}.{found.name}")
        for module in pkgutil.iter_modules(getattr(package, "__path__", ())):
            importlib.import_module(f"{package.__name__}.{module.name}")
