"""The variable that counts a program's training steps."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

from tfjit.client.variables.get_variable import get_variable
from tfjit.client.variables.initializers import Zeros
from tfjit.client.variables.variables import Variable
from tfjit.framework.graphs.default_graph import get_default_graph
from tfjit.framework.graphs.graph import Graph
from tfjit.framework.graphs.graph_keys import GraphKeys
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import SessionLike

_READ_KEY: Final = "global_step_read_op_cache"


def get_global_step(graph: Graph | None = None) -> Any:
    """Return the graph's global step, or None.

    Raises TypeError when it is no integer scalar.
    """
    graph = graph or get_default_graph()
    steps = graph.get_collection(GraphKeys.GLOBAL_STEP)
    if len(steps) > 1:
        raise TypeError(f"Multiple tensors in global_step collection: {steps}")
    found = steps[0] if steps else None
    if found is None:
        try:
            found = graph.get_tensor_by_name("global_step:0")
        except KeyError:
            return None
    assert_global_step(found)
    return found


def assert_global_step(global_step_tensor: object) -> None:
    """Check that an object may be a global step.

    Raises TypeError unless it is an integer scalar variable or tensor.
    """
    if not isinstance(global_step_tensor, (Variable, Tensor)):
        raise TypeError(
            f'Existing "global_step" must be a Variable or Tensor: {global_step_tensor}.'
        )
    if not global_step_tensor.dtype.base_dtype.is_integer:
        raise TypeError(
            f'Existing "global_step" does not have integer type: {global_step_tensor.dtype}'
        )
    if global_step_tensor.get_shape().rank not in (0, None):
        raise TypeError(f'Existing "global_step" is not scalar: {global_step_tensor.get_shape()}')


def create_global_step(graph: Graph | None = None) -> Any:
    """Return a new global step, an int64 scalar that starts at 0.

    Raises ValueError when the graph has one.
    """
    graph = graph or get_default_graph()
    if get_global_step(graph) is not None:
        raise ValueError('"global_step" already exists.')
    with ExitStack() as stack:
        if graph is not get_default_graph():
            stack.enter_context(graph.as_default())
        stack.enter_context(graph.name_scope(None))
        return get_variable(
            GraphKeys.GLOBAL_STEP,
            shape=[],
            dtype=dtypes.int64,
            initializer=Zeros(),
            trainable=False,
            collections=[GraphKeys.GLOBAL_VARIABLES, GraphKeys.GLOBAL_STEP],
        )


def get_or_create_global_step(graph: Graph | None = None) -> Any:
    """Return the graph's global step, made when missing."""
    graph = graph or get_default_graph()
    found = get_global_step(graph)
    return create_global_step(graph) if found is None else found


def global_step_read(graph: Graph | None = None) -> Tensor | None:
    """Return a copy of the global step, or None.

    It is made once a graph, and not ordered with updates in the same run. Raises RuntimeError for
    several.
    """
    graph = graph or get_default_graph()
    made = graph.get_collection(_READ_KEY)
    if len(made) > 1:
        raise RuntimeError(
            f"There are multiple items in collection {_READ_KEY}. There should be only one."
        )
    if made:
        found: Tensor = made[0]
        return found
    step = get_global_step(graph)
    if step is None:
        return None
    with ExitStack() as stack:
        if graph is not get_default_graph():
            stack.enter_context(graph.as_default())
        stack.enter_context(graph.name_scope(None))
        stack.enter_context(graph.name_scope(f"{step.op.name}/"))
        stack.enter_context(graph.control_dependencies(None))
        value = step.read_value() if isinstance(step, Variable) else step
        read: Tensor = value + 0
    graph.add_to_collection(_READ_KEY, read)
    return read


def global_step(sess: SessionLike, global_step_tensor: object) -> int:
    """Return the value of the global step in a session."""
    return int(sess.run(global_step_tensor))
