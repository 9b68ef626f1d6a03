"""The reason for which a pass leaves a node, a list or a graph as it is."""

from __future__ import annotations


class Declined(Exception):
    """A rewrite does not apply; the text says why, for the log. Raised before anything changes."""
