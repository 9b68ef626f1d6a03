"""The names of a step in parts, with TensorFlow's checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tfjit.framework import errors


class PartialRunNames:
    """The feeds and fetches of a partial run, and their state."""

    def __init__(self, graph: Any, feeds: Sequence[str], fetches: Sequence[str]) -> None:
        """Find the feeds that each fetch depends on.

        graph: the session's working graph.
        """
        self._feeds = dict.fromkeys(feeds, False)
        self._fetches = dict.fromkeys(fetches, False)
        self._ancestors = _fed_ancestors(graph, list(feeds), list(fetches))

    @property
    def over(self) -> bool:
        """Return whether all is fed and fetched."""
        return all(self._feeds.values()) and all(self._fetches.values())

    def mark(self, feeds: Sequence[str], fetches: Sequence[str]) -> None:
        """Record names as fed and fetched."""
        self._feeds.update(dict.fromkeys(feeds, True))
        self._fetches.update(dict.fromkeys(fetches, True))

    def check(self, feeds: Sequence[str], fetches: Sequence[str]) -> None:
        """Check the names of a part.

        Raises InvalidArgumentError for names that were not set up, were used before or miss a feed;
        the run continues all the same.
        """
        for name in feeds:
            if name not in self._feeds:
                raise errors.InvalidArgumentError(
                    None, None, f"The feed {name} was not specified in partial_run_setup."
                )
            if self._feeds[name]:
                raise errors.InvalidArgumentError(
                    None, None, f"The feed {name} has already been fed."
                )
        for name in fetches:
            if name not in self._fetches:
                raise errors.InvalidArgumentError(
                    None, None, f"The fetch {name} was not specified in partial_run_setup."
                )
            if self._fetches[name]:
                raise errors.InvalidArgumentError(
                    None, None, f"The fetch {name} has already been fetched."
                )
        available = {name for name, fed in self._feeds.items() if fed} | {*feeds}
        for name in fetches:
            missing = min(self._ancestors[name] - available, default=None)
            if missing is not None:  # TensorFlow's sentence, which names the feed
                text = (
                    f"Fetch {missing} can't be computed from the feeds that have been fed so far."
                )
                raise errors.InvalidArgumentError(None, None, text)


def _fed_ancestors(graph: Any, feeds: list[str], fetches: list[str]) -> dict[str, frozenset[str]]:
    """Return the feeds that each fetch depends on."""
    from tfjit.passes.ir.run_spec import parse_tensor_name

    fed = {parse_tensor_name(name): name for name in feeds}
    result = {}
    for fetch in fetches:
        node, index = parse_tensor_name(fetch)
        found: set[str] = set()
        seen = {node}
        stack = [node]
        if (node, index) in fed:
            found.add(fed[node, index])
            stack = []
        while stack:
            name = stack.pop()
            if name not in graph:
                continue
            for source, output in graph.inputs(name):
                if (source, output) in fed:
                    found.add(fed[source, output])
                elif source not in seen:
                    seen.add(source)
                    stack.append(source)
            for source in graph.control_inputs(name):
                if source not in seen:
                    seen.add(source)
                    stack.append(source)
        result[fetch] = frozenset(found)
    return result
