"""The operations of a graph that a Supervisor runs."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from tfjit import ops
from tfjit.client.saving.saver import Saver
from tfjit.client.variables.variable_collections import (
    global_variables,
    global_variables_initializer,
    local_variables_initializer,
    report_uninitialized_variables,
    tables_initializer,
)
from tfjit.framework.graphs.default_graph import (
    add_to_collection,
    get_collection,
    get_default_graph,
)
from tfjit.framework.graphs.graph_keys import GraphKeys

if TYPE_CHECKING:
    from tfjit.framework.graphs.graph import Graph
    from tfjit.framework.graphs.operation import Tensor
    from tfjit.framework.graphs.typing import FeedDict, Fetches

_LOGGER = logging.getLogger("tensorflow")

# The value of an argument that was left out, as TensorFlow spells it; None means: none.
USE_DEFAULT: Final[Any] = 0


class SupervisedGraph:
    """A graph with operations that initialize, report and summarize.

    One that is left out is the first of its collection in the graph, made if missing; None means
    none.
    """

    def __init__(
        self,
        graph: Graph | None,
        ready_op: Fetches | None,
        ready_for_local_init_op: Fetches | None,
        init_op: Fetches | None,
        init_feed_dict: FeedDict | None,
        local_init_op: Fetches | None,
        summary_op: Fetches | None,
        saver: Saver | None,
        global_step: Fetches | None,
    ) -> None:
        self._graph = graph if graph is not None else get_default_graph()
        with self._graph.as_default():
            self._ready_op = _given_or_first(
                ready_op, GraphKeys.READY_OP, report_uninitialized_variables
            )
            self._ready_for_local_init_op = _given_or_first(
                ready_for_local_init_op, GraphKeys.READY_FOR_LOCAL_INIT_OP, _none
            )
            self._init_op = _given_or_first(
                init_op, GraphKeys.INIT_OP, global_variables_initializer
            )
            self._local_init_op = _given_or_first(
                local_init_op, GraphKeys.LOCAL_INIT_OP, _default_local_init_op
            )
            self._saver: Saver | None = _given_or_first(saver, GraphKeys.SAVERS, _default_saver)
            self._summary_op = _given_or_first(
                summary_op, GraphKeys.SUMMARY_OP, _default_summary_op
            )
            self._global_step = _given_or_first(
                global_step, GraphKeys.GLOBAL_STEP, _default_global_step
            )
        self._init_feed_dict = init_feed_dict

    @property
    def init_op(self) -> Fetches | None:
        """The operation that gives all variables values, or None."""
        return self._init_op

    @property
    def init_feed_dict(self) -> FeedDict | None:
        """The feeds of init_op."""
        return self._init_feed_dict

    @property
    def ready_op(self) -> Fetches | None:
        """The names of variables without value, or None."""
        return self._ready_op

    @property
    def ready_for_local_init_op(self) -> Fetches | None:
        """The names of variables that local_init_op waits for, or None."""
        return self._ready_for_local_init_op

    @property
    def summary_op(self) -> Fetches | None:
        """All summaries, or None."""
        return self._summary_op

    @property
    def global_step(self) -> Any:
        """The global step, or None."""
        return self._global_step

    @property
    def saver(self) -> Saver | None:
        """The Saver of checkpoints, or None."""
        return self._saver


def _given_or_first(given: object, key: str, make: Callable[[], object]) -> Any:
    """Return an argument, or the first item of a collection.

    The item is made if missing.
    """
    if given is not USE_DEFAULT:
        return given
    items = get_collection(key)
    if len(items) > 1:
        _LOGGER.info("Found %d %s operations. Returning the first one.", len(items), key)
    if items:
        return items[0]
    made = make()
    if made is not None:
        add_to_collection(key, made)
    return made


def _none() -> None:
    """Make nothing."""


def _default_local_init_op() -> object:
    return ops.group(local_variables_initializer(), tables_initializer())


def _default_saver() -> Saver | None:
    return Saver() if global_variables() else None


def _default_summary_op() -> object:
    from tfjit.client.data.summary_ops import merge_all

    return merge_all()


def _default_global_step() -> Tensor | None:
    """Return the tensor "global_step:0" of the graph, or None."""
    try:
        found: Tensor = get_default_graph().get_tensor_by_name("global_step:0")
    except KeyError:
        return None
    if found.dtype.base_dtype.name in ("int32", "int64"):
        return found
    _LOGGER.warning("Found 'global_step' is not an int type: %s", found.dtype)
    return None
