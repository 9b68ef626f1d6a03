"""The error of files that are no images."""

from __future__ import annotations


class CorruptImage(Exception):
    """The bytes of a file break the rules of its format.

    in_header: nothing of the image could be read.
    """

    def __init__(self, reason: str, in_header: bool = False) -> None:
        super().__init__(reason)
        self.in_header = in_header
