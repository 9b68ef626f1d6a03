"""Record the history of a run's plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tfjit.client.session.feeds import feed_slot, placeholders_behind
from tfjit.client.session.fetches import FetchMapper
from tfjit.client.session.stages import explained_feeds
from tfjit.lab.rewrites.subject import opened
from tfjit.passes.history.history import History
from tfjit.passes.ir.run_spec import RunSpec

if TYPE_CHECKING:
    from tfjit.client.session.base_session import Passes
    from tfjit.client.session.session import Session
    from tfjit.framework.graphs.typing import Fetches


def history(
    subject: object,
    fetches: Fetches,
    feeds: Mapping[object, object] | None = None,
    passes: Passes = None,
) -> History:
    """Return the history of the plan of one run; nothing is run.

    subject: a graph, a GraphDef, a model or its path. fetches: as `Session.run` has them. feeds:
    tensor or name -> a shape or a value, as `Session.explain` has them; a placeholder not named has
    its own shape, with 1 for unknown sizes. passes: as `Session` takes them. Raises the errors of
    `Session.run` before a step, and ValueError where nothing is computed.
    """
    found = History()
    with opened(subject, passes=passes, history=found) as session:
        _plan(session, fetches, feeds)
    return found


def _plan(session: Session, fetches: Fetches, feeds: Mapping[object, object] | None) -> None:
    """Build the partitions of a run."""
    mapper = FetchMapper(session._graph, fetches)
    session._extend()
    shapes, _ = explained_feeds(session, feeds, None)
    for tensor in placeholders_behind([leaf.element for leaf in mapper.leaves], set(shapes)):
        shapes[tensor.name] = tuple(size or 1 for size in feed_slot(tensor).shape or ())
    graph = session._graph
    dtypes = {
        name: graph.as_graph_element(name, allow_operation=False).dtype.base_dtype
        for name in shapes
    }
    spec = RunSpec(
        feeds=tuple(shapes),
        fetches=tuple(dict.fromkeys(mapper.tensors(shapes))),
        targets=tuple(mapper.targets()),
        feed_types={name: (dtypes[name], shape) for name, shape in shapes.items()},
    )
    if not spec.fetches and not spec.targets:
        raise ValueError("There is nothing to plan: whatever is fetched is fed.")
    runtime = session._runtime_session
    assert runtime is not None
    with runtime.settings():  # type: ignore[attr-defined]
        runtime.build_partitions(spec)  # type: ignore[attr-defined]


__all__ = ["history"]
