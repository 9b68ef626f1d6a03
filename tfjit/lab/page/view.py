"""Show a run as a page, in a file or a notebook."""

from __future__ import annotations

import html
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tfjit.client.session.base_session import BaseSession
from tfjit.kernels.executor.roofline import machine_limits
from tfjit.lab.page.history_runs import GraphStory, graph_story
from tfjit.lab.page.html_text import page_html
from tfjit.lab.page.page_data import page_data
from tfjit.lab.rewrites.subject import opened

if TYPE_CHECKING:
    from tfjit.client.session.base_session import Passes
    from tfjit.framework.graphs.typing import FeedDict, Fetches
    from tfjit.runtime.profiling.explain import Explanation

_FRAME_PIXELS: Final = 720  # height in a notebook


@dataclass(frozen=True, slots=True)
class View:
    """A page, ready to be written.

    data: its contents as JSON's types (`page_data.py`).
    """

    data: Mapping[str, object]

    def html(self) -> str:
        """Return the page, which needs no other file."""
        return page_html(self.data)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the page and return its path."""
        target = Path(path)
        target.write_text(self.html(), encoding="utf-8")
        return target

    def _repr_html_(self) -> str:
        """Return the page in a frame, apart from a notebook's scripts."""
        return (
            f'<iframe srcdoc="{html.escape(self.html())}" sandbox="allow-scripts" '
            f'style="width: 100%; height: {_FRAME_PIXELS}px; border: 0"></iframe>'
        )


def view(
    subject: object,
    fetches: Fetches,
    feeds: Mapping[object, object] | None = None,
    *,
    feed_dict: FeedDict | None = None,
    measure: bool = False,
    passes: Passes = None,
    title: str = "",
) -> View:
    """Return the page of a run: graph, passes, kernels and times.

    subject: an open session; or a graph, a GraphDef, a model or its path. fetches, feeds,
    feed_dict, measure: as `Session.explain` takes them. passes: as `Session` takes them; an open
    session has its own. title: of the page. Raises the errors of
    `Session.explain`, ValueError for passes of a session.
    """
    if isinstance(subject, BaseSession):
        if passes is not None:
            raise ValueError("passes: an open session has its own; give a graph or a model")
        explanation: Explanation = subject.explain(fetches, feeds, measure, feed_dict)
        return page_of(explanation, title)
    with opened(subject, passes=passes) as session:
        return page_of(session.explain(fetches, feeds, measure, feed_dict), title)


def page_of(explanation: Explanation, title: str = "") -> View:
    """Return the page of an explanation.

    title: the plan's signature by default. Raises CancelledError once the session is closed, since
    the passes run again for their history.
    """
    limits = explanation.measured.limits if explanation.measured else machine_limits()
    story = _story(explanation)
    return View(page_data(explanation, story, title or explanation.signature, limits))


def _story(explanation: Explanation) -> GraphStory:
    """Run the passes of the explained plan again, on record."""
    plan, variant = explanation.plan, explanation.variant
    if plan is None or variant is None:
        return GraphStory()
    from tfjit.passes.history.history import History

    history = History()
    spec = plan.spec(variant.feed_shapes)
    with plan.session.settings():
        _, report = plan.session.build_partitions(spec, history=history)
    return graph_story(history, report, (node.name for node in explanation.nodes))


__all__ = ["View", "page_of", "view"]
