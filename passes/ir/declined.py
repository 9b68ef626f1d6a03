"""Define the exception of a rewrite that does not apply."""

from __future__ import annotations


class Declined(Exception):
    """A rewrite does not apply; the text gives the reason.

    Raised before anything changes.
    """
