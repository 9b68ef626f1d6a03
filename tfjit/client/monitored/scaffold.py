"""Scaffold: the operations and the Saver that a training program needs."""

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
    device,
    get_collection,
    get_default_graph,
    name_scope,
)
from tfjit.framework.graphs.graph_keys import GraphKeys
from tfjit.framework.types import dtypes

if TYPE_CHECKING:
    from tfjit.framework.graphs.operation import Operation, Tensor
    from tfjit.framework.graphs.typing import FeedDict, Fetches, SessionLike

_LOGGER: Final = logging.getLogger("tensorflow")
SAVED_MODEL_INITIALIZERS: Final = "saved_model_initializers"
_FIELDS: Final = (
    *("init_op", "init_feed_dict", "ready_op", "ready_for_local_init_op"),
    *("local_init_op", "local_init_feed_dict", "summary_op", "saver"),
)


class Scaffold:
    """Parts of a training program, each with a default.

    A default is the item of the part's collection in the graph (`GraphKeys.INIT_OP`, say), or is
    made by `finalize`. init_op: gives all variables values; not run where a checkpoint is restored.
    init_feed_dict: for init_op. init_fn: called with the Scaffold and the session after init_op.
    ready_op: a vector with the names of variables without value. ready_for_local_init_op: the same,
    before local_init_op runs. local_init_op: run in each new session. summary_op: all summaries.
    saver: of checkpoints. copy_from_scaffold: gives the parts that are None.
    """

    def __init__(
        self,
        init_op: Fetches | None = None,
        init_feed_dict: FeedDict | None = None,
        init_fn: Callable[[Scaffold, SessionLike], object] | None = None,
        ready_op: Fetches | None = None,
        ready_for_local_init_op: Fetches | None = None,
        local_init_op: Fetches | None = None,
        summary_op: Fetches | None = None,
        saver: Saver | None = None,
        copy_from_scaffold: Scaffold | None = None,
        local_init_feed_dict: FeedDict | None = None,
    ) -> None:
        given = (
            *(init_op, init_feed_dict, ready_op, ready_for_local_init_op),
            *(local_init_op, local_init_feed_dict, summary_op, saver),
        )
        self._parts: dict[str, Any] = dict(zip(_FIELDS, given, strict=True))
        self._init_function = init_fn
        if copy_from_scaffold is not None:
            if not isinstance(copy_from_scaffold, Scaffold):
                raise TypeError("copy_from_scaffold is not a Scaffold instance.")
            for field, part in copy_from_scaffold._parts.items():
                if self._parts[field] is None:
                    self._parts[field] = part
            if init_fn is None:
                self._init_function = copy_from_scaffold._init_function

    def finalize(self) -> Scaffold:
        """Make the missing parts, and finalize the default graph."""
        for field, key, make in (
            ("init_op", GraphKeys.INIT_OP, _default_init_op),
            ("ready_op", GraphKeys.READY_OP, _default_ready_op),
            (
                "ready_for_local_init_op",
                GraphKeys.READY_FOR_LOCAL_INIT_OP,
                _default_ready_for_local_init_op,
            ),
            ("local_init_op", GraphKeys.LOCAL_INIT_OP, Scaffold.default_local_init_op),
            ("summary_op", GraphKeys.SUMMARY_OP, _default_summary_op),
        ):
            if self._parts[field] is None:
                self._parts[field] = Scaffold.get_or_default(field, key, make)
        if self._parts["saver"] is None:
            self._parts["saver"] = default_saver()
        self._parts["saver"].build()
        get_default_graph().finalize()
        _LOGGER.info("Graph was finalized.")
        return self

    @property
    def init_fn(self) -> Callable[[SessionLike], object] | None:
        """The function of the constructor, which takes a session alone here."""
        function = self._init_function
        return None if function is None else lambda session: function(self, session)

    @property
    def init_op(self) -> Fetches | None:
        """The operation that gives all variables values."""
        return self._parts["init_op"]

    @property
    def init_feed_dict(self) -> FeedDict | None:
        """The feeds of init_op."""
        return self._parts["init_feed_dict"]

    @property
    def ready_op(self) -> Fetches | None:
        """The names of variables without value."""
        return self._parts["ready_op"]

    @property
    def ready_for_local_init_op(self) -> Fetches | None:
        """The names of variables that local_init_op waits for."""
        return self._parts["ready_for_local_init_op"]

    @property
    def local_init_op(self) -> Fetches | None:
        """The operation that each new session runs."""
        return self._parts["local_init_op"]

    @property
    def local_init_feed_dict(self) -> FeedDict | None:
        """The feeds of local_init_op."""
        return self._parts["local_init_feed_dict"]

    @property
    def summary_op(self) -> Fetches | None:
        """All summaries, or None."""
        return self._parts["summary_op"]

    @property
    def saver(self) -> Any:
        """The Saver of checkpoints."""
        return self._parts["saver"]

    @staticmethod
    def get_or_default(
        arg_name: str, collection_key: str, default_constructor: Callable[[], object]
    ) -> Any:
        """Return the item of a collection, made if missing.

        Raises RuntimeError for several items.
        """
        items = get_collection(collection_key)
        if len(items) > 1:
            raise RuntimeError(
                f'More than one item in the collection "{collection_key}". Please indicate which '
                f"one to use by passing it to the tf.Scaffold constructor as:  "
                f"tf.Scaffold({arg_name}=item to use)"
            )
        if items:
            return items[0]
        made = default_constructor()
        if made is not None:
            add_to_collection(collection_key, made)
        return made

    @staticmethod
    def default_local_init_op() -> Operation:
        """Return an operation that initializes local variables and tables."""
        return ops.group(
            local_variables_initializer(),
            tables_initializer(),
            _initialized(GraphKeys.LOCAL_RESOURCES),
        )


def default_saver() -> Saver:
    """Return the Saver that the graph lists, made and listed if missing.

    Raises RuntimeError where the graph lists several.
    """
    savers = get_collection(GraphKeys.SAVERS)
    if len(savers) > 1:
        raise RuntimeError(
            f"More than one item in collection {GraphKeys.SAVERS}. Please indicate which one to "
            "use by passing it to the constructor."
        )
    if savers:
        found: Saver = savers[0]
        return found
    made = Saver(sharded=True, allow_empty=True)
    add_to_collection(GraphKeys.SAVERS, made)
    return made


def _default_init_op() -> Operation:
    return ops.group(
        global_variables_initializer(),
        _initialized(GraphKeys.RESOURCES),
        *get_collection(SAVED_MODEL_INITIALIZERS),
    )


def _default_ready_op() -> Tensor:
    return _joined(report_uninitialized_variables(), GraphKeys.RESOURCES, GraphKeys.LOCAL_RESOURCES)


def _default_ready_for_local_init_op() -> Tensor:
    return _joined(report_uninitialized_variables(global_variables()), GraphKeys.RESOURCES)


def _joined(variables: Tensor, *collections: str) -> Tensor:
    """Return the names of variables and of resources without value."""
    listed = [resource for key in collections for resource in get_collection(key)]
    with name_scope("report_uninitialized_resources"), device("/cpu:0"):
        if listed:
            ready = ops.stack([resource.is_initialized for resource in listed])
            names = ops.constant([resource.handle.name for resource in listed])
            missing = ops.boolean_mask(names, ops.logical_not(ready))
        else:
            missing = ops.constant([], dtype=dtypes.string)
    return ops.concat([variables, missing], 0)


def _initialized(collection: str) -> Operation:
    return ops.group(*[resource.create for resource in get_collection(collection)], name="init")


def _default_summary_op() -> object:
    from tfjit.client.data.summary_ops import merge_all

    return merge_all()
