"""Read the error texts of both libraries."""

from __future__ import annotations


def cause(error: Exception) -> str:
    """The line that says what is wrong."""
    lines = str(error).split("\n\nOriginal")[0].splitlines()
    return [
        line
        for line in lines
        if line.strip() and not line.startswith(("\t [[", "Node:", "Detected", "Hint:"))
    ][-1]
